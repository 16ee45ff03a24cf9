/* Costs that are known by construction or by removal. The second argument is what to spend time
 * on:
 *
 *   slow    a function with a cheap path and, behind a rare branch, four loads that miss all caches. The same work without
 *           the rare path follows; the difference of the two is what that takes.
 *   faults  page faults
 *   reads   system calls
 *   chases  rounds of dependent loads that miss all caches, whose numbers are printed
 *
 * Prints microseconds by the program's own clocks: for "slow" those of the function and of its
 * rare path, for all the user and system time of the process. */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define N_WORDS (1u << 26)
#define ONE_IN 16

static uint32_t *next_of;
static uint32_t cursor;

/* A permutation with one cycle, in steps that no prefetcher follows. */
static void prepare(void) {
    next_of = malloc(4ul * N_WORDS);
    CHECK(next_of);
    for (uint32_t i = 0; i < N_WORDS; i++)
        next_of[i] = (i * 1664525u + 1013904223u) & (N_WORDS - 1);
}

__attribute__((noinline, noclone)) static uint64_t step(uint64_t i, uint64_t is_slow) {
    if (__builtin_expect(is_slow != 0, 0)) {
        uint32_t at = cursor;
        at = next_of[at];
        at = next_of[at];
        at = next_of[at];
        at = next_of[at];
        cursor = at;
        return at;
    }
    uint64_t x = i;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 32) * 0x94d049bb133111ebu;
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 28) * 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

static long cpu_us(void) {
    struct timespec now;
    CHECK_EQUAL(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * 1000000l + now.tv_nsec / 1000;
}

static long steps(uint64_t n, uint64_t one_in) {
    uint64_t digest = 0;
    long start = cpu_us();
    for (uint64_t i = 0; i < n; i++)
        digest ^= step(i ^ (digest & 1), one_in && i % one_in == 3);
    __asm__ volatile("" : : "r"(digest));
    return cpu_us() - start;
}

static void slow(unsigned scale) {
    prepare();
    uint64_t n = 12000000ul * scale;
    long with = steps(n, ONE_IN);
    long without = steps(n - n / ONE_IN, 0);
    printf("step %ld\nrare %ld\n", with + without, with - without);
}

static void faults(unsigned scale) {
    const long size = 32l << 20;
    for (unsigned round = 0; round < 30 * scale; round++) {
        volatile char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        for (long i = 0; i < size; i += 4096)
            pages[i] = 1;
        CHECK_EQUAL(munmap((void *)pages, size), 0);
    }
}

static void reads(unsigned scale) {
    static char buffer[4096];
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    CHECK(zeros >= 0);
    for (unsigned round = 0; round < 2000000 * scale; round++)
        CHECK_EQUAL(read(zeros, buffer, sizeof buffer), sizeof buffer);
}

__attribute__((noinline, noclone)) static uint32_t chase(uint32_t at) {
    for (unsigned i = 0; i < 2000; i++)
        at = next_of[at];
    return at;
}

/* Does what takes no time, so that there is a block that runs more rarely. */
__attribute__((noinline, noclone)) static uint32_t turn(uint32_t at) {
    __asm__ volatile("");
    return at + 1;
}

static void chases(unsigned scale) {
    prepare();
    uint32_t at = 0;
    const unsigned n = 2500 * scale;
    for (unsigned round = 0; round < n; round++) {
        at = chase(at);
        if (round % 4 == 0)
            at = turn(at) & (N_WORDS - 1);
    }
    __asm__ volatile("" : : "r"(at));
    printf("chase %u\nturn %u\n", n, (n + 3) / 4);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    const char *what = argc > 2 ? argv[2] : "";
    if (strcmp(what, "slow") == 0)
        slow(scale);
    else if (strcmp(what, "faults") == 0)
        faults(scale);
    else if (strcmp(what, "reads") == 0)
        reads(scale);
    else if (strcmp(what, "chases") == 0)
        chases(scale);
    struct rusage usage;
    CHECK_EQUAL(getrusage(RUSAGE_SELF, &usage), 0);
    printf("user %ld\n", usage.ru_utime.tv_sec * 1000000l + usage.ru_utime.tv_usec);
    printf("system %ld\n", usage.ru_stime.tv_sec * 1000000l + usage.ru_stime.tv_usec);
    return 0;
}
