/* Coroutines by ucontext on stacks of 8 KB, with a page without access below each: whoever puts
 * a signal frame there has little room. */
#include "check.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { N_COROUTINES = 50, STACK = 8192, PAGE = 4096 };

static ucontext_t scheduler, contexts[N_COROUTINES];
static uint64_t digests[N_COROUTINES];
static unsigned n_finished, n_rounds;

/* Uses about half of the stack. */
static __attribute__((noinline)) uint64_t descend(unsigned depth, uint64_t seed) {
    volatile uint64_t frame[16];
    for (unsigned i = 0; i < 16; i++)
        frame[i] = mix(seed, i);
    uint64_t below = depth ? descend(depth - 1, frame[3]) : busy(seed, 200);
    return mix(below, frame[depth % 16]);
}

static void run(int index) {
    for (unsigned i = 0; i < n_rounds; i++) {
        digests[index] = mix(digests[index], descend(20, i + index));
        CHECK_EQUAL(swapcontext(&contexts[index], &scheduler), 0);
    }
    n_finished++;
}

int main(int argc, char **argv) {
    n_rounds = 200 * scale_of(argc, argv);
    char *stacks = mmap(NULL, N_COROUTINES * (STACK + PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stacks != MAP_FAILED);
    for (int i = 0; i < N_COROUTINES; i++) {
        char *stack = stacks + i * (STACK + PAGE) + PAGE;
        CHECK_EQUAL(mprotect(stack, STACK, PROT_READ | PROT_WRITE), 0);
        CHECK_EQUAL(getcontext(&contexts[i]), 0);
        contexts[i].uc_stack.ss_sp = stack;
        contexts[i].uc_stack.ss_size = STACK;
        contexts[i].uc_link = &scheduler;
        makecontext(&contexts[i], (void (*)(void))run, 1, i);
    }
    /* Once more than the rounds: the last time each one runs off its end. */
    for (unsigned round = 0; round <= n_rounds; round++)
        for (int i = 0; i < N_COROUTINES; i++)
            CHECK_EQUAL(swapcontext(&scheduler, &contexts[i]), 0);
    CHECK_EQUAL(n_finished, N_COROUTINES);
    uint64_t digest = 0;
    for (int i = 0; i < N_COROUTINES; i++)
        digest = mix(digest, digests[i]);
    report("coroutines", digest);
}
