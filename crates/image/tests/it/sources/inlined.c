/* Three functions inlined into each other. */
#include <stdio.h>

static volatile int sink;

static inline __attribute__((always_inline)) void innermost(int value) {
    sink = value * value;
}

static inline __attribute__((always_inline)) void middle(int value) {
    innermost(value + 1);
    sink += value;
}

__attribute__((noinline)) void outer(int value) {
    middle(value + 2);
    sink -= value;
}

int main(void) {
    outer(3);
    return sink == 0;
}
