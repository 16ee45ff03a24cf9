// Burns CPU time in the program's own code, and prints a digest of it.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) unsigned long work(unsigned long rounds) {
    unsigned long state = 88172645463325252ul;
    for (unsigned long round = 0; round < rounds; round++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

int main(int argc, char **argv) {
    printf("%lx\n", work(argc > 1 ? strtoul(argv[1], 0, 10) : 100000000));
    return 3;
}
