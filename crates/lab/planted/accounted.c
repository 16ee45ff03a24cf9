/* Runs a program, waits for it, and writes to a file what the kernel says that both took:
 * accounted FILE PROGRAM [ARGUMENT...] */
#include "planted.h"

#include <sys/wait.h>
#include <unistd.h>

static double ns(struct timeval time) { return (double)time.tv_sec * 1e9 + (double)time.tv_usec * 1e3; }

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execv(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    FILE *file = fopen(argv[1], "w");
    REQUIRE(file);
    struct rusage own, of_child;
    REQUIRE(getrusage(RUSAGE_SELF, &own) == 0 && getrusage(RUSAGE_CHILDREN, &of_child) == 0);
    fprintf(file, "user %.0f\nsystem %.0f\n", ns(own.ru_utime) + ns(of_child.ru_utime),
            ns(own.ru_stime) + ns(of_child.ru_stime));
    REQUIRE(fclose(file) == 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
