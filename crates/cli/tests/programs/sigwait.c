/* Waiting for every signal there is: sigwaitinfo, sigtimedwait, sigwait, sigsuspend and signalfd
 * return what was sent, in order, and nothing else. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

static pthread_t main_thread;
static unsigned n_rounds;
static volatile unsigned n_received;
static volatile sig_atomic_t n_handled;

static void on_signal(int signal) { n_handled += signal == SIGUSR1; }

static void *send(void *unused) {
    for (unsigned i = 0; i < n_rounds; i++) {
        uint64_t noise = busy(i, 4000);
        CHECK_EQUAL(pthread_sigqueue(main_thread, SIGRTMIN + i % 8, (union sigval){.sival_int = (int)(noise & 0xffff)}), 0);
        while (n_received <= i)
            sched_yield();
    }
    return unused;
}

static int receive_from(int descriptor, int *value) {
    struct signalfd_siginfo info;
    struct pollfd poll_for = {.fd = descriptor, .events = POLLIN};
    CHECK_EQUAL(poll(&poll_for, 1, -1), 1);
    CHECK_EQUAL(read(descriptor, &info, sizeof info), sizeof info);
    *value = info.ssi_int;
    return (int)info.ssi_signo;
}

static uint64_t receive(const sigset_t *all, int descriptor) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < n_rounds; i++) {
        siginfo_t info = {0};
        int signal = 0, value = (int)(busy(i, 4000) & 0xffff);
        struct timespec long_time = {20, 0};
        switch (i % 4) {
        case 0: signal = sigwaitinfo(all, &info); break;
        case 1: signal = sigtimedwait(all, &info, &long_time); break;
        case 2: CHECK_EQUAL(sigwait(all, &signal), 0); break;
        default: signal = receive_from(descriptor, &info.si_value.sival_int); break;
        }
        CHECK_EQUAL(signal, SIGRTMIN + i % 8);
        if (i % 4 != 2)
            CHECK_EQUAL(info.si_value.sival_int, value);
        digest = mix(digest, value);
        n_received++;
    }
    return digest;
}

/* With nothing sent, a wait for everything ends only by its time. */
static void wait_for_nothing(const sigset_t *all, int descriptor, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        busy(i, 20000);
        siginfo_t info;
        struct timespec short_time = {0, 200000};
        CHECK(sigtimedwait(all, &info, &short_time) == -1 && errno == EAGAIN);
        struct signalfd_siginfo from_descriptor;
        CHECK(read(descriptor, &from_descriptor, sizeof from_descriptor) == -1 && errno == EAGAIN);
        sigset_t pending;
        CHECK_EQUAL(sigpending(&pending), 0);
        CHECK(sigisemptyset(&pending));
    }
}

/* SIGUSR1 is pending when sigsuspend opens the mask for it alone. */
static void suspend(unsigned rounds) {
    sigset_t all_but_one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGUSR1);
    for (unsigned i = 0; i < rounds; i++) {
        busy(i, 4000);
        CHECK_EQUAL(raise(SIGUSR1), 0);
        CHECK(sigsuspend(&all_but_one) == -1 && errno == EINTR);
        CHECK_EQUAL(n_handled, i + 1);
    }
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    n_rounds = 300 * scale;
    main_thread = pthread_self();
    struct sigaction action = {.sa_handler = on_signal};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    sigset_t all;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    int descriptor = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(descriptor >= 0);
    pthread_t sender;
    CHECK_EQUAL(pthread_create(&sender, NULL, send, NULL), 0);
    report("received", receive(&all, descriptor));
    CHECK_EQUAL(pthread_join(sender, NULL), 0);
    wait_for_nothing(&all, descriptor, 100 * scale);
    suspend(500 * scale);
    report("suspended", n_handled);
}
