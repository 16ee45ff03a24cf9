// Stacks that are not easy to unwind: a frame larger than what a sample keeps, one that is aligned by its function, and a thread.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

__attribute__((noinline)) static unsigned busy(unsigned value) {
    for (int i = 0; i < 2000000; i++) value = value * 1664525 + 1013904223;
    return value;
}

// An aligned array of a size that only the call knows: the caller's frame is found by a pointer in memory.
__attribute__((noinline)) static unsigned aligned(int n) {
    _Alignas(64) volatile unsigned fixed[16] = {0};
    unsigned varying[n];
    memset(varying, n, sizeof varying);
    double end = seconds() + 0.4;
    while (seconds() < end) fixed[n % 16] = busy(varying[n / 2]);
    return fixed[n % 16];
}

__attribute__((noinline)) static unsigned large(int n) {
    volatile char array[400000];
    array[0] = (char)n;
    array[sizeof array - 1] = (char)n;
    return aligned(n + array[0] - array[sizeof array - 1]);
}

static void *worker(void *argument) {
    return large(*(int *)argument) ? argument : NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    int n = 10 + argc;
    pthread_t thread;
    pthread_create(&thread, NULL, worker, &n);
    pthread_join(thread, NULL);
    printf("%d\n", large(n) != 0);
    return 0;
}
