/* First stores to pages, on a path of their own that is taken once in 64 times. */
#include "planted.h"

#include <sys/mman.h>

#define PAGE 4096u
#define ONE_IN 64
#define NEVER ONE_IN
#define N (1u << 18)
/* Rounds are up to one and a half times as large as the usual one. */
#define SIZE ((size_t)2 * N / ONE_IN * PAGE)

static char *pages;

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    volatile char *next = pages;
    for (uint64_t i = 0; i < n; i++) {
        if (i % ONE_IN == when) {
            MARK("faults");
            *next = (char)x;
            next += PAGE;
            x += i;
        } else {
            MARK("computes");
            x = chain(x, 4);
        }
    }
    return x;
}

/* Gives the pages back. */
PLANTED uint64_t release(void) {
    REQUIRE(madvise(pages, SIZE, MADV_DONTNEED) == 0);
    return 0;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 3, seed); }
static uint64_t without(void) { return seed = step(sized(N - N / ONE_IN), NEVER, seed); }

int main(int argc, char **argv) {
    pages = (char *)mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED && madvise(pages, SIZE, MADV_NOHUGEPAGE) == 0);
    struct removal sums = {0};
    double release_ns = 0;
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
        release_ns += took_ns(release);
    }
    tell_two_paths("step", "faults", "computes", &sums);
    tell_function("release", release_ns, 0);
    return tell_totals();
}
