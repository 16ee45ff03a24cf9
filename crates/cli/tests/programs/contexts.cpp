// Calling contexts with known counts: recursion, longjmp, exceptions, handlers, threads.

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <pthread.h>

#define APART extern "C" __attribute__((noinline, noclone, used))

enum How { RETURN, JUMP, THROW };

static jmp_buf place;
static volatile long sum;

APART void leaf(void) { sum = sum + 1; }
APART void after_jump(void) { sum = sum + 2; }
APART void after_catch(void) { sum = sum + 3; }
APART void in_handler(void) { sum = sum + 4; }

APART void inner(How how) {
    leaf();
    if (how == JUMP)
        longjmp(place, 1);
    if (how == THROW)
        throw 1;
    leaf();
}

APART void outer(How how) {
    inner(how);
    leaf();
}

APART void jumped(void) {
    if (setjmp(place) == 0)
        outer(JUMP);
    after_jump();
}

APART void caught(void) {
    try {
        outer(THROW);
    } catch (int) {
        after_catch();
    }
    leaf();
}

APART void handler(int) { in_handler(); }

APART void odd(int n);
APART void even(int n) {
    if (n > 0)
        odd(n - 1);
    leaf();
}
APART void odd(int n) {
    if (n > 0)
        even(n - 1);
    leaf();
}

APART void *worker(void *) {
    outer(RETURN);
    return nullptr;
}

int main() {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 10; i++)
        jumped();
    for (int i = 0; i < 20; i++)
        caught();
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    for (int i = 0; i < 3; i++)
        even(4);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, worker, nullptr) != 0)
            return 1;
        pthread_join(thread, nullptr);
    }
    printf("%ld\n", sum);
}
