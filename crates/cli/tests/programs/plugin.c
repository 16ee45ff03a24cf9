/* A library for dlopen.c. VARIANT changes the instructions, not their number: every build has
 * the same layout. */
#include <stdint.h>

extern void plugin_unloaded(void);

int variant = VARIANT;

#define OPERATION_0 "add"
#define OPERATION_1 "sub"
#define OPERATION_2 "xor"
#define OPERATION_3 "adc"
#define JOIN(a, b) a##b
#define OPERATION(n) JOIN(OPERATION_, n)

static __attribute__((noinline)) uint64_t step(uint64_t digest, uint64_t value) {
    __asm__("cmp %0, %0\n\t" OPERATION(VARIANT) " %1, %0" : "+r"(digest) : "r"(value) : "cc");
    return digest * 0x9e3779b97f4a7c15u ^ digest >> 31;
}

uint64_t compute(uint64_t seed, unsigned rounds) {
    uint64_t digest = seed;
    for (unsigned i = 0; i < rounds; i++)
        digest = step(digest, i * (VARIANT + 1000));
    return digest;
}

static __attribute__((destructor)) void unload(void) { plugin_unloaded(); }
