/* A store that all paths share: after one arm of an earlier branch it is the first to its page. */
#include "planted.h"

#include <sys/mman.h>

#define PAGE 4096u
#define ONE_IN 32
#define NEVER ONE_IN
#define N (1u << 17)
/* Rounds are up to one and a half times as large as the usual one. */
#define SIZE ((size_t)2 * N / ONE_IN * PAGE)

static char *pages, used_page[PAGE];

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    char *next = pages;
    for (uint64_t i = 0; i < n; i++) {
        volatile char *at;
        if (i % ONE_IN == when) {
            MARK("fresh");
            at = next;
            next += PAGE;
        } else {
            MARK("used");
            at = used_page + x % PAGE;
        }
        *at = (char)x;
        x = chain(x, 6);
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
    tell_two_paths("step", "fresh", "used", &sums);
    tell_function("release", release_ns, 0);
    return tell_totals();
}
