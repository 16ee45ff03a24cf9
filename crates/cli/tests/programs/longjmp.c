/* setjmp and longjmp over many frames, and the heavier getcontext and setcontext. */
#include "check.h"

#include <setjmp.h>
#include <ucontext.h>

enum { LEVELS = 200 };

static jmp_buf targets[LEVELS];
static unsigned n_visits[LEVELS];

/* Goes down to the bottom, which throws to a level of its choice, which goes down again. */
static __attribute__((noinline)) uint64_t level(unsigned depth, uint64_t seed, volatile unsigned *budget) {
    volatile uint64_t digest = mix(seed, depth);
    int value = setjmp(targets[depth]);
    if (value != 0) {
        CHECK_EQUAL(value, depth + 1);
        digest = mix(digest, *budget);
    }
    n_visits[depth]++;
    if (depth + 1 < LEVELS)
        return level(depth + 1, digest, budget) ^ digest;
    if (*budget == 0)
        return digest;
    --*budget;
    unsigned target = busy(*budget, 200) % LEVELS;
    longjmp(targets[target], (int)target + 1);
}

static __attribute__((noinline)) uint64_t by_contexts(unsigned rounds) {
    ucontext_t context;
    volatile unsigned count = 0;
    volatile uint64_t digest = 0;
    CHECK_EQUAL(getcontext(&context), 0);
    digest = mix(digest, busy(count, 300));
    if (++count < rounds)
        setcontext(&context);
    CHECK_EQUAL(count, rounds);
    return digest;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    volatile unsigned budget = 8000 * scale;
    uint64_t digest = level(0, 1, &budget);
    for (unsigned i = 0; i < LEVELS; i++)
        digest = mix(digest, n_visits[i]);
    report("longjmp", digest);
    report("setcontext", by_contexts(10000 * scale));
}
