/* A program with one of each: static and global functions, a table of function pointers,
 * imports, an initializer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*operation)(int, int);

static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
int multiply(int a, int b) { return a * b; }

operation table[] = { add, subtract, multiply };
operation *const indirect = table;
int counter = 3;

__attribute__((constructor)) static void before_main(void) { counter++; }
__attribute__((destructor)) static void after_main(void) { counter--; }

__attribute__((noinline)) static size_t length(const char *text) {
    char copy[64];
    strncpy(copy, text, sizeof copy - 1);
    copy[63] = 0;
    return strlen(copy);
}

int main(int argc, char **argv) {
    int value = (int)length(argv[0]);
    for (int i = 0; i < argc + counter; i++)
        value = indirect[i % 3](value, i);
    printf("%d\n", value);
    return value == 12345 ? EXIT_FAILURE : EXIT_SUCCESS;
}
