/* What every test program shares: a check that ends the program, a digest, and work that keeps
 * the processor busy.
 *
 * A program prints only what is the same in every run, so its output can be compared byte for
 * byte; whatever may differ (how often a timer fired) is checked inside. The first argument
 * scales the work. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition))                                                                                            \
            check_failed(__FILE__, __LINE__, "%s (errno %d)", #condition, errno);                                    \
    } while (0)

#define CHECK_EQUAL(actual, expected)                                                                                \
    do {                                                                                                             \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                                  \
        if (actual_ != expected_)                                                                                    \
            check_failed(__FILE__, __LINE__, "%s is %lld (0x%llx), not %lld (0x%llx)", #actual, actual_, actual_,    \
                         expected_, expected_);                                                                      \
    } while (0)

/* Ends the program at once, also from a signal handler. */
static __attribute__((noinline, cold, noreturn, unused, format(printf, 3, 4))) void
check_failed(const char *file, int line, const char *format, ...) {
    char text[512];
    int length = snprintf(text, sizeof text, "%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(text + length, sizeof text - length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2)
        length = sizeof text - 2;
    text[length++] = '\n';
    if (write(2, text, length) < 0)
        _exit(98);
    _exit(99);
}

static inline unsigned scale_of(int argc, char **argv) {
    unsigned scale = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    return scale ? scale : 1;
}

static inline uint64_t mix(uint64_t digest, uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
    return digest ^ digest >> 29;
}

/* A few nanoseconds per round, over branches, a jump table and a little memory. The empty
 * assembly keeps the compiler from computing one result only once. */
static __attribute__((noinline, unused)) uint64_t busy(uint64_t seed, unsigned rounds) {
    uint64_t table[16];
    for (unsigned i = 0; i < 16; i++)
        table[i] = mix(seed, i);
    uint64_t digest = seed;
    __asm__ volatile("" ::: "memory");
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t *slot = &table[digest & 15];
        switch (digest >> 61) {
        case 0: *slot += digest; break;
        case 1: *slot ^= digest >> 7; break;
        case 2: digest = mix(digest, *slot); break;
        case 3: *slot = *slot << 13 | *slot >> 51; break;
        case 4: digest -= *slot; break;
        case 5: *slot = ~*slot; break;
        case 6: digest = digest % 1000003 + *slot; break;
        default: *slot *= 5; break;
        }
        digest = mix(digest, i);
    }
    return digest;
}

static inline void report(const char *name, uint64_t digest) {
    printf("%s %016llx\n", name, (unsigned long long)digest);
    fflush(stdout);
}

#endif
