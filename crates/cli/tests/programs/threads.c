/* Threads by the thousand: joined, detached, on the smallest stacks, ended by return and by
 * pthread_exit, each with destructors of thread-specific data. */
#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

enum { WIDTH = 8 };

static pthread_key_t key;
static unsigned n_destroyed, n_detached;
static sem_t detached_done;
static __thread uint64_t own = 17;

static void destroy(void *value) {
    CHECK(busy((uintptr_t)value, 100) != 0);
    CHECK(own != 17);
    __atomic_add_fetch(&n_destroyed, 1, __ATOMIC_SEQ_CST);
    /* Once more, as the standard allows: destructors run again while values remain. */
    if ((uintptr_t)value % 2 == 0)
        CHECK_EQUAL(pthread_setspecific(key, (void *)((uintptr_t)value + 1)), 0);
}

static uint64_t work(unsigned index) {
    CHECK_EQUAL(own, 17);
    CHECK(pthread_getspecific(key) == NULL);
    CHECK_EQUAL(pthread_setspecific(key, (void *)(uintptr_t)(index * 2 + 2)), 0);
    return own = busy(index, 2000 + index % 5 * 3000) | 1u << 20;
}

static void *joined(void *index) { return (void *)(uintptr_t)work((unsigned)(uintptr_t)index); }

static __attribute__((noinline, noreturn)) void leave(unsigned depth, void *value) {
    char frame[64] = {(char)depth};
    __asm__ volatile("" ::"r"(frame) : "memory");
    if (depth > 0)
        leave(depth - 1, value);
    pthread_exit(value);
}

static void *exits(void *index) {
    leave(10, joined(index));
    return NULL;
}

static void *detached(void *index) {
    work((unsigned)(uintptr_t)index);
    __atomic_add_fetch(&n_detached, 1, __ATOMIC_SEQ_CST);
    sem_post(&detached_done);
    return NULL;
}

static pthread_t start(void *(*routine)(void *), unsigned index, int is_detached) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK_EQUAL(pthread_attr_init(&attributes), 0);
    CHECK_EQUAL(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + (index % 3) * 65536), 0);
    if (is_detached)
        CHECK_EQUAL(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED), 0);
    CHECK_EQUAL(pthread_create(&thread, &attributes, routine, (void *)(uintptr_t)index), 0);
    CHECK_EQUAL(pthread_attr_destroy(&attributes), 0);
    return thread;
}

int main(int argc, char **argv) {
    unsigned n_rounds = 40 * scale_of(argc, argv);
    CHECK_EQUAL(pthread_key_create(&key, destroy), 0);
    CHECK_EQUAL(sem_init(&detached_done, 0, 0), 0);
    uint64_t digest = 0;
    for (unsigned round = 0; round < n_rounds; round++) {
        pthread_t threads[WIDTH];
        for (unsigned i = 0; i < WIDTH; i++)
            threads[i] = start(i % 2 ? joined : exits, round * WIDTH + i, 0);
        start(detached, round, 1);
        for (unsigned i = 0; i < WIDTH; i++) {
            void *value;
            CHECK_EQUAL(pthread_join(threads[i], &value), 0);
            digest = mix(digest, (uintptr_t)value);
        }
        while (sem_wait(&detached_done) != 0)
            CHECK_EQUAL(errno, EINTR);
    }
    CHECK_EQUAL(n_detached, n_rounds);
    /* A detached thread may still be in its destructors. */
    CHECK(n_destroyed >= 2 * WIDTH * n_rounds);
    printf("%u threads\n", n_rounds * (WIDTH + 1));
    report("threads", digest);
    pthread_exit(NULL);
}
