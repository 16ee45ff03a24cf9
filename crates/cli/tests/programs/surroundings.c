/* What a program can find out about itself: descriptors, limits, threads, timers, children,
 * name, priority, tracer, environment. A look before the work and one after it. */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

static unsigned n_entries(const char *path) {
    unsigned count = 0;
    DIR *directory = opendir(path);
    CHECK(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* Lines of /proc/self/status that no profiler may change. */
static void print_status(void) {
    static const char *const names[] = {"Name:",    "Umask:",   "TracerPid:", "Uid:",        "NStgid:\t0", "SigPnd:",
                                        "ShdPnd:",  "SigBlk:",  "SigIgn:",    "NoNewPrivs:", "Seccomp:",   "Threads:",
                                        "CoreDumping:", "THP_enabled:"};
    char line[512];
    FILE *status = fopen("/proc/self/status", "re");
    CHECK(status);
    while (fgets(line, sizeof line, status))
        for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0)
                fputs(line, stdout);
    fclose(status);
}

static void print_limits(void) {
    for (int resource = 0; resource < RLIMIT_NLIMITS; resource++) {
        struct rlimit limit;
        CHECK_EQUAL(getrlimit(resource, &limit), 0);
        printf("limit %d: %lld %lld\n", resource, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
}

static void print_all(void) {
    printf("descriptors %u, threads %u\n", n_entries("/proc/self/fd"), n_entries("/proc/self/task"));
    print_status();
    print_limits();
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval now;
        CHECK_EQUAL(getitimer(which, &now), 0);
        CHECK(!now.it_value.tv_sec && !now.it_value.tv_usec);
    }
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    int death_signal;
    CHECK_EQUAL(prctl(PR_GET_PDEATHSIG, &death_signal), 0);
    char name[17] = "";
    CHECK_EQUAL(prctl(PR_GET_NAME, name), 0);
    printf("death signal %d, name %s, dumpable %d, subreaper %d, slack %d\n", death_signal, name,
           prctl(PR_GET_DUMPABLE), prctl(PR_GET_CHILD_SUBREAPER, &death_signal), prctl(PR_GET_TIMERSLACK) == 50000);
    printf("nice %d, session leader %d\n", getpriority(PRIO_PROCESS, 0), getsid(0) == getpid());
    char directory[4096];
    CHECK(getcwd(directory, sizeof directory));
    printf("files here %u, preload %s\n", n_entries("."), getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    stack_t stack;
    CHECK_EQUAL(sigaltstack(NULL, &stack), 0);
    CHECK_EQUAL(stack.ss_flags, SS_DISABLE);
}

static void *look_around(void *unused) {
    CHECK(busy(5, 3000000));
    printf("threads %u\n", n_entries("/proc/self/task"));
    return unused;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    print_all();
    uint64_t digest = 0;
    for (unsigned i = 0; i < 10 * scale; i++)
        digest = mix(digest, busy(i, 300000));
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, look_around, NULL), 0);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        /* The kernel wakes who joins before it takes the thread off the list. */
        for (int tries = 0; tries < 100000 && n_entries("/proc/self/task") > 1; tries++)
            sched_yield();
    }
    print_all();
    report("work", digest);
}
