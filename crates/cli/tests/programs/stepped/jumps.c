/* longjmp over several frames, back into a loop. */
#include <setjmp.h>
#include <stdio.h>

static jmp_buf back;

static __attribute__((noinline)) int dive(unsigned depth, unsigned n) {
    if (depth == 0 && n % 3 != 0)
        longjmp(back, (int)(n % 3));
    int rest = depth ? dive(depth - 1, n) : 0;
    return rest + (n % 2 ? 1 : 2);
}

static __attribute__((noinline)) int attempt(unsigned n) {
    switch (setjmp(back)) {
    case 0: return dive(n % 4, n);
    case 1: return -1;
    default: return n % 2 ? -2 : -3;
    }
}

int main(void) {
    int sum = 0;
    for (unsigned n = 0; n < 50; n++)
        sum += attempt(n);
    printf("%d\n", sum);
}
