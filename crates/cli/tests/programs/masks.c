/* Signal masks against a model: masks reported as old, pending signals, masks in handlers and in
 * their contexts; SIGURG, SIGTRAP and SIGPROF are signals like any other. With a second argument
 * SIGURG is left alone. */
#include "check.h"

#include <pthread.h>
#include <signal.h>

static const int SIGNALS[] = {SIGURG, SIGTRAP, SIGUSR1, SIGUSR2, SIGPROF, SIGALRM, SIGCHLD, 34, 50, 64};
enum { N_SIGNALS = sizeof SIGNALS / sizeof SIGNALS[0] };

static int first; /* of SIGNALS */
static unsigned blocked, pending; /* one bit per entry of SIGNALS */
static volatile unsigned handled_while_open;
static unsigned extra_mask[N_SIGNALS];
static volatile uint64_t digest;

static int index_of(int signal) {
    for (int i = 0; i < N_SIGNALS; i++)
        if (SIGNALS[i] == signal)
            return i;
    CHECK(!"a signal of the table");
    return -1;
}

static sigset_t to_set(unsigned bits) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < N_SIGNALS; i++)
        if (bits >> i & 1)
            sigaddset(&set, SIGNALS[i]);
    return set;
}

static unsigned from_set(const sigset_t *set) {
    unsigned bits = 0;
    for (int signal = 1; signal <= 64; signal++)
        if (sigismember(set, signal) == 1)
            bits |= 1u << index_of(signal);
    return bits;
}

static unsigned mask_now(void) {
    sigset_t set;
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    return from_set(&set);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    int index = index_of(signal);
    CHECK_EQUAL(info->si_signo, signal);
    unsigned interrupted = from_set(&((ucontext_t *)context)->uc_sigmask);
    CHECK(!(interrupted >> index & 1));
    CHECK_EQUAL(mask_now(), interrupted | extra_mask[index] | 1u << index);
    handled_while_open |= 1u << index;
    digest = mix(digest, busy(index, 20));
}

/* Signals that become deliverable together run in an order the kernel chooses: the digest must
 * not depend on it. */
static void change(int how, unsigned bits) {
    unsigned before = blocked;
    blocked = how == SIG_BLOCK ? blocked | bits : how == SIG_UNBLOCK ? blocked & ~bits : bits;
    uint64_t digest_before = digest;
    handled_while_open = 0;
    sigset_t set = to_set(bits), old;
    CHECK_EQUAL(bits & 2 ? sigprocmask(how, &set, &old) : pthread_sigmask(how, &set, &old), 0);
    CHECK_EQUAL(from_set(&old), before);
    CHECK_EQUAL(mask_now(), blocked);
    CHECK_EQUAL(handled_while_open, pending & ~blocked);
    pending &= blocked;
    digest = mix(digest_before, handled_while_open);
}

static void send(int index) {
    handled_while_open = 0;
    CHECK_EQUAL(raise(SIGNALS[index]), 0);
    if (blocked >> index & 1) {
        pending |= 1u << index;
        CHECK_EQUAL(handled_while_open, 0);
    } else {
        CHECK_EQUAL(handled_while_open, 1u << index);
    }
    sigset_t set;
    CHECK_EQUAL(sigpending(&set), 0);
    CHECK_EQUAL(from_set(&set), pending);
}

static void *inherits(void *expected) {
    CHECK_EQUAL(mask_now(), (uintptr_t)expected);
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGNALS[first]);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
    CHECK_EQUAL(mask_now(), 1u << first);
    return (void *)(uintptr_t)busy(3, 2000);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    first = argc > 2;
    unsigned all = (1u << N_SIGNALS) - (1u << first);
    for (int i = first; i < N_SIGNALS; i++) {
        extra_mask[i] = (0x2a5u << i | 0x2a5u >> (N_SIGNALS - i)) & all;
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, back;
        action.sa_mask = to_set(extra_mask[i]);
        CHECK_EQUAL(sigaction(SIGNALS[i], &action, NULL), 0);
        CHECK_EQUAL(sigaction(SIGNALS[i], NULL, &back), 0);
        CHECK(back.sa_sigaction == on_signal && back.sa_flags & SA_SIGINFO);
        printf("%d flags %x\n", SIGNALS[i], back.sa_flags);
        CHECK_EQUAL(from_set(&back.sa_mask), extra_mask[i]);
    }
    uint64_t random = 1;
    for (unsigned i = 0; i < 6000 * scale; i++) {
        random = busy(random, 100);
        unsigned bits = random >> 20 & all;
        switch (random % 5) {
        case 0: change(SIG_BLOCK, bits); break;
        case 1: change(SIG_UNBLOCK, bits); break;
        case 2: change(SIG_SETMASK, bits); break;
        default: send(first + (int)(random >> 40 & 0xffff) % (N_SIGNALS - first)); break;
        }
        if (i % 500 == 0) {
            pthread_t thread;
            CHECK_EQUAL(pthread_create(&thread, NULL, inherits, (void *)(uintptr_t)blocked), 0);
            CHECK_EQUAL(pthread_join(thread, NULL), 0);
            CHECK_EQUAL(mask_now(), blocked);
        }
    }
    report("masks", mix(digest, random));
}
