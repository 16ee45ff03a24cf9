/* Leaves handlers by siglongjmp: a hundred thousand synchronous ones, then asynchronous ones out
 * of a timer. */
#include "maps.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile int armed;
static volatile unsigned n_jumps;

static void on_signal(int signal, siginfo_t *info, void *context) {
    CHECK_EQUAL(info->si_signo, signal);
    check_context(context);
    n_jumps++;
    if (armed)
        siglongjmp(back, signal);
}

static uint64_t raise_and_jump(unsigned rounds) {
    volatile uint64_t digest = 0;
    for (volatile unsigned i = 0; i < rounds; i++) {
        int signal = sigsetjmp(back, 1);
        if (signal == 0) {
            armed = 1;
            digest = mix(digest, busy(i, 50));
            raise(SIGUSR1);
            CHECK(!"reached");
        }
        armed = 0;
        CHECK_EQUAL(signal, SIGUSR1);
    }
    CHECK_EQUAL(n_jumps, rounds);
    return digest;
}

/* The timer may strike anywhere in the work: the work then starts again. */
static uint64_t interrupted_work(unsigned rounds) {
    volatile uint64_t digest = 0;
    volatile unsigned i = 0;
    sigsetjmp(back, 1);
    while (i < rounds) {
        armed = 1;
        uint64_t part = busy(i, 20000);
        armed = 0;
        digest = mix(digest, part);
        i++;
    }
    return digest;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    refresh_maps();
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    report("synchronous", raise_and_jump(10000 * scale));
    struct itimerval interval = {{0, 1500}, {0, 1500}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, NULL), 0);
    report("timer", interrupted_work(150 * scale));
}
