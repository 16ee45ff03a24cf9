// Two paths of one function that take very different times, called from a path that takes little
// itself.

#include <stdio.h>

#define APART __attribute__((noinline, noclone, used))

static volatile long sum;

APART void work(int n) {
    if (n % 2)
        __asm__ volatile(".rept 300\n\tmfence\n\t.endr" ::: "memory");
    else
        sum = sum + 1;
}

APART void drive(int n) {
    work(n);
    sum = sum + 2;
}

int main(void) {
    for (int i = 0; i < 20000; i++)
        drive(i);
    printf("%ld\n", sum);
}
