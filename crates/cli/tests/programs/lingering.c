// Threads that load known values, known numbers of times, and are still there when the process
// ends.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { N_THREADS = 3, N_CONSTANT = 100000 };

static volatile long constant = 7;
static atomic_int n_done;

__attribute__((noinline)) long load_constant(void) {
    long sum = 0;
    for (int i = 0; i < N_CONSTANT; i++) {
        long value = constant;
        sum += value;
    }
    return sum;
}

static void *work(void *result) {
    *(long *)result = load_constant();
    atomic_fetch_add(&n_done, 1);
    for (;;) pause();
    return NULL;
}

int main(void) {
    static long results[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, &results[i]);
    }
    while (atomic_load(&n_done) != N_THREADS) sched_yield();
    long sum = 0;
    for (int i = 0; i < N_THREADS; i++) sum += results[i];
    printf("%ld\n", sum);
    return 0;
}
