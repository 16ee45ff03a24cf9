// Loads of known values, known numbers of times, in several threads that signals interrupt.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { N_THREADS = 4, N_CONSTANT = 250000, N_BYTES = 100000 };

static volatile long constant = 7;
static volatile unsigned char bytes[4] = {1, 1, 1, 2};
static volatile sig_atomic_t ticks;

__attribute__((noinline)) long load_constant(void) {
    long sum = 0;
    for (int i = 0; i < N_CONSTANT; i++) {
        long value = constant;
        sum += value;
    }
    return sum;
}

__attribute__((noinline)) long load_bytes(void) {
    long sum = 0;
    for (int i = 0; i < N_BYTES; i++) {
        long value = bytes[i % 4];
        sum += value;
    }
    return sum;
}

static void *work(void *unused) {
    (void)unused;
    return (void *)(load_constant() + load_bytes());
}

static void on_tick(int signal) {
    (void)signal;
    ticks = ticks + 1;
}

int main(void) {
    struct itimerval every = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_t threads[N_THREADS];
    long sum = 0;
    for (int i = 0; i < N_THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < N_THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("%ld\n", sum);
    return 0;
}
