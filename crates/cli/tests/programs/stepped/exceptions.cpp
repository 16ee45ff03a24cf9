// Exceptions that pass through frames with something to clean up, are caught, and thrown again.
#include <cstdio>

static int n_cleaned;

struct Guard {
    ~Guard() { n_cleaned++; }
};

__attribute__((noinline)) static int thrower(int n) {
    if (n % 5 == 3)
        throw n;
    if (n % 7 == 2)
        throw 'x';
    return n % 2 ? n : 1;
}

__attribute__((noinline)) static int passing(int n) {
    Guard guard;
    return thrower(n) + (n > 10 ? 1 : 2);
}

__attribute__((noinline)) static int catching(int n) {
    for (int i = 0; i < 3; i++)
        try {
            return passing(n + i);
        } catch (int caught) {
            if (caught > 20)
                throw;
        }
    return -1;
}

int main() {
    int sum = 0;
    for (int n = 0; n < 24; n++)
        try {
            sum += catching(n);
        } catch (char) {
            sum += 100;
        } catch (int caught) {
            sum += caught;
        }
    std::printf("%d %d\n", sum, n_cleaned);
}
