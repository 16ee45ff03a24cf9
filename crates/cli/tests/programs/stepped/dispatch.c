/* An interpreter with a jump table, calls through pointers, and a library function that calls
 * back. */
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) int interpret(const char *code, int value) {
    for (;; code++)
        switch (*code) {
        case 'a': value += 3; break;
        case 'b': value *= 2; break;
        case 'c': value ^= 21; break;
        case 'd': value = -value; break;
        case 'e': if (value & 1) code++; break;
        case 'f': value >>= 1; break;
        case 'g': return value;
        default: return value - 1;
        }
}

static __attribute__((noinline)) int plus(int value) { return value > 20 ? value - 20 : value + 1; }
static __attribute__((noinline)) int minus(int value) { return value < 0 ? 0 : value - 2; }

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

int main(void) {
    static int (*const operations[])(int) = {plus, minus, plus};
    static const char *const programs[] = {"abcdefg", "aaeebg", "cdcd", "fbeabg", "g"};
    int values[30];
    for (int i = 0; i < 30; i++)
        values[i] = operations[i % 3](interpret(programs[i % 5], i));
    qsort(values, 30, sizeof *values, compare);
    printf("%d %d\n", values[0], values[29]);
}
