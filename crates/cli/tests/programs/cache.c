/* Accesses whose misses are known: a walk over all lines of a buffer, and loads of 8 bytes from
 * places that a generator of random numbers chooses, some of which are in two lines. Nothing
 * else is accessed in the loops. */
#include <stdint.h>
#include <stdio.h>

#define SIZE (1 << 20)
#define SPAN (1 << 15)
static unsigned char buffer[SIZE] __attribute__((aligned(4096)));
static unsigned char places[SPAN + 64] __attribute__((aligned(4096)));

__attribute__((noinline)) uint64_t walk(volatile unsigned char *from, volatile unsigned char *to) {
    uint64_t sum = 0;
    for (; from != to; from += 32)
        sum += *from;
    return sum;
}

__attribute__((noinline)) uint64_t wander(volatile unsigned char *from, uint64_t n) {
    uint64_t sum = 0, random = 1;
    do {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sum += *(volatile uint64_t *)(from + (random >> 49));
    } while (--n);
    return sum;
}

int main(void) {
    for (int i = 0; i < SIZE; i++)
        buffer[i] = i;
    uint64_t sum = walk(buffer, buffer + SIZE);
    sum += wander(places, 20000);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
