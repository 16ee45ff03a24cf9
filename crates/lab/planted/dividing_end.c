/* A division that is the last instruction of its block: a processor that waits for it is found at
 * the first instruction of the next, which another path reaches, too. */
#include "planted.h"

#define ONE_IN 4
#define NEVER ONE_IN
#define N 400000u

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    const uint64_t divisor = 3;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = 0;
        /* The remainder is the dividend's upper half: smaller than the divisor. */
        __asm__ volatile("cmpq %[when], %[turn]\n\t"
                         "jne 2f\n\t" MARK_TEXT("divides")
                         "divq %[divisor]\n\t"
                         "divq %[divisor]\n\t"
                         "divq %[divisor]\n"
                         "2:\n\t"
                         "xorq $0x55, %%rax\n\t"
                         : "+a"(x), "+d"(rest)
                         : [divisor] "r"(divisor), [turn] "r"(i % ONE_IN), [when] "r"(when)
                         : "cc");
        x = (x | 1ul << 63) + rest;
    }
    return x;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 3, seed); }
static uint64_t without(void) { return seed = step(sized(N - N / ONE_IN), NEVER, seed); }

int main(int argc, char **argv) {
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("step", "divides", "!divides", &sums);
    return tell_totals();
}
