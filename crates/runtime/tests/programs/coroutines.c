// Coroutines on 8 KB stacks, and a daemon-like program that closes every descriptor.
#include "burn.h"
#include <ucontext.h>
#define N 64
static ucontext_t contexts[N], home;
static char *stacks[N];
static unsigned long totals[N];
static void run(int index) {
    for (int i = 0; i < 100; i++) {
        burn(3000);
        totals[index] += i;
        swapcontext(&contexts[index], &home);
    }
}
int main() {
    for (int i = 0; i < N; i++) {
        stacks[i] = malloc(8192 + 64);
        memset(stacks[i], 0x5a, 64);
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i] + 64; contexts[i].uc_stack.ss_size = 8192; contexts[i].uc_link = &home;
        makecontext(&contexts[i], (void (*)())run, 1, i);
    }
    for (int i = 3; i < 1024; i++) close(i);
    for (int round = 0; round < 101; round++) for (int i = 0; i < N; i++) if (totals[i] != 4950 || round == 100) swapcontext(&home, &contexts[i]);
    unsigned long total = 0;
    for (int i = 0; i < N; i++) { total += totals[i]; for (int j = 0; j < 64; j++) CHECK(stacks[i][j] == 0x5a); }
    printf("%lu\n", total);
    return 0;
}
