/* Loads that wait until two smaller stores have left the store buffer, against loads that get what
 * one store of their own size holds. */
#include "planted.h"

#define NEVER 2
#define N 400000u

union word {
    uint64_t whole;
    uint32_t halves[2];
};

static volatile union word word;

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    for (uint64_t i = 0; i < n; i++) {
        if (i % 2 == when) {
            MARK("stalls");
#pragma GCC unroll 8
            for (unsigned k = 0; k < 8; k++) {
                word.halves[0] = (uint32_t)x;
                word.halves[1] = (uint32_t)(x >> 7);
                x += word.whole;
            }
        } else {
            MARK("forwards");
#pragma GCC unroll 8
            for (unsigned k = 0; k < 8; k++) {
                word.whole = x;
                x += word.whole >> 7;
            }
        }
    }
    return x;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 1, seed); }
static uint64_t without(void) { return seed = step(sized(N / 2), NEVER, seed); }

int main(int argc, char **argv) {
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("step", "stalls", "forwards", &sums);
    return tell_totals();
}
