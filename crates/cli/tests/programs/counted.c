/* Functions that run a known number of times, in threads, handlers, recursion, and around jumps
 * out of functions. */
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

enum { N_THREADS = 64, N_HAMMERS = 2000, N_SIGNALS = 300, N_JUMPS = 200, N_DISPATCHES = 500 };

#define COUNTED __attribute__((noinline, noclone))

COUNTED uint64_t hammered(uint64_t value) { return value & 1 ? value * 3 : value + 7; }
COUNTED unsigned recursive(unsigned n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }

static volatile sig_atomic_t n_handled;
COUNTED void handling(int signal) { n_handled += signal != 0; }

static jmp_buf back;
COUNTED void jumping(unsigned depth) {
    if (depth == 0)
        longjmp(back, 1);
    if (depth < 100)
        jumping(depth - 1);
}
COUNTED unsigned landing(void) { return setjmp(back) ? 1 : (jumping(3), 0); }

COUNTED uint64_t dispatched(unsigned kind, uint64_t value) {
    switch (kind % 6) {
    case 0: return value + 1;
    case 1: return value * 5;
    case 2: return value ^ 77;
    case 3: return value << 2;
    case 4: return value - 3;
    default: return ~value;
    }
}

static void *in_thread(void *seed) {
    uint64_t value = (uintptr_t)seed;
    for (unsigned i = 0; i < N_HAMMERS; i++)
        value = hammered(value);
    return (void *)(uintptr_t)value;
}

int main(int argc, char **argv) {
    uint64_t digest = scale_of(argc, argv) != 0;
    pthread_t threads[N_THREADS];
    for (uintptr_t i = 0; i < N_THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, in_thread, (void *)i), 0);
    for (unsigned i = 0; i < N_THREADS; i++) {
        void *value;
        CHECK_EQUAL(pthread_join(threads[i], &value), 0);
        digest = mix(digest, (uintptr_t)value);
    }
    digest = mix(digest, recursive(18));
    signal(SIGUSR1, handling);
    for (unsigned i = 0; i < N_SIGNALS; i++)
        raise(SIGUSR1);
    CHECK_EQUAL(n_handled, N_SIGNALS);
    for (unsigned i = 0; i < N_JUMPS; i++)
        CHECK_EQUAL(landing(), 1);
    for (unsigned i = 0; i < N_DISPATCHES; i++)
        digest = dispatched(i, digest);
    report("counted", digest);
}
