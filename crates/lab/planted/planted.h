/* What planted programs share: marks in code, clocks, and how they tell the truth.
 *
 * A planted program knows what its parts cost, because it measures them by the thread's CPU clock
 * while it runs: either a part is all that a unit of work does, or units with and without the part
 * run in turn, and the difference is what it costs. The first argument is the number of rounds.
 *
 * It prints one fact in a line, in nanoseconds, with the standard error of what was measured by
 * difference:
 *
 *   function NAME NS ERROR         in the function and what it calls, user and kernel
 *   path FUNCTION MARK NS ERROR    on the function's paths through the mark; after a !, on others
 *   cpu NS                         of the process
 *   kernel NS ERROR                of it in the kernel, where that is known
 *   user NS, system NS             by getrusage */
#ifndef PLANTED_H
#define PLANTED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* A function that stays as it is: callers know nothing of it, and there is one copy. */
#ifdef __cplusplus
#define PLANTED extern "C" __attribute__((noipa))
#else
#define PLANTED __attribute__((noipa))
#endif

/* The text of an address and a name in a section that is not loaded. No instruction is added. */
#define MARK_TEXT(name) "77:\n.pushsection .planted,\"\",@progbits\n.quad 77b\n.asciz \"" name "\"\n.popsection\n"

/* Names the block that it is in. */
#define MARK(name) __asm__ volatile(MARK_TEXT(name))

/* What must be computed although nobody looks at it. */
#define USE(value) __asm__ volatile("" : : "r"(value))

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(99);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline unsigned rounds_of(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    return rounds > 1 ? (unsigned)rounds : 2;
}

/* A value that a multiplication and a shift make of another; the result of one is the input of the
 * next, so that `n` of them take `n` times as long. */
static inline __attribute__((always_inline)) uint64_t chain(uint64_t x, unsigned n) {
    /* A loop would end the path. */
#pragma GCC unroll 32
    for (unsigned i = 0; i < n; i++) {
        x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
        /* Else the compiler makes a vector of several. */
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* A permutation with one cycle, in steps that no prefetcher follows: `n` is a power of two. */
static inline uint32_t *scattered(uint32_t n) {
    uint32_t *next_of = (uint32_t *)malloc(sizeof(uint32_t) * n);
    REQUIRE(next_of);
    for (uint32_t i = 0; i < n; i++)
        next_of[i] = (i * 1664525u + 1013904223u) & (n - 1);
    return next_of;
}

static inline double ns_of(clockid_t clock) {
    struct timespec now;
    REQUIRE(clock_gettime(clock, &now) == 0);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline double thread_ns(void) { return ns_of(CLOCK_THREAD_CPUTIME_ID); }

/* How much work the units of this round are, in parts of the usual: a program that is as regular as
 * a clock would keep time with a profiler's. */
static __thread double size_of_round = 1;

static inline void next_round(void) {
    static __thread uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    size_of_round = 0.5 + (double)(state >> 40) / (double)(1u << 24);
}

static inline uint64_t sized(uint64_t n) { return (uint64_t)((double)n * size_of_round); }

/* What a unit took. */
static inline double took_ns(uint64_t (*unit)(void)) {
    double start = thread_ns();
    uint64_t result = unit();
    USE(result);
    return thread_ns() - start;
}

/* Units with and without a part. */
struct removal {
    double with_ns, without_ns;
    /* Of sizes, of differences, and of both. */
    double sizes, size_squares, squares, products;
    unsigned n;
};

/* One more of each, in the other order every second time. */
static inline void compare(struct removal *sums, uint64_t (*with)(void), uint64_t (*without)(void)) {
    double with_ns, without_ns;
    if (sums->n % 2) {
        without_ns = took_ns(without);
        with_ns = took_ns(with);
    } else {
        with_ns = took_ns(with);
        without_ns = took_ns(without);
    }
    sums->with_ns += with_ns;
    sums->without_ns += without_ns;
    sums->squares += (with_ns - without_ns) * (with_ns - without_ns);
    sums->products += (with_ns - without_ns) * size_of_round;
    sums->sizes += size_of_round;
    sums->size_squares += size_of_round * size_of_round;
    sums->n++;
}

static inline double removed_ns(const struct removal *sums) { return sums->with_ns - sums->without_ns; }

/* By what differences differ from being in proportion to the size. */
static inline double removed_error(const struct removal *sums) {
    double rate = removed_ns(sums) / sums->sizes, n = sums->n;
    double squares = sums->squares - 2 * rate * sums->products + rate * rate * sums->size_squares;
    return squares > 0 && n > 1 ? sqrt(squares * n / (n - 1)) : 0;
}

static inline void tell_function(const char *name, double ns, double error) {
    printf("function %s %.0f %.0f\n", name, ns, error);
}

static inline void tell_path(const char *function, const char *mark, double ns, double error) {
    printf("path %s %s %.0f %.0f\n", function, mark, ns, error);
}

/* The function did nothing but what was compared; the part is on the paths through one mark, and
 * everything else on those through another. */
static inline void tell_two_paths(const char *function, const char *part, const char *rest,
                                  const struct removal *sums) {
    double all = sums->with_ns + sums->without_ns, error = removed_error(sums);
    tell_function(function, all, 0);
    tell_path(function, part, removed_ns(sums), error);
    tell_path(function, rest, all - removed_ns(sums), error);
}

/* Comes last. */
static inline int tell_totals(void) {
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    printf("cpu %.0f\n", ns_of(CLOCK_PROCESS_CPUTIME_ID));
    printf("user %.0f\n", (double)usage.ru_utime.tv_sec * 1e9 + (double)usage.ru_utime.tv_usec * 1e3);
    printf("system %.0f\n", (double)usage.ru_stime.tv_sec * 1e9 + (double)usage.ru_stime.tv_usec * 1e3);
    return 0;
}

#endif
