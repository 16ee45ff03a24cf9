// Loads of known values for a second or so: the same, and one of two with 3 in 4.
#include <stdio.h>

enum { N_ROUNDS = 2000, N_LOADS = 100000 };

static volatile long constant = 7;
static volatile unsigned char bytes[4] = {1, 1, 1, 2};

__attribute__((noinline)) long load_constant(void) {
    long sum = 0;
    for (int i = 0; i < N_LOADS; i++) {
        long value = constant;
        sum += value;
    }
    return sum;
}

__attribute__((noinline)) long load_bytes(void) {
    long sum = 0;
    for (int i = 0; i < N_LOADS; i++) {
        long value = bytes[i % 4];
        sum += value;
    }
    return sum;
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < N_ROUNDS; i++) sum += load_constant() + load_bytes();
    printf("%ld\n", sum);
    return 0;
}
