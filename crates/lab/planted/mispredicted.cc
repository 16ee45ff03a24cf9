// The branches of one function depend on chance, those of the other on a pattern. Both do the same
// work on either side, as far as their branches let them.
#include "planted.h"

static constexpr unsigned N = 1 << 18;

static inline __attribute__((always_inline)) uint64_t walk(uint64_t x, bool is_random) {
    const uint64_t n = sized(N);
    for (uint64_t i = 0; i < n; i++) {
        if (is_random ? x >> 63 : i & 1) {
            x = 3 * x + 1;
            // Arms without it would become one without a branch.
            __asm__ volatile("" : "+r"(x));
            x = chain(x, 2);
        } else {
            x = 5 * x + 1;
            __asm__ volatile("" : "+r"(x));
            x = chain(x, 2);
        }
    }
    return x;
}

static uint64_t seed = 1;
PLANTED uint64_t unpredictable() { return seed = walk(seed, true); }
PLANTED uint64_t predictable() { return seed = walk(seed, false); }

int main(int argc, char **argv) {
    double unpredictable_ns = 0, predictable_ns = 0;
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        unpredictable_ns += took_ns(unpredictable);
        predictable_ns += took_ns(predictable);
    }
    tell_function("unpredictable", unpredictable_ns, 0);
    tell_function("predictable", predictable_ns, 0);
    return tell_totals();
}
