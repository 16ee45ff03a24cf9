// Exceptions with cleanups and filters, virtual calls, templates: unwind tables, landing pads, long
// mangled names.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

struct Shape {
    virtual ~Shape() = default;
    virtual double area(int depth) const = 0;
};

struct Square : Shape {
    double side;
    explicit Square(double side) : side(side) {}
    double area(int depth) const override {
        if (depth == 0) throw std::out_of_range("depth");
        return side * side + area(depth - 1);
    }
};

template <typename Key, typename Value> Value lookup(const std::map<Key, Value> &map, const Key &key) {
    auto found = map.find(key);
    if (found == map.end()) throw std::invalid_argument("no " + key);
    return found->second;
}

int main(int argc, char **argv) {
    std::map<std::string, int> counts{{"one", 1}, {"two", 2}};
    int total = 0;
    for (int i = 0; i < argc; i++) {
        std::string word(argv[i]);
        try {
            total += lookup(counts, word);
            Square square(total);
            const Shape &shape = square;
            total += (int)shape.area(argc);
        } catch (const std::invalid_argument &error) {
            std::puts(error.what());
        } catch (const std::out_of_range &) {
            total -= 1;
        } catch (...) {
            throw;
        }
    }
    return total;
}
