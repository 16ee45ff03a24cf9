// Stacks that are not easy to unwind: a frame larger than what a sample keeps, one that is aligned
// by its function, one without unwind information, and a thread.
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

// The same as codecs write it: the stack pointer is aligned and the old one kept in memory, and
// nothing tells unwinders.
void by_hand(long rounds);
__asm__(
    ".text\n"
    ".type by_hand, @function\n"
    "by_hand:\n"
    "    push %rbp\n"
    "    mov %rsp, %rax\n"
    "    sub $4, %rsp\n"
    "    and $-16, %rsp\n"
    "    mov %rax, (%rsp)\n"
    "    mov %rsp, %rbp\n"
    "    lea -64(%rbp), %rsp\n"
    "    push %rbx\n"
    "1:  imul $1664525, %rbx, %rbx\n"
    "    dec %rdi\n"
    "    jnz 1b\n"
    "    pop %rbx\n"
    "    mov %rbp, %rsp\n"
    "    pop %rsp\n"
    "    pop %rbp\n"
    "    ret\n"
    ".size by_hand, . - by_hand\n");

// An aligned array of a size that only the call knows: the caller's frame is found by a pointer in
// memory.
__attribute__((noinline)) static unsigned aligned(int n) {
    _Alignas(64) volatile unsigned fixed[16] = {0};
    unsigned varying[n];
    memset(varying, n, sizeof varying);
    double end = seconds() + 0.4;
    while (seconds() < end) {
        fixed[n % 16] = busy(varying[n / 2]);
        by_hand(2000000);
    }
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
