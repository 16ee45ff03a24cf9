// Threads, and then the process, end in the middle of calls, in functions with and without a frame
// pointer.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) static void finish(int is_thread) {
    if (is_thread) {
        syscall(SYS_exit, 0);
    }
    exit(0);
}

__attribute__((noinline)) static int descend(int depth, int is_thread) {
    volatile char *room = alloca(16 + depth % 3 * 32);
    room[0] = (char)depth;
    for (int i = 0; i < depth % 4; i++) {
        sink += i;
    }
    if (depth < 0) {
        return sink;
    }
    if (depth == 0) {
        finish(is_thread);
    }
    int below = depth % 2 ? descend(depth - 1, is_thread) : 1 + descend(depth - 1, is_thread);
    return below + room[0];
}

static void *run(void *argument) {
    for (int i = 0; i < 3; i++) {
        sink += i;
    }
    return (void *)(long)descend(10 + *(int *)argument, 1);
}

int main(void) {
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, run, &i);
        pthread_join(thread, NULL);
    }
    puts("done");
    return descend(200, 0);
}
