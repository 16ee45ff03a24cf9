/* Two threads that count in one cache line, and then each in its own. */
#include "planted.h"

#include <pthread.h>

#define N_THREADS 2
#define N_SHARED 120000u
#define N_APART 240000u
#define WORDS_OF_LINE 8

static _Alignas(4096) volatile uint64_t counters[N_THREADS * 64];

struct counting {
    pthread_t thread;
    unsigned index, rounds;
    double shared_ns, apart_ns;
};

PLANTED void count_shared(volatile uint64_t *counter, uint64_t n) {
    while (n--)
        __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

PLANTED void count_apart(volatile uint64_t *counter, uint64_t n) {
    while (n--)
        __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

static void *count(void *argument) {
    struct counting *own = argument;
    for (unsigned round = 0; round < own->rounds; round++) {
        next_round();
        double start = thread_ns();
        count_shared(&counters[own->index], sized(N_SHARED));
        double middle = thread_ns();
        count_apart(&counters[own->index * 32 + WORDS_OF_LINE], sized(N_APART));
        own->shared_ns += middle - start;
        own->apart_ns += thread_ns() - middle;
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct counting all[N_THREADS] = {0};
    double shared_ns = 0, apart_ns = 0;
    for (unsigned i = 0; i < N_THREADS; i++) {
        all[i].index = i;
        all[i].rounds = rounds_of(argc, argv);
        REQUIRE(pthread_create(&all[i].thread, NULL, count, &all[i]) == 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        REQUIRE(pthread_join(all[i].thread, NULL) == 0);
        shared_ns += all[i].shared_ns;
        apart_ns += all[i].apart_ns;
    }
    tell_function("count_shared", shared_ns, 0);
    tell_function("count_apart", apart_ns, 0);
    return tell_totals();
}
