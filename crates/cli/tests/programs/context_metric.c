// A path that takes long and misses the cache in one context, and neither in another. Both run it
// as often.

#include <stdio.h>

#define APART __attribute__((noinline, noclone, used))
#define N_LINES 1000

static char buffer[N_LINES * 64] __attribute__((aligned(64)));

APART void fill(char *to, unsigned long n) {
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(1) : "memory");
}

APART void walk(volatile char *from, long step) {
    for (int i = 0; i < N_LINES; i++, from += step)
        (void)*from;
}

APART void dear(void) {
    fill(buffer, sizeof buffer);
    walk(buffer, 64);
}

APART void cheap(void) {
    fill(buffer, 1);
    walk(buffer, 0);
}

int main(void) {
    for (int i = 0; i < 200; i++) {
        dear();
        cheap();
    }
    printf("%d\n", buffer[sizeof buffer - 1]);
}
