// Blocking, pending, waiting: with the runtime's signals among the others.
#include "burn.h"
#include <pthread.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <time.h>
static volatile int handled;
static void handler(int signal) { handled++; }
static void show(const char *what) {
    sigset_t set; memset(&set, 0, sizeof set);
    pthread_sigmask(SIG_BLOCK, 0, &set);
    printf("%s:", what);
    for (int each = 1; each < 65; each++) if (sigismember(&set, each) == 1) printf(" %d", each);
    sigpending(&set);
    printf(" pending:");
    for (int each = 1; each < 65; each++) if (sigismember(&set, each) == 1) printf(" %d", each);
    printf("\n");
}
static void *thread(void *argument) { show("thread"); burn(20000000); show("thread"); return 0; }
int main() {
    sigset_t all, one, old;
    sigfillset(&all);
    show("start");
    sigprocmask(SIG_BLOCK, &all, &old);
    show("all");
    burn(20000000);
    pthread_t id; pthread_create(&id, 0, thread, 0); pthread_join(id, 0);
    sigprocmask(SIG_SETMASK, &old, &all);
    show("restored");
    for (int pass = 0; pass < 3; pass++) {
        int number = pass == 0 ? SIGUSR1 : pass == 1 ? SIGURG : SIGTRAP;
        signal(number, handler);
        sigemptyset(&one); sigaddset(&one, number);
        sigprocmask(SIG_BLOCK, &one, 0);
        show("one");
        kill(getpid(), number);
        burn(10000000);
        show("sent");
        printf("handled %d\n", handled);
        int got = 0;
        printf("sigwait %d", sigwait(&one, &got)); printf(" %d\n", got);
        show("waited");
        burn(10000000);
        struct timespec zero = {0, 1000000};
        siginfo_t info; 
        printf("timed %d %d\n", sigtimedwait(&one, &info, &zero), errno);
        union sigval value = {.sival_int = 77};
        sigqueue(getpid(), number, value);
        printf("info %d", sigwaitinfo(&one, &info)); printf(" %d %d\n", info.si_value.sival_int, info.si_code);
        int fd = signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK);
        struct signalfd_siginfo record;
        printf("read %zd %d\n", read(fd, &record, sizeof record), errno);
        raise(number);
        burn(10000000);
        printf("read %zd", read(fd, &record, sizeof record)); printf(" %d %d\n", record.ssi_signo, record.ssi_code);
        close(fd);
        raise(number);
        printf("handled %d\n", handled);
        struct timespec ten = {10, 0};
        sigset_t none; sigemptyset(&none);
        printf("ppoll %d %d", ppoll(0, 0, &ten, &none), errno); printf(" handled %d\n", handled);
        raise(number);
        printf("pselect %d %d", pselect(0, 0, 0, 0, &ten, &none), errno); printf(" handled %d\n", handled);
        raise(number);
        printf("suspend %d %d", sigsuspend(&none), errno); printf(" handled %d\n", handled);
        raise(number);
        int epoll = epoll_create1(0); struct epoll_event event;
        printf("epoll %d %d", epoll_pwait(epoll, &event, 1, 10000, &none), errno); printf(" handled %d\n", handled);
        close(epoll);
        show("before");
        raise(number);
        printf("handled %d\n", handled);
        sigprocmask(SIG_UNBLOCK, &one, 0);
        printf("handled %d\n", handled);
        show("end");
        raise(number);
        printf("handled %d\n", handled);
        burn(10000000);
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    kill(getpid(), SIGTERM);
    int got = 0;
    sigdelset(&all, SIGKILL);
    sigwait(&all, &got);
    printf("full set %d\n", got);
    return 0;
}
