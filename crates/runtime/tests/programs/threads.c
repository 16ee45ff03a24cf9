// Threads by the thousand, with destructors, detached ones, cancelled ones, C11 ones.
#include "burn.h"
#include <pthread.h>
#include <threads.h>
#include <sys/syscall.h>
static pthread_key_t key;
static long destroyed, sum, cleaned;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void destroy(void *value) { burn(1000); __sync_fetch_and_add(&destroyed, 1); }
static void *worker(void *argument) {
    pthread_setspecific(key, argument);
    burn(20000);
    pthread_mutex_lock(&lock); sum += (long)argument; pthread_mutex_unlock(&lock);
    return argument;
}
static int worker11(void *argument) { burn(20000); __sync_fetch_and_add(&sum, 1); return 5; }
static void clean(void *argument) { __sync_fetch_and_add(&cleaned, 1); }
static void *sleeper(void *argument) { pthread_cleanup_push(clean, 0); for (;;) sleep(100); pthread_cleanup_pop(0); return 0; }
static void *spinner(void *argument) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    pthread_cleanup_push(clean, 0);
    for (;;) burn(1000);
    pthread_cleanup_pop(0);
    return 0;
}
static void *tester(void *argument) { pthread_cleanup_push(clean, 0); for (;;) { burn(1000); pthread_testcancel(); } pthread_cleanup_pop(0); return 0; }
static void *waiter(void *argument) { sigset_t none; sigemptyset(&none); pthread_cleanup_push(clean, 0); for (;;) sigsuspend(&none); pthread_cleanup_pop(0); return 0; }
static void *early(void *argument) { burn(1000); pthread_exit((void *)7); }
int main() {
    pthread_key_create(&key, destroy);
    for (int round = 0; round < 60; round++) {
        pthread_t ids[50];
        for (long i = 0; i < 50; i++) CHECK(pthread_create(&ids[i], 0, worker, (void *)(i + 1)) == 0);
        for (long i = 0; i < 50; i++) { void *result; CHECK(pthread_join(ids[i], &result) == 0 && result == (void *)(i + 1)); }
    }
    printf("%ld %ld\n", sum, destroyed);
    for (int i = 0; i < 100; i++) { thrd_t id; int result; CHECK(thrd_create(&id, worker11, 0) == thrd_success); thrd_join(id, &result); CHECK(result == 5); }
    printf("%ld\n", sum);
    for (int i = 0; i < 100; i++) {
        pthread_t id; void *result;
        void *(*routines[])(void *) = {sleeper, spinner, tester, waiter};
        pthread_create(&id, 0, routines[i % 4], 0);
        burn(i % 4 == 1 ? 2000000 : 100000);
        CHECK(pthread_cancel(id) == 0);
        CHECK(pthread_join(id, &result) == 0);
        // A thread cancelled before it reached its cleanup handler does not run it.
        CHECK(result == PTHREAD_CANCELED);
        pthread_create(&id, 0, early, 0);
        pthread_join(id, &result);
        CHECK(result == (void *)7);
    }
    pthread_attr_t attributes; pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    destroyed = 0;
    for (int i = 0; i < 100; i++) { pthread_t id; pthread_create(&id, &attributes, worker, (void *)1); }
    while (__sync_fetch_and_add(&destroyed, 0) < 100) usleep(1000);
    printf("%ld\n", destroyed);
    return 0;
}
