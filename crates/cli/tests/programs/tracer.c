/* A debugger and its debuggee: the program traces a child of its own, sees exactly the stops it
 * asked for, steps it, breaks it and lets it finish. Nothing traces the program itself. */
#include "check.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static volatile unsigned n_handled;

static void on_signal(int signal) { n_handled += signal == SIGUSR1; }

static int tracer_pid(void) {
    char line[256];
    int tracer = -1;
    FILE *status = fopen("/proc/self/status", "re");
    CHECK(status);
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    fclose(status);
    return tracer;
}

static void debuggee(unsigned rounds) {
    signal(SIGUSR1, on_signal);
    CHECK_EQUAL(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
    for (unsigned i = 0; i < rounds; i++) {
        CHECK(busy(i, 300000));
        raise(SIGSTOP);
        raise(SIGUSR1);
        __asm__ volatile("int3");
        CHECK_EQUAL(n_handled, i + 1);
    }
    _exit(17);
}

static int next_stop(pid_t child, int request, int signal) {
    int status;
    CHECK_EQUAL(ptrace(request, child, NULL, (void *)(intptr_t)signal), 0);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    return status;
}

/* A few instructions on the way out of raise: from stop to stop the program counter moves, and
 * no signal comes. */
static void step(pid_t child) {
    unsigned long long last = 0;
    for (int i = 0; i < 20; i++) {
        struct user_regs_struct registers;
        int status = next_stop(child, PTRACE_SINGLESTEP, 0);
        CHECK(WIFSTOPPED(status));
        CHECK_EQUAL(WSTOPSIG(status), SIGTRAP);
        CHECK_EQUAL(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
        CHECK(registers.rip != last);
        last = registers.rip;
    }
}

static uint64_t trace(unsigned rounds) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        debuggee(rounds);
    int status;
    unsigned n_stops = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        n_stops++;
        switch (signal) {
        case SIGSTOP:
            step(child);
            status = next_stop(child, PTRACE_CONT, 0);
            break;
        case SIGUSR1: status = next_stop(child, PTRACE_CONT, SIGUSR1); break;
        case SIGTRAP: status = next_stop(child, PTRACE_CONT, 0); break;
        default: check_failed(__FILE__, __LINE__, "a stop by signal %d that nobody sent", signal);
        }
    }
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 17);
    CHECK_EQUAL(n_stops, 3 * rounds);
    return n_stops;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    CHECK_EQUAL(tracer_pid(), 0);
    CHECK(busy(1, 10000000));
    CHECK_EQUAL(tracer_pid(), 0);
    report("stops", trace(8 * scale));
}
