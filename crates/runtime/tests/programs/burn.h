// Burns CPU time without calling anything, in code that a test may give copies.
#ifndef BURN_H
#define BURN_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>
#include <errno.h>

static volatile unsigned long sink;

static __attribute__((noinline, unused)) void burn(unsigned long rounds) {
    unsigned long state = 88172645463325252ul;
    for (unsigned long round = 0; round < rounds; round++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    sink += state;
}

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            fflush(stdout); \
            _exit(99); \
        } \
    } while (0)
#endif
