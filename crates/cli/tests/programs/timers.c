/* The program's own timers, of every kind at once, on every clock: each fires, overruns add up,
 * one that is set for SIGURG too, and taking them away takes only them away. */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

enum { N_TIMERS = 40 };

static volatile unsigned n_fired[65], n_by_timer[N_TIMERS];
static sem_t notified;

static void on_interval(int signal) { n_fired[signal]++; }

static void on_timer(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK_EQUAL(info->si_code, SI_TIMER);
    int index = info->si_value.sival_int;
    CHECK(index >= 0 && index < N_TIMERS);
    n_by_timer[index]++;
    n_fired[signal]++;
}

static void notify(union sigval value) {
    CHECK_EQUAL(value.sival_int, 77);
    sem_post(&notified);
}

static void start_intervals(long period_us) {
    struct itimerval interval = {{0, period_us}, {0, period_us}}, before;
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, &before), 0);
    CHECK(before.it_interval.tv_sec == 0 && before.it_interval.tv_usec == 0);
    CHECK_EQUAL(setitimer(ITIMER_PROF, &interval, NULL), 0);
    CHECK_EQUAL(setitimer(ITIMER_VIRTUAL, &interval, NULL), 0);
}

static void run_intervals(unsigned scale) {
    int signals[] = {SIGALRM, SIGPROF, SIGVTALRM};
    struct sigaction action = {.sa_handler = on_interval, .sa_flags = SA_RESTART};
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(sigaction(signals[i], &action, NULL), 0);
    start_intervals(2000);
    uint64_t digest = 0;
    for (unsigned i = 0; i < 20 * scale || !n_fired[SIGALRM] || !n_fired[SIGPROF] || !n_fired[SIGVTALRM]; i++)
        digest = busy(1, 100000);
    struct itimerval now;
    CHECK_EQUAL(getitimer(ITIMER_PROF, &now), 0);
    /* The kernel rounds CPU-time intervals up. */
    CHECK(now.it_interval.tv_usec >= 2000 && now.it_interval.tv_usec <= 20000);
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
        CHECK_EQUAL(setitimer(which, &(struct itimerval){0}, NULL), 0);
    report("intervals", digest);
}

static int all_fired(void) {
    for (int i = 0; i < N_TIMERS; i++)
        if (!n_by_timer[i])
            return 0;
    return 1;
}

static void run_posix_timers(unsigned scale) {
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID,
                                       CLOCK_REALTIME};
    static const int signals[] = {SIGURG, SIGUSR1, SIGPROF, 40, SIGTRAP};
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(sigaction(signals[i], &action, NULL), 0);
    timer_t timers[N_TIMERS];
    struct itimerspec every = {{0, 5000000}, {0, 1000000}};
    for (int i = 0; i < N_TIMERS; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signals[i % 5]};
        event.sigev_value.sival_int = i;
        CHECK_EQUAL(timer_create(clocks[i % 4], &event, &timers[i]), 0);
        CHECK_EQUAL(timer_settime(timers[i], 0, &every, NULL), 0);
    }
    uint64_t digest = 0;
    for (unsigned i = 0; i < 20 * scale || !all_fired(); i++)
        digest = busy(2, 100000);
    for (int i = 0; i < N_TIMERS; i++) {
        CHECK(timer_getoverrun(timers[i]) >= 0);
        CHECK_EQUAL(timer_delete(timers[i]), 0);
        CHECK(timer_delete(timers[i]) == -1 && errno == EINVAL);
    }
    report("timers", digest);
}

static void run_notified(unsigned count) {
    CHECK_EQUAL(sem_init(&notified, 0, 0), 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify};
    event.sigev_value.sival_int = 77;
    timer_t timer;
    CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec every = {{0, 1000000}, {0, 1000000}};
    CHECK_EQUAL(timer_settime(timer, 0, &every, NULL), 0);
    for (unsigned i = 0; i < count; i++)
        while (sem_wait(&notified) != 0)
            CHECK_EQUAL(errno, EINTR);
    CHECK_EQUAL(timer_delete(timer), 0);
    printf("%u notifications\n", count);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    run_intervals(scale);
    run_posix_timers(scale);
    run_notified(5 * scale);
}
