/* Every way to start another program: vfork, posix_spawn, posix_spawnp, system, popen; the child
 * sees the environment and the descriptors it would see otherwise, and its status comes back. */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int wait_for(pid_t child) {
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static unsigned n_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* What a child says of itself: a digest of its environment, its descriptors, its mask and some
 * work. */
static int child_main(unsigned status) {
    uint64_t digest = busy(status, 100000);
    for (char **entry = environ; *entry; entry++)
        for (char *c = *entry; *c; c++)
            digest = mix(digest, (unsigned char)*c);
    sigset_t mask;
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    digest = mix(digest, sigismember(&mask, SIGURG) + 2 * sigismember(&mask, SIGUSR1));
    printf("child %u: %016llx, %u descriptors\n", status, (unsigned long long)digest, n_descriptors());
    return (int)status;
}

static void by_vfork(const char *self, unsigned status) {
    char number[16];
    snprintf(number, sizeof number, "%u", status);
    char *arguments[] = {(char *)self, "0", number, NULL};
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        if (status % 2)
            execv(self, arguments);
        else
            execve(self, arguments, (char *[]){"ONLY=this", NULL});
        _exit(127);
    }
    CHECK_EQUAL(wait_for(child), status);
}

static void by_vfork_without_exec(unsigned status) {
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0)
        _exit((int)status);
    CHECK_EQUAL(wait_for(child), status);
}

static void by_posix_spawn(const char *self, unsigned status) {
    char number[16];
    snprintf(number, sizeof number, "%u", status);
    char *arguments[] = {(char *)self, "0", number, NULL};
    posix_spawnattr_t attributes;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGURG);
    CHECK_EQUAL(posix_spawnattr_init(&attributes), 0);
    CHECK_EQUAL(posix_spawnattr_setsigmask(&attributes, &mask), 0);
    CHECK_EQUAL(posix_spawnattr_setflags(&attributes, status % 2 ? POSIX_SPAWN_SETSIGMASK : 0), 0);
    pid_t child;
    CHECK_EQUAL(posix_spawn(&child, self, NULL, &attributes, arguments, environ), 0);
    CHECK_EQUAL(wait_for(child), status);
    CHECK_EQUAL(posix_spawnattr_destroy(&attributes), 0);
    CHECK_EQUAL(posix_spawnp(&child, "no-such-program", NULL, NULL, arguments, environ), ENOENT);
    char *hello[] = {"sh", "-c", "echo shell $0 $#; exit 3", NULL};
    CHECK_EQUAL(posix_spawnp(&child, "sh", NULL, NULL, hello, environ), 0);
    CHECK_EQUAL(wait_for(child), 3);
}

static void by_shell(const char *self, unsigned status) {
    char command[4096], line[256];
    snprintf(command, sizeof command, "'%s' 0 %u", self, status);
    int result = system(command);
    CHECK(WIFEXITED(result));
    CHECK_EQUAL(WEXITSTATUS(result), status);
    FILE *pipe = popen(command, "r");
    CHECK(pipe);
    while (fgets(line, sizeof line, pipe))
        printf("piped %s", line);
    result = pclose(pipe);
    CHECK(WIFEXITED(result));
    CHECK_EQUAL(WEXITSTATUS(result), status);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 2)
        return child_main((unsigned)atoi(argv[2]));
    unsigned scale = scale_of(argc, argv);
    CHECK_EQUAL(setenv("ADDED", "by the program", 1), 0);
    uint64_t digest = 0;
    for (unsigned i = 0; i < scale; i++) {
        digest = mix(digest, busy(i, 1000000));
        by_vfork(argv[0], 5 + i % 20);
        by_vfork_without_exec(i % 50);
        by_posix_spawn(argv[0], 6 + i % 20);
        by_shell(argv[0], 7 + i % 20);
    }
    report("spawn", digest);
}
