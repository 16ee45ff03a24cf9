/* Closes every descriptor there is, more than once, and works on: first in the foreground, then
 * as a daemon in its own session, whose result the parent waits for. */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void close_everything(unsigned how) {
    if (how % 3 == 0)
        closefrom(0);
    else if (how % 3 == 1)
        CHECK_EQUAL(close_range(0, ~0u, 0), 0);
    else
        for (int descriptor = 0; descriptor < 1024; descriptor++)
            close(descriptor);
}

static uint64_t work_without_descriptors(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        close_everything(i);
        digest = mix(digest, busy(i, 100000));
        CHECK(fcntl(0, F_GETFD) == -1 && errno == EBADF);
        CHECK_EQUAL(open("/dev/null", O_RDWR), 0);
        CHECK_EQUAL(dup(0), 1);
        CHECK_EQUAL(dup(0), 2);
    }
    return digest;
}

/* Both processes may do this at the same time. */
static void write_result(const char *name, const char *part, uint64_t digest) {
    FILE *file = fopen(part, "w");
    CHECK(file);
    CHECK(fprintf(file, "%016llx\n", (unsigned long long)digest) > 0);
    CHECK_EQUAL(fclose(file), 0);
    CHECK_EQUAL(rename(part, name), 0);
}

static void become_daemon(unsigned rounds) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) {
        int status;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
        return;
    }
    CHECK_EQUAL(setsid(), getpid());
    child = fork();
    CHECK(child >= 0);
    if (child > 0)
        _exit(0);
    umask(0);
    write_result("daemon.txt", "daemon.part", work_without_descriptors(rounds));
    _exit(0);
}

int main(int argc, char **argv) {
    unsigned rounds = 20 * scale_of(argc, argv);
    become_daemon(rounds);
    int saved = open("output.txt", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(saved >= 0);
    write_result("foreground.txt", "foreground.part", work_without_descriptors(rounds));
    while (access("daemon.txt", F_OK) != 0)
        usleep(1000);
    return 5;
}
