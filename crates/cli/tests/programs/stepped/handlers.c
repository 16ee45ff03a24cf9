/* Signals that arrive while functions are on their way, with handlers that do work and raise
 * others. */
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t n_first, n_second;

static void second(int signal) {
    for (int i = 0; i < 3; i++)
        n_second += i == 1 ? signal : 1;
}

static void first(int signal) {
    if (++n_first % 4 == 0)
        raise(SIGUSR2);
    else
        n_first += signal == SIGUSR2;
}

static __attribute__((noinline)) unsigned work(unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (i % 3 == 2)
            raise(SIGUSR1);
        sum += i & 1 ? i : sum;
    }
    return sum;
}

int main(void) {
    signal(SIGUSR1, first);
    signal(SIGUSR2, second);
    unsigned sum = 0;
    for (unsigned n = 0; n < 12; n++)
        sum += work(n);
    printf("%u %d %d\n", sum, n_first, n_second);
}
