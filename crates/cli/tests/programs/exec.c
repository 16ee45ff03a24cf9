/* A program that replaces itself again and again, by each function of the exec family in turn.
 * Nothing it inherits changes on the way: environment, arguments, mask, ignored signals,
 * descriptors, limits, process. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

extern char **environ;

static const char FIRST_PID[] = "FIRST_PID";

/* All but the process id, which is another in every run. */
static int is_the_same_in_every_run(const char *entry) { return strncmp(entry, FIRST_PID, strlen(FIRST_PID)) != 0; }

static uint64_t digest_of_environment(void) {
    uint64_t digest = 0;
    for (char **entry = environ; *entry; entry++)
        if (is_the_same_in_every_run(*entry))
            for (char *c = *entry; *c; c++)
                digest = mix(digest, (unsigned char)*c);
    return digest;
}

static void check_inherited(unsigned generation) {
    CHECK_EQUAL(getpid(), atol(getenv(FIRST_PID)));
    CHECK(getenv("LD_PRELOAD") == NULL);
    for (char **entry = environ; *entry; entry++)
        CHECK(strncmp(*entry, "STROBE_S", 8) != 0);
    sigset_t mask, pending;
    CHECK_EQUAL(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
    for (int signal = 1; signal <= 64; signal++)
        CHECK_EQUAL(sigismember(&mask, signal), signal == SIGURG || signal == SIGUSR2 || signal == 40);
    CHECK_EQUAL(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGUSR2) && !sigismember(&pending, SIGUSR1));
    int ignored[] = {SIGUSR1, SIGTRAP, SIGURG, SIGPROF};
    for (int i = 0; i < 4; i++) {
        struct sigaction now;
        CHECK_EQUAL(sigaction(ignored[i], NULL, &now), 0);
        CHECK(now.sa_handler == SIG_IGN);
    }
    int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(descriptor, 3);
    struct rlimit limit;
    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQUAL(limit.rlim_cur, 200);
    printf("%u: %016llx\n", generation, (unsigned long long)digest_of_environment());
    fflush(stdout);
}

static void on_signal(int signal) { check_failed(__FILE__, __LINE__, "signal %d", signal); }

static void first_generation(void) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    CHECK_EQUAL(setenv(FIRST_PID, pid, 1), 0);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGURG);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, 40);
    CHECK_EQUAL(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
    CHECK_EQUAL(raise(SIGUSR2), 0);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGTRAP, SIG_IGN);
    signal(SIGURG, SIG_IGN);
    signal(SIGPROF, SIG_IGN);
    struct rlimit limit = {200, 200};
    CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void next_generation(char *self, char *scale, unsigned generation) {
    char number[16];
    snprintf(number, sizeof number, "%u", generation + 1);
    char *arguments[] = {self, scale, number, NULL};
    signal(SIGHUP, on_signal);
    switch (generation % 8) {
    case 0: execv(self, arguments); break;
    case 1: execve(self, arguments, environ); break;
    case 2: execvp(self, arguments); break;
    case 3: execvpe(self, arguments, environ); break;
    case 4: execl(self, self, scale, number, (char *)NULL); break;
    case 5: execlp(self, self, scale, number, (char *)NULL); break;
    case 6: execle(self, self, scale, number, (char *)NULL, environ); break;
    default: fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ); break;
    }
    CHECK(!"replaced");
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    unsigned generation = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    CHECK(execv("/no/such/program", argv) == -1 && errno == ENOENT);
    if (generation == 0) {
        printf("arguments %d, environment at start %016llx\n", argc, (unsigned long long)digest_of_environment());
        fflush(stdout);
        first_generation();
    } else {
        check_inherited(generation);
    }
    CHECK(busy(generation, 1000000));
    if (generation < 8 + 2 * scale)
        next_generation(argv[0], argv[1], generation);
    for (char **entry = environ; *entry; entry++)
        if (is_the_same_in_every_run(*entry))
            puts(*entry);
    return 21;
}
