// Exceptions caught, cleaned up and rethrown; at -O2 gcc moves the landing pads into cold parts.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {

struct Guard {
    std::string name;
    explicit Guard(const char *text) : name(text) {}
    ~Guard() { std::puts(name.c_str()); }
};

template <typename T> __attribute__((noinline)) T checked(T value, T limit) {
    if (value > limit)
        throw std::out_of_range("value " + std::to_string(value));
    return value + 1;
}

__attribute__((noinline)) int guarded(int value) {
    Guard first("first"), second("second");
    std::vector<int> numbers(static_cast<std::size_t>(value), checked(value, 10));
    return numbers.empty() ? 0 : numbers.back();
}

__attribute__((noinline)) int caught(int value) {
    try {
        return guarded(value);
    } catch (const std::out_of_range &error) {
        std::puts(error.what());
        return -1;
    } catch (...) {
        std::puts("other");
        throw;
    }
}

} // namespace shapes

int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < argc + 20; i++)
        sum += shapes::caught(i);
    std::printf("%s %d\n", argv[0], sum);
    return 0;
}
