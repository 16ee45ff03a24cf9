/* Jump tables, loops, function pointers, tail calls, calls that do not return. */
#include <stdio.h>
#include <stdlib.h>

typedef int (*operation)(int, int);
static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
static int multiply(int a, int b) { return a * b; }
static const operation operations[] = {add, subtract, multiply};

__attribute__((noinline, noreturn)) static void fail(int code) {
    fprintf(stderr, "failed with %d\n", code);
    exit(code);
}

__attribute__((noinline)) int step(int state, const char *text) {
    switch (*text) {
    case 'a': return state * 3 + 1;
    case 'b': return state ^ 0x55;
    case 'c': puts(text); return state + 1;
    case 'd': return step(state - 1, text + 1);
    case 'e': if (state > 100) fail(state); return 7;
    case 'f': return operations[(unsigned)state % 3](state, 3);
    case 'g': for (int i = 0; i < state; i++) for (int j = i; j < state; j++) state ^= i * j; return state;
    case 'h': return atoi(text);
    case 'i': return -state;
    default: return 0;
    }
}

int interpret(const unsigned char *code, int value) {
    static void *const labels[] = {&&zero, &&one, &&two, &&done};
    goto *labels[*code & 3];
zero: value += 1; goto *labels[*++code & 3];
one:  value <<= 1; goto *labels[*++code & 3];
two:  value ^= 0x1234; goto *labels[*++code & 3];
done: return value;
}

int main(int argc, char **argv) {
    int state = 0;
    for (int i = 0; i < argc; i++) state = step(state, argv[i]) + interpret((const unsigned char *)argv[i], i);
    return operations[(unsigned)argc % 3](state, argc);
}
