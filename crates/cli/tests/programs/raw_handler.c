/* A handler installed by an instruction of the program itself, past the C library: nobody can
 * wrap it. Whoever moves threads to other code has to notice and stop; it has a second to do so
 * before signals arrive. */
#include "maps.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

enum { RESTORER = 0x04000000 };
void restore(void);
__asm__(".text\n.type restore, @function\nrestore: mov $15, %eax\nsyscall\n.size restore, . - restore\n");

static long install(long signal, const struct kernel_action *action) {
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigaction), "D"(signal), "S"(action), "d"(0), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static volatile unsigned n_alarms;

static void on_alarm(int signal, siginfo_t *info, void *context) {
    check_context(context);
    CHECK_EQUAL(info->si_signo, signal);
    n_alarms++;
}

static double seconds(void) {
    struct timespec now;
    CHECK_EQUAL(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    uint64_t digest = busy(1, 1000000);
    struct kernel_action action = {on_alarm, SA_SIGINFO | RESTORER, restore, 0};
    CHECK_EQUAL(install(SIGALRM, &action), 0);
    for (double start = seconds(); seconds() < start + 1;)
        CHECK(busy(2, 1000));
    refresh_maps();
    struct itimerval interval = {{0, 300}, {0, 300}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, NULL), 0);
    for (unsigned i = 0; i < 100 * scale; i++)
        digest = mix(digest, busy(digest, 20000));
    CHECK(n_alarms > 0);
    report("digest", digest);
}
