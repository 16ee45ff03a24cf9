// A filter of system calls that knows only what the program itself does. Whatever else is called
// ends the program, or shows.
//
// The second argument is the filter's answer to the rest: kill, trap, errno, or strict for the mode
// without a filter. The third is the way that it is installed: prctl, syscall, or raw for an
// instruction of the program's own. The fourth is when: early, before any work, or late, after some
// ticks. The fifth is what else there is: alone, threads (the filter is for all of them), handler,
// fork, or exec; the last is tried in a child of vfork, too, if the sixth says so.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long scale;
static atomic_int is_installed;
static volatile sig_atomic_t n_signals;

static long raw(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
}

__attribute__((noinline)) static uint64_t step(uint64_t x) {
    return x & 1 ? x * 6364136223846793005u + 1442695040888963407u : (x >> 1) ^ 0x9e3779b97f4a7c15u;
}

__attribute__((noinline)) static uint64_t work(uint64_t seed, unsigned long rounds) {
    uint64_t x = seed;
    for (unsigned long i = 0; i < rounds; i++) x = step(x) ^ (x >> 29);
    return x;
}

static void on_signal(int signal) {
    (void)signal;
    n_signals++;
}

static void say(const char *what, uint64_t value) {
    char line[80];
    int n = snprintf(line, sizeof line, "%s %016llx\n", what, (unsigned long long)value);
    if (write(1, line, (size_t)n) != n) _exit(3);
}

static void fail(const char *what) {
    say(what, (uint64_t)errno);
    _exit(4);
}

// What the program and the C library do, and nothing that only a profiler would.
struct allowed {
    const char *company;
    int calls[24];
};
static const struct allowed ALLOWED[] = {
    {"alone", {SYS_write, SYS_exit, SYS_exit_group}},
    {"threads", {SYS_futex, SYS_madvise, SYS_munmap, SYS_rt_sigprocmask}},
    {"handler", {SYS_kill, SYS_rt_sigreturn}},
    {"fork", {SYS_clone, SYS_wait4, SYS_set_robust_list, SYS_rt_sigprocmask}},
    // Programs that are executed load their libraries.
    {"exec", {SYS_execve, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_access, SYS_openat, SYS_read, SYS_pread64, SYS_newfstatat,
              SYS_close, SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom}},
    // With these, the runtime finds out that a program can be followed.
    {"exec", {SYS_gettid, SYS_fstat}},
};
enum { N_ALLOWED = sizeof ALLOWED / sizeof *ALLOWED, MAX_CODE = 200 };

static void install(const char *answer, const char *way, const char *company) {
    int is_raw = !strcmp(way, "raw"), is_for_all = !strcmp(company, "threads");
    uint32_t rest = !strcmp(answer, "trap") ? SECCOMP_RET_TRAP
        : !strcmp(answer, "errno") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS;
    struct sock_filter code[MAX_CODE];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < N_ALLOWED - !is_raw; i++) {
        if (i > 0 && strcmp(ALLOWED[i].company, company)) continue;
        // `read`, which ends a list, is allowed where it stands first in the numbers: with those
        // who load libraries.
        for (const int *call = ALLOWED[i].calls; *call || call[1]; call++) {
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)*call, 0, 1);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rest);
    struct sock_fprog program = {(unsigned short)n, code};
    int is_strict = !strcmp(answer, "strict"), result;
    unsigned flags = is_for_all ? SECCOMP_FILTER_FLAG_TSYNC : 0;
    // A question whether there are filters, which installs none.
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1 || errno != EFAULT) fail("asked");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("privileges");
    if (is_raw) {
        result = (int)(is_strict ? raw(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0, 0, 0)
                                 : raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, (long)&program, 0, 0));
    } else if (!strcmp(way, "syscall")) {
        result = (int)(is_strict ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
                                 : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
    } else {
        result = is_strict ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    if (result) fail("installed");
}

static void *thread(void *argument) {
    uint64_t x = (uint64_t)(uintptr_t)argument;
    while (!is_installed) x = work(x, 1000);
    return (void *)(uintptr_t)work((uint64_t)(uintptr_t)argument, 750000 * scale);
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    scale = strtoul(argv[1], NULL, 10);
    const char *answer = argv[2], *way = argv[3], *company = argv[5];
    int is_strict = !strcmp(answer, "strict");
    pthread_t threads[3];
    int has_threads = !strcmp(company, "threads"), has_handler = !strcmp(company, "handler");
    if (!strcmp(argv[4], "exec'd")) {
        say("exec'd", work(6, 1500000 * scale));
        raw(SYS_exit_group, 8, 0, 0, 0, 0);
    }
    if (has_handler && signal(SIGUSR1, on_signal) == SIG_ERR) fail("signal");
    for (int i = 0; has_threads && i < 3; i++) {
        if (pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)(i + 1))) fail("thread");
    }
    if (!strcmp(argv[4], "late")) say("before", work(1, 1500000 * scale));
    int is_exec = !strcmp(company, "exec");
    pid_t child = is_exec && argc > 6 ? vfork() : 0;
    if (child != 0) {
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) fail("wait");
        say("child", (uint64_t)status);
        say("after", work(2, 1500000 * scale));
        return 0;
    }
    if (is_exec) {
        install(answer, way, company);
        execl(argv[0], argv[0], argv[1], answer, way, "exec'd", "alone", NULL);
        _exit(9);
    }
    pid_t pid = getpid();
    install(answer, way, company);
    is_installed = 1;
    say("after", work(2, 1500000 * scale));
    if (has_handler) {
        if (kill(pid, SIGUSR1)) fail("kill");
        say("signals", (uint64_t)n_signals);
    }
    for (int i = 0; has_threads && i < 3; i++) {
        void *result;
        if (pthread_join(threads[i], &result)) fail("join");
        say("thread", (uint64_t)(uintptr_t)result);
    }
    if (!strcmp(company, "fork")) {
        child = fork();
        if (child == 0) {
            say("child", work(3, 1500000 * scale));
            raw(SYS_exit_group, 7, 0, 0, 0, 0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) fail("wait");
        say("child", (uint64_t)status);
    }
    if (is_strict) raw(SYS_exit, 5, 0, 0, 0, 0);
    _exit(5);
}
