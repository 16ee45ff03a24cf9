/* Storms of signals from another thread and from a timer: every handler sees addresses of the
 * program only, queued signals arrive once each and in order, and the interrupted computation
 * comes out right. */
#include "maps.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { CHUNK = 20000, IN_FLIGHT = 16 };
#define QUEUED (SIGRTMIN + 1)

static volatile unsigned n_alarms, n_users, n_plain, n_queued;
static volatile uint64_t queue_digest;
static pthread_t main_thread;
static unsigned n_signals;

static void on_signal(int signal, siginfo_t *info, void *context) {
    int saved_errno = errno;
    check_context(context);
    CHECK_EQUAL(info->si_signo, signal);
    CHECK(pthread_equal(pthread_self(), main_thread));
    if (signal == QUEUED) {
        CHECK_EQUAL(info->si_code, SI_QUEUE);
        CHECK_EQUAL(info->si_value.sival_int, n_queued);
        queue_digest = mix(queue_digest, busy(n_queued, 100));
        n_queued++;
    } else if (signal == SIGALRM) {
        CHECK_EQUAL(info->si_code, SI_KERNEL);
        n_alarms++;
    } else {
        CHECK_EQUAL(info->si_code, SI_TKILL);
        CHECK_EQUAL(info->si_pid, getpid());
        n_users++;
    }
    errno = saved_errno;
}

static void on_plain_signal(int signal) {
    CHECK_EQUAL(signal, SIGUSR2);
    n_plain++;
}

static void *send_signals(void *unused) {
    for (unsigned i = 0; i < n_signals; i++) {
        while (i - n_queued > IN_FLIGHT)
            sched_yield();
        CHECK_EQUAL(pthread_sigqueue(main_thread, QUEUED, (union sigval){.sival_int = (int)i}), 0);
        CHECK_EQUAL(pthread_kill(main_thread, SIGUSR1), 0);
        CHECK_EQUAL(pthread_kill(main_thread, SIGUSR2), 0);
    }
    return unused;
}

static pthread_t start_sender(void) {
    sigset_t all, before;
    pthread_t sender;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
    CHECK_EQUAL(pthread_create(&sender, NULL, send_signals, NULL), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    return sender;
}

static void install_handlers(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    int signals[] = {SIGALRM, SIGUSR1, QUEUED};
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQUAL(sigaction(signals[i], &action, NULL), 0);
    struct sigaction plain = {.sa_handler = on_plain_signal, .sa_flags = SA_RESTART};
    CHECK_EQUAL(sigaction(SIGUSR2, &plain, NULL), 0);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    n_signals = 400 * scale;
    main_thread = pthread_self();
    refresh_maps();
    install_handlers();
    uint64_t expected = busy(7, CHUNK);

    struct itimerval interval = {{0, 700}, {0, 700}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, NULL), 0);
    pthread_t sender = start_sender();
    for (unsigned i = 0; i < 250 * scale || n_queued < n_signals || !n_alarms; i++) {
        CHECK_EQUAL(busy(7, CHUNK), expected);
        if (i % 64 == 0)
            refresh_maps();
    }
    CHECK_EQUAL(pthread_join(sender, NULL), 0);
    CHECK_EQUAL(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    CHECK(n_users && n_plain);

    printf("%u queued signals\n", n_queued);
    report("queue", queue_digest);
    report("work", expected);
}
