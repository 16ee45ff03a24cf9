/* A load that all paths share: it misses every cache after one arm of an earlier branch, and none
 * after the other. */
#include "planted.h"

#define N_FAR (1u << 26)
#define N_NEAR (1u << 8)
#define ONE_IN 8
#define NEVER ONE_IN
#define N 120000u

static uint32_t *far_words, *near_words;

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t *word;
        if (i % ONE_IN == when) {
            MARK("far");
            word = far_words + (x >> 32) % N_FAR;
        } else {
            MARK("near");
            word = near_words + (x >> 32) % N_NEAR;
        }
        __asm__ volatile("" : "+r"(word));
        x = chain(x + *word, 8);
    }
    return x;
}

PLANTED uint64_t prepare(void) {
    far_words = scattered(N_FAR);
    near_words = scattered(N_NEAR);
    return 0;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 3, seed); }
static uint64_t without(void) { return seed = step(sized(N - N / ONE_IN), NEVER, seed); }

int main(int argc, char **argv) {
    tell_function("prepare", took_ns(prepare), 0);
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("step", "far", "near", &sums);
    /* To give them back takes time, too. */
    free(far_words);
    free(near_words);
    return tell_totals();
}
