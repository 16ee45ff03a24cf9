/* Loops in loops, left in different ways. */
#include <stdint.h>
#include <stdio.h>

static __attribute__((noinline)) unsigned collatz(uint64_t n) {
    unsigned steps = 0;
    while (n != 1 && ++steps < 100)
        n = n & 1 ? 3 * n + 1 : n / 2;
    return steps;
}

static __attribute__((noinline)) int find(const unsigned *rows, unsigned n, unsigned wanted) {
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j <= i; j++) {
            if (rows[i] * 7 + j == wanted)
                return (int)(i * n + j);
            if ((rows[i] ^ j) % 5 == 4)
                break;
        }
    return -1;
}

int main(void) {
    unsigned rows[12], sum = 0;
    for (unsigned i = 0; i < 12; i++)
        rows[i] = collatz(i + 1);
    for (unsigned i = 0; i < 40; i++)
        sum += (unsigned)find(rows, 12, i * 3);
    printf("%u\n", sum);
}
