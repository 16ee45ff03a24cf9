// An interpreter whose handlers all jump through the same table: more pairs of jumps and targets
// than strobe has room for.

#include <stdio.h>

#define APART __attribute__((noinline, noclone, used))
#define ROW(X, high) X(high##0) X(high##1) X(high##2) X(high##3) X(high##4) X(high##5) X(high##6) X(high##7) \
                  X(high##8) X(high##9) X(high##a) X(high##b) X(high##c) X(high##d) X(high##e) X(high##f)
#define ALL(X) ROW(X, 0x0) ROW(X, 0x1) ROW(X, 0x2) ROW(X, 0x3) ROW(X, 0x4) ROW(X, 0x5) ROW(X, 0x6) ROW(X, 0x7) \
               ROW(X, 0x8) ROW(X, 0x9) ROW(X, 0xa) ROW(X, 0xb) ROW(X, 0xc) ROW(X, 0xd) ROW(X, 0xe) ROW(X, 0xf)

#define NEXT goto *table[*p++]
#define LABEL(n) &&h##n,
// Two of them have two jumps, so that there are more jumps than targets.
#define HANDLER(n)                        \
    h##n: a = a * (2 * n + 1) + n;        \
    if (n == 0x07)                        \
        callee(a);                        \
    if ((n == 0x09 || n == 0x0b) && a & 1) { \
        a ^= 77 + n;                      \
        NEXT;                             \
    }                                     \
    if (n == 0)                           \
        return a;                         \
    NEXT;

static unsigned sum;

APART void callee(unsigned x) {
    sum += x;
}

APART unsigned run(const unsigned char *p) {
    static const void *const table[256] = {ALL(LABEL)};
    unsigned a = 0;
    NEXT;
    ALL(HANDLER)
}

int main(void) {
    static unsigned char code[1000];
    unsigned random = 1, total = 0;
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 999; i++) {
            random = random * 1103515245 + 12345;
            code[i] = i % 3 == 0 ? 7 : (random >> 16 & 255) | 1;
        }
        total += run(code);
    }
    printf("%u %u\n", total, sum);
}
