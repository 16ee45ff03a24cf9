// Functions that are called from several places each: directly, through a pointer, by a tail call
// and by themselves.

#include <stdio.h>

#define APART __attribute__((noinline, noclone, used))

static volatile long sum;

APART void leaf(void) {
    sum = sum + 1;
}

static void (*volatile pointer)(void) = leaf;

APART void middle(int n) {
    leaf();
    if (n % 2)
        leaf();
    pointer();
    sum = sum + 2;
}

// The callee takes the place of this function.
APART void pass(int n) {
    sum = sum + 3;
    middle(n);
}

APART void down(int n) {
    if (n > 0)
        down(n - 1);
    leaf();
    sum = sum + 4;
}

int main(void) {
    for (int i = 0; i < 100; i++)
        middle(i);
    for (int i = 0; i < 10; i++)
        middle(1);
    for (int i = 0; i < 7; i++)
        pass(0);
    down(5);
    printf("%ld\n", sum);
}
