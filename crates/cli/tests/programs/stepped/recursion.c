/* Functions that call themselves and each other. */
#include <stdio.h>

static __attribute__((noinline)) unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static int is_odd(unsigned n);
static __attribute__((noinline)) int is_even(unsigned n) { return n == 0 || is_odd(n - 1); }
static __attribute__((noinline)) int is_odd(unsigned n) { return n != 0 && is_even(n - 1); }

static __attribute__((noinline)) unsigned moves(unsigned disks, unsigned from, unsigned to) {
    unsigned n = 0;
    for (unsigned over = 0; disks && over < 3; over++)
        if (over != from && over != to)
            n += moves(disks - 1, from, over) + 1 + moves(disks - 1, over, to);
    return n;
}

int main(void) { printf("%u %d %u\n", ackermann(2, 4), is_even(31), moves(6, 0, 2)); }
