/* EINTR comes exactly as often as signals are sent to a blocked call, and never in programs that
 * get no signals, however short their calls and however much they compute between them. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

static int pipe_ends[2], poller;
static volatile unsigned n_handled;
static volatile int waiting_in = -1, finished;
static volatile unsigned n_interruptions;
static pid_t main_tid;
static pthread_t main_thread;

static void on_signal(int signal) { n_handled += signal == SIGUSR1; }

static int is_blocked_in(int number) {
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", main_tid);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(descriptor >= 0);
    ssize_t got = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    return got > 0 && text[0] != 'r' && atoi(text) == number;
}

/* One signal for each call that blocks, sent when it is seen to block. */
static void *interrupt(void *unused) {
    while (!finished) {
        int number = waiting_in;
        if (number < 0 || !is_blocked_in(number)) {
            sched_yield();
            continue;
        }
        waiting_in = -1;
        n_interruptions++;
        CHECK_EQUAL(pthread_kill(main_thread, SIGUSR1), 0);
    }
    return unused;
}

#define INTERRUPTED(number, call)                                                                                    \
    do {                                                                                                             \
        busy(number, 2000);                                                                                          \
        waiting_in = number;                                                                                         \
        CHECK((call) == -1 && errno == EINTR);                                                                       \
        CHECK_EQUAL(n_handled, n_interruptions);                                                                     \
        n_eintr++;                                                                                                   \
    } while (0)

static unsigned count_interruptions(unsigned rounds) {
    unsigned n_eintr = 0;
    char byte;
    struct timespec hour = {3600, 0};
    for (unsigned i = 0; i < rounds; i++) {
        struct pollfd poll_for = {.fd = pipe_ends[0], .events = POLLIN};
        struct epoll_event event;
        INTERRUPTED(SYS_poll, poll(&poll_for, 1, -1));
        INTERRUPTED(SYS_ppoll, ppoll(&poll_for, 1, &hour, NULL));
        INTERRUPTED(SYS_read, read(pipe_ends[0], &byte, 1));
        INTERRUPTED(SYS_clock_nanosleep, nanosleep(&hour, NULL));
        INTERRUPTED(SYS_epoll_wait, epoll_wait(poller, &event, 1, -1));
        INTERRUPTED(SYS_pause, pause());
    }
    return n_eintr;
}

/* Every second chunk of work is followed by calls that block for a moment. */
static unsigned count_undisturbed(unsigned rounds) {
    unsigned n_calls = 0;
    sem_t semaphore;
    CHECK_EQUAL(sem_init(&semaphore, 0, 0), 0);
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t random = busy(i, 8000 + i % 7 * 1000);
        struct timespec moment = {0, 1 + (long)(random % 60000)}, rest = {0, 0};
        struct pollfd poll_for = {.fd = pipe_ends[0], .events = POLLIN};
        struct timeval short_time = {0, random % 90};
        struct epoll_event event;
        struct timespec until;
        switch (i % 6) {
        case 0: CHECK_EQUAL(nanosleep(&moment, &rest), 0); break;
        case 1: CHECK_EQUAL(ppoll(&poll_for, 1, &moment, NULL), 0); break;
        case 2: CHECK_EQUAL(select(0, NULL, NULL, NULL, &short_time), 0); break;
        case 3: CHECK_EQUAL(epoll_wait(poller, &event, 1, i % 60 == 3), 0); break;
        case 4: CHECK_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL), 0); break;
        default:
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += (long)(random % 60000);
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
            break;
        }
        n_calls++;
    }
    return n_calls;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    CHECK_EQUAL(pipe2(pipe_ends, O_CLOEXEC), 0);
    CHECK((poller = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    main_tid = gettid();
    main_thread = pthread_self();
    printf("%u calls, none interrupted\n", count_undisturbed(400 * scale));

    struct sigaction action = {.sa_handler = on_signal};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t interrupter;
    CHECK_EQUAL(pthread_create(&interrupter, NULL, interrupt, NULL), 0);
    unsigned n_eintr = count_interruptions(100 * scale);
    finished = 1;
    CHECK_EQUAL(pthread_join(interrupter, NULL), 0);
    CHECK_EQUAL(n_interruptions, n_eintr);
    printf("%u calls, each interrupted once\n", n_eintr);
}
