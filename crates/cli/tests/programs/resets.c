/* Sets every signal to its default again and again, through the library and behind its back;
 * then ignores them all. Work in between comes out right and no signal that nobody sent has any
 * effect. */
#include "check.h"

#include <signal.h>
#include <sys/syscall.h>

struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static int is_changeable(int signal) { return signal != SIGKILL && signal != SIGSTOP; }

static void set_all(void (*handler)(int)) {
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action = {.sa_handler = handler};
        int is_reserved = signal == 32 || signal == 33 || !is_changeable(signal);
        CHECK_EQUAL(sigaction(signal, &action, NULL), is_reserved ? -1 : 0);
    }
}

static void set_all_raw(void (*handler)(int)) {
    struct kernel_sigaction action = {.handler = handler};
    for (int signal = 1; signal <= 64; signal++)
        CHECK_EQUAL(syscall(SYS_rt_sigaction, signal, &action, NULL, 8), is_changeable(signal) ? 0 : -1);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    uint64_t digest = 0;
    for (unsigned i = 0; i < 35 * scale; i++) {
        switch (i % 4) {
        case 0: set_all(SIG_DFL); break;
        case 1: set_all_raw(SIG_DFL); break;
        case 2: set_all(SIG_IGN); break;
        default: set_all_raw(SIG_IGN); break;
        }
        digest = mix(digest, busy(i, 100000));
    }
    report("resets", digest);
}
