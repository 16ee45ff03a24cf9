/* A program that uses the gs base itself, by the system call and, where the processor allows, by
 * instruction: each thread finds its own data there, always. */
#include "check.h"

#include <asm/prctl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

struct area {
    uint64_t self, counter, words[30];
};

static unsigned n_rounds;
static int has_instructions;

static void set_gs(struct area *area, unsigned round) {
    if (has_instructions && round % 2)
        __asm__ volatile("wrgsbase %0" ::"r"(area));
    else
        CHECK_EQUAL(syscall(SYS_arch_prctl, ARCH_SET_GS, area), 0);
}

static uint64_t read_self(void) {
    uint64_t value;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(value));
    return value;
}

static __attribute__((noinline)) void count(uint64_t index) {
    __asm__ volatile("incq %%gs:8\n\taddq %0, %%gs:16(,%1,8)" ::"r"(index), "r"(index % 30) : "memory", "cc");
}

static void *run(void *seed) {
    struct area areas[2] = {0};
    uint64_t digest = (uintptr_t)seed;
    for (unsigned round = 0; round < n_rounds; round++) {
        struct area *area = &areas[round / 7 % 2];
        area->self = (uintptr_t)area;
        set_gs(area, round);
        for (uint64_t i = 0; i < 3000; i++) {
            CHECK_EQUAL(read_self(), (uintptr_t)area);
            count(i);
        }
        digest = mix(digest, busy(digest, 5000));
        uint64_t base;
        CHECK_EQUAL(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0);
        CHECK_EQUAL(base, (uintptr_t)area);
    }
    CHECK_EQUAL(areas[0].counter + areas[1].counter, 3000ull * n_rounds);
    for (int i = 0; i < 30; i++)
        digest = mix(digest, areas[0].words[i] + areas[1].words[i]);
    return (void *)(uintptr_t)digest;
}

int main(int argc, char **argv) {
    n_rounds = 300 * scale_of(argc, argv);
    has_instructions = getauxval(AT_HWCAP2) >> 1 & 1;
    uint64_t before = busy(1, 10000000); /* long enough to be interrupted before gs is taken */
    pthread_t threads[2];
    void *digests[3];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    digests[2] = run((void *)2);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], &digests[i]), 0);
    for (int i = 0; i < 3; i++)
        report("gs", mix((uintptr_t)digests[i], before));
}
