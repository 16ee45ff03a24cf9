/* Threads that run the same functions at the same time. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static __attribute__((noinline)) uint64_t step(uint64_t value) {
    return value % 3 == 0 ? value / 3 : value % 5 == 0 ? value + 7 : value * 2 + 1;
}

static void *run(void *seed) {
    uint64_t value = (uintptr_t)seed;
    for (unsigned i = 0; i < 60 && value > 1; i++)
        value = step(value);
    return (void *)(uintptr_t)value;
}

int main(void) {
    pthread_t threads[4];
    uint64_t sum = 0;
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(i * 11 + 5)) != 0)
            return 1;
    for (unsigned i = 0; i < 4; i++) {
        void *value;
        if (pthread_join(threads[i], &value) != 0)
            return 1;
        sum += (uintptr_t)value;
    }
    printf("%llu\n", (unsigned long long)sum);
}
