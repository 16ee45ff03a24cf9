/* Meets a signal in one of four ways, which the second argument chooses: it dies of it ("dies"),
 * catches it and exits with a code of its own ("exits"), or catches it and goes on until there
 * is a file "released", and tells how often it was sent ("goes-on"); or it leaves things as they
 * are ("keeps"). It computes meanwhile, and tells its process id when it is ready. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int n_caught;

static void write_number(const char *name, long value) {
    char part[64], text[32];
    snprintf(part, sizeof part, "%s.part", name);
    int length = snprintf(text, sizeof text, "%ld\n", value);
    int file = open(part, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(file >= 0 && write(file, text, (size_t)length) == length && close(file) == 0);
    CHECK_EQUAL(rename(part, name), 0);
}

static void leave(int signal) {
    (void)signal;
    _exit(42);
}

static void count(int signal) {
    (void)signal;
    write_number("caught", ++n_caught);
}

int main(int argc, char **argv) {
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    CHECK(argc > 2);
    const char *way = argv[2];
    for (int i = 0; i < 4 && strcmp(way, "keeps") != 0; i++) {
        struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART};
        if (strcmp(way, "exits") == 0)
            action.sa_handler = leave;
        if (strcmp(way, "goes-on") == 0)
            action.sa_handler = count;
        CHECK_EQUAL(sigaction(signals[i], &action, NULL), 0);
    }
    write_number("pid", getpid());
    uint64_t digest = 1;
    while (access("released", F_OK) != 0)
        digest = mix(digest, busy(digest, 100000));
    report("endings", (uint64_t)n_caught);
    return digest == 0 ? 4 : 3;
}
