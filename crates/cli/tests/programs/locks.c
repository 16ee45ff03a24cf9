/* Threads that share: mutexes of every kind, condition variables, barriers, semaphores,
 * read-write locks, spin locks, and the allocator from all of them at once. */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>

enum { N_THREADS = 4, QUEUE = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static sem_t semaphore;
static uint64_t queue[QUEUE], shared[4], sum, n_atomic;
static unsigned head, tail, n_rounds;

static void put(uint64_t value) {
    pthread_mutex_lock(&mutex);
    while (head - tail == QUEUE)
        pthread_cond_wait(&not_full, &mutex);
    queue[head++ % QUEUE] = value;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
}

static uint64_t take(void) {
    pthread_mutex_lock(&mutex);
    while (head == tail)
        pthread_cond_wait(&not_empty, &mutex);
    uint64_t value = queue[tail++ % QUEUE];
    sum += value;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&mutex);
    return value;
}

static void count_under_locks(void) {
    CHECK_EQUAL(pthread_mutex_lock(&recursive), 0);
    CHECK_EQUAL(pthread_mutex_lock(&recursive), 0);
    shared[0]++;
    CHECK_EQUAL(pthread_mutex_unlock(&recursive), 0);
    CHECK_EQUAL(pthread_mutex_unlock(&recursive), 0);
    CHECK_EQUAL(pthread_rwlock_wrlock(&rwlock), 0);
    shared[1]++;
    CHECK_EQUAL(pthread_rwlock_unlock(&rwlock), 0);
    CHECK_EQUAL(pthread_rwlock_rdlock(&rwlock), 0);
    CHECK(shared[1] > 0);
    CHECK_EQUAL(pthread_rwlock_unlock(&rwlock), 0);
    CHECK_EQUAL(pthread_spin_lock(&spinlock), 0);
    shared[2]++;
    CHECK_EQUAL(pthread_spin_unlock(&spinlock), 0);
    while (sem_wait(&semaphore) != 0)
        CHECK_EQUAL(errno, EINTR);
    shared[3]++;
    sem_post(&semaphore);
    __atomic_add_fetch(&n_atomic, 1, __ATOMIC_RELAXED);
}

static void *run(void *argument) {
    uintptr_t index = (uintptr_t)argument;
    char *blocks[16] = {0};
    for (unsigned i = 0; i < n_rounds; i++) {
        char **block = &blocks[i % 16];
        free(*block);
        CHECK((*block = malloc(16 + (i * 37 + index) % 5000)));
        memset(*block, (int)i, 16);
        if (index % 2)
            put(busy(i, 1000) >> 8);
        else
            take();
        count_under_locks();
        if (i % 200 == 199)
            pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < 16; i++)
        free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv) {
    n_rounds = 1000 * scale_of(argc, argv);
    pthread_mutexattr_t attributes;
    CHECK_EQUAL(pthread_mutexattr_init(&attributes), 0);
    CHECK_EQUAL(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE), 0);
    CHECK_EQUAL(pthread_mutex_init(&recursive, &attributes), 0);
    CHECK_EQUAL(pthread_barrier_init(&barrier, NULL, N_THREADS), 0);
    CHECK_EQUAL(pthread_spin_init(&spinlock, 0), 0);
    CHECK_EQUAL(sem_init(&semaphore, 0, 1), 0);
    pthread_t threads[N_THREADS];
    for (uintptr_t i = 0; i < N_THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < N_THREADS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(shared[i], (uint64_t)N_THREADS * n_rounds);
    CHECK_EQUAL(n_atomic, (uint64_t)N_THREADS * n_rounds);
    report("sum", sum);
}
