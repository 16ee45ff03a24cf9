// Paths whose shares are the same at any time, because a generator of random numbers chooses them:
// what is sampled does not depend on when.
#include "check.h"

#define HERE asm volatile("nop")

__attribute__((noinline)) static uint64_t choose(uint64_t word) {
    uint64_t result = 1;
    if (word & 1) { result += 3; HERE; } else { result *= 5; HERE; }
    if (word & 6) { result ^= word; HERE; }
    if (!(word & 56)) { result += 7; HERE; }
    return result;
}

int main(int argc, char **argv) {
    uint64_t word = 88172645463325252, digest = 0;
    for (uint64_t i = 0; i < 10000000ul * scale_of(argc, argv); i++) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        digest = mix(digest, choose(word >> 20));
    }
    report("shares", digest);
}
