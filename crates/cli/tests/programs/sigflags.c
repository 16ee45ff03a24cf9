/* Flags of sigaction and the older ways to install handlers: SA_RESETHAND, SA_NODEFER,
 * SA_RESTART by siginterrupt, signal, sysv_signal, sigset; what each reports as the handler
 * before. */
#include "check.h"

#include <signal.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static volatile int depth, deepest, n_raises;
static volatile unsigned n_calls;

static void count(int signal) {
    n_calls += signal;
    busy(signal, 200);
}

static void other(int signal) { n_calls += 100 * signal; }

static void nest(int signal) {
    if (++depth > deepest)
        deepest = depth;
    busy(depth, 300);
    if (n_raises++ < 20)
        raise(signal);
    depth--;
}

static struct sigaction disposition(int signal) {
    struct sigaction now;
    CHECK_EQUAL(sigaction(signal, NULL, &now), 0);
    return now;
}

static void reset_hand(int signal) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESETHAND};
    CHECK_EQUAL(sigaction(signal, &action, NULL), 0);
    CHECK(disposition(signal).sa_handler == count);
    unsigned before = n_calls;
    raise(signal);
    CHECK_EQUAL(n_calls, before + signal);
    CHECK(disposition(signal).sa_handler == SIG_DFL);
    if (signal == SIGURG || signal == SIGCHLD)
        raise(signal);
    CHECK_EQUAL(n_calls, before + signal);
}

static void nodefer(int signal) {
    struct sigaction action = {.sa_handler = nest, .sa_flags = SA_NODEFER}, old;
    deepest = n_raises = 0;
    CHECK_EQUAL(sigaction(signal, &action, &old), 0);
    CHECK_EQUAL(disposition(signal).sa_flags & SA_NODEFER, SA_NODEFER);
    raise(signal);
    CHECK_EQUAL(deepest, 21);
    action.sa_flags = 0;
    deepest = n_raises = 0;
    CHECK_EQUAL(sigaction(signal, &action, NULL), 0);
    raise(signal);
    CHECK_EQUAL(deepest, 1);
}

static void older_ways(int signal_number) {
    CHECK_EQUAL(siginterrupt(signal_number, 0), 0);
    signal(signal_number, SIG_DFL);
    CHECK(signal(signal_number, count) == SIG_DFL);
    CHECK(signal(signal_number, other) == count);
    CHECK(disposition(signal_number).sa_flags & SA_RESTART);
    CHECK_EQUAL(siginterrupt(signal_number, 1), 0);
    CHECK_EQUAL(disposition(signal_number).sa_flags & SA_RESTART, 0);
    CHECK(sysv_signal(signal_number, count) == other);
    CHECK(disposition(signal_number).sa_flags & SA_RESETHAND);
    unsigned before = n_calls;
    raise(signal_number);
    CHECK_EQUAL(n_calls, before + signal_number);
    CHECK(signal(signal_number, SIG_IGN) == SIG_DFL);
    raise(signal_number);
    CHECK_EQUAL(n_calls, before + signal_number);
    CHECK(sigset(signal_number, count) == SIG_IGN);
    CHECK(sigset(signal_number, SIG_HOLD) == count);
    raise(signal_number);
    CHECK_EQUAL(n_calls, before + signal_number);
    CHECK(sigset(signal_number, other) == SIG_HOLD);
    CHECK_EQUAL(n_calls, before + 101 * signal_number);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    static const int signals[] = {SIGUSR1, SIGURG, SIGTRAP, SIGPROF, SIGSEGV, SIGCHLD};
    for (int signal = 1; signal <= 64; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && signal != 32 && signal != 33)
            CHECK(disposition(signal).sa_handler == SIG_DFL && disposition(signal).sa_flags == 0);
    CHECK(signal(SIGKILL, count) == SIG_ERR && errno == EINVAL);
    CHECK(signal(65, count) == SIG_ERR && errno == EINVAL);
    uint64_t digest = 0;
    for (unsigned i = 0; i < 200 * scale; i++) {
        int signal = signals[i % 6];
        reset_hand(signal);
        nodefer(signal);
        older_ways(signal);
        digest = mix(digest, n_calls + busy(i, 5000));
    }
    report("sigflags", digest);
}
