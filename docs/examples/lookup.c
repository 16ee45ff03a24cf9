/* The program of docs/start.md: a look-up that is cheap nearly always, and slow where nobody
 * looks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_FRONT = 1 << 12, N_NODES = 1 << 26 };

static uint32_t front[N_FRONT]; /* 16 KB: stays in the cache */
static uint32_t *nodes;         /* 256 MB: chains all over memory */

__attribute__((noinline)) uint32_t find(uint32_t key) {
    uint32_t hash = key * 2654435761u;
    if (key % 20 != 7)
        return front[hash % N_FRONT];
    uint32_t at = nodes[hash % N_NODES];
    at = nodes[at];
    at = nodes[at];
    return nodes[at];
}

__attribute__((noinline)) uint32_t digest(uint32_t sum, uint32_t value) {
    for (int round = 0; round < 8; round++)
        sum = (sum ^ value ^ sum >> 15) * 0x846ca68b + round;
    return sum;
}

int main(void) {
    nodes = malloc(4ul * N_NODES);
    for (uint32_t i = 0; i < N_NODES; i++)
        nodes[i] = (i * 1664525u + 1013904223u) % N_NODES;
    for (uint32_t i = 0; i < N_FRONT; i++)
        front[i] = i * i;
    uint32_t sum = 0;
    for (uint32_t key = 0; key < 100000000; key++)
        sum = digest(sum, find(key));
    printf("%08x\n", sum);
}
