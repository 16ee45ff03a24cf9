/* Alternate signal stacks as the program sees them: none at first, on the normal stack without
 * one, on it with one, of the smallest size the system allows, reported right from inside and
 * outside, by every thread for itself. */
#include "maps.h"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

struct view {
    char *lo, *hi;
    volatile unsigned n_on, n_off;
};
static __thread struct view view;

static void check_report(int flags, const char *lo, size_t size) {
    stack_t now;
    CHECK_EQUAL(sigaltstack(NULL, &now), 0);
    CHECK_EQUAL(now.ss_flags, flags);
    if (flags != SS_DISABLE) {
        CHECK(now.ss_sp == lo);
        CHECK_EQUAL(now.ss_size, size);
    }
}

static void on_stack(int signal, siginfo_t *info, void *context) {
    char here;
    CHECK_EQUAL(info->si_signo, signal);
    check_context(context);
    if (!view.lo) {
        char *interrupted = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
        CHECK(&here < interrupted && interrupted - &here < 64 * 1024);
        check_report(SS_DISABLE, NULL, 0);
        view.n_off++;
        return;
    }
    CHECK(&here >= view.lo && &here < view.hi);
    check_report(SS_ONSTACK, view.lo, view.hi - view.lo);
    stack_t other = {.ss_sp = view.lo, .ss_size = view.hi - view.lo};
    CHECK(sigaltstack(&other, NULL) == -1 && errno == EPERM);
    CHECK(((ucontext_t *)context)->uc_stack.ss_sp == view.lo);
    view.n_on++;
}

static void on_normal_stack(int signal) {
    char here;
    CHECK_EQUAL(signal, SIGUSR2);
    CHECK(!(&here >= view.lo && &here < view.hi));
    view.n_off++;
}

static uint64_t storm(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        digest = mix(digest, busy(i, 2000));
        CHECK_EQUAL(pthread_kill(pthread_self(), SIGUSR1), 0);
        CHECK_EQUAL(pthread_kill(pthread_self(), SIGUSR2), 0);
    }
    return digest;
}

/* One size of stack: install, use, take away. */
static uint64_t with_stack(size_t size, unsigned rounds) {
    char *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    stack_t install = {.ss_sp = stack, .ss_size = size}, old;
    CHECK_EQUAL(sigaltstack(&install, &old), 0);
    CHECK_EQUAL(old.ss_flags, SS_DISABLE);
    view = (struct view){.lo = stack, .hi = stack + size};
    check_report(0, stack, size);
    uint64_t digest = storm(rounds);
    CHECK_EQUAL(view.n_on, rounds);
    CHECK_EQUAL(view.n_off, rounds);

    stack_t disable = {.ss_flags = SS_DISABLE};
    CHECK_EQUAL(sigaltstack(&disable, &old), 0);
    CHECK(old.ss_sp == stack && old.ss_flags == 0);
    view = (struct view){0};
    check_report(SS_DISABLE, NULL, 0);
    CHECK_EQUAL(munmap(stack, size + 4096), 0);
    return digest;
}

static void *thread(void *argument) {
    unsigned rounds = (unsigned)(uintptr_t)argument;
    check_report(SS_DISABLE, NULL, 0);
    uint64_t digest = storm(rounds);
    CHECK_EQUAL(view.n_on, 0);
    CHECK_EQUAL(view.n_off, 2 * rounds);
    size_t smallest = getauxval(AT_MINSIGSTKSZ);
    digest = mix(digest, with_stack(65536, rounds));
    /* The handler's own frame and the calls it makes come on top of what the kernel needs. */
    digest = mix(digest, with_stack((smallest ? smallest : 2048) + 8192, rounds));
    return (void *)(uintptr_t)digest;
}

int main(int argc, char **argv) {
    unsigned rounds = 120 * scale_of(argc, argv);
    refresh_maps();
    check_report(SS_DISABLE, NULL, 0);
    struct sigaction action = {.sa_sigaction = on_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction normal = {.sa_handler = on_normal_stack};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQUAL(sigaction(SIGUSR2, &normal, NULL), 0);
    stack_t tiny = {.ss_sp = argv, .ss_size = 100};
    CHECK(sigaltstack(&tiny, NULL) == -1 && errno == ENOMEM);

    pthread_t threads[3];
    void *digest, *first = thread((void *)(uintptr_t)rounds);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)rounds), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(pthread_join(threads[i], &digest), 0);
        CHECK(digest == first);
    }
    report("altstack", (uintptr_t)first);
}
