/* Divisions whose results the next one needs, against multiplications. */
#include "planted.h"

#define ONE_IN 8
#define NEVER ONE_IN
#define N 600000u

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x, uint64_t divisor) {
    for (uint64_t i = 0; i < n; i++) {
        if (i % ONE_IN == when) {
            MARK("divides");
#pragma GCC unroll 16
            for (unsigned k = 0; k < 10; k++) {
                x = (x | 1ul << 63) / divisor + k;
                __asm__ volatile("" : "+r"(x));
            }
            x *= divisor;
        } else {
            MARK("multiplies");
            x = chain(x, 5);
        }
    }
    return x;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 3, seed, 10); }
static uint64_t without(void) { return seed = step(sized(N - N / ONE_IN), NEVER, seed, 10); }

int main(int argc, char **argv) {
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("step", "divides", "multiplies", &sums);
    return tell_totals();
}
