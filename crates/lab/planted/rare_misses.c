/* Four dependent loads that miss every cache, behind a branch that goes there once in 16 times. */
#include "planted.h"

#define N_WORDS (1u << 26)
#define ONE_IN 16
#define NEVER ONE_IN
#define N 72000u

static uint32_t *next_of;
static uint32_t cursor;

PLANTED uint64_t step(uint64_t n, uint64_t when) {
    uint64_t x = cursor;
    for (uint64_t i = 0; i < n; i++) {
        if (i % ONE_IN == when) {
            MARK("misses");
            uint32_t at = next_of[cursor ^ (uint32_t)(x & 1)];
            at = next_of[at];
            at = next_of[at];
            cursor = next_of[at];
            x ^= cursor;
        } else {
            MARK("computes");
            x = chain(x, 8);
        }
    }
    return x;
}

PLANTED uint64_t prepare(void) {
    next_of = scattered(N_WORDS);
    return 0;
}

static uint64_t with(void) { return step(sized(N), 3); }
static uint64_t without(void) { return step(sized(N - N / ONE_IN), NEVER); }

int main(int argc, char **argv) {
    tell_function("prepare", took_ns(prepare), 0);
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("step", "misses", "computes", &sums);
    /* To give it back takes time, too. */
    free(next_of);
    return tell_totals();
}
