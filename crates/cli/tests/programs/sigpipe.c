/* Pipes without a reader: EPIPE when ignored, a handler when there is one, death of a child when
 * there is none; and long transfers whose every byte arrives. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static volatile unsigned n_handled;

static void on_pipe(int signal) { n_handled += signal == SIGPIPE; }

static int closed_pipe(void) {
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    close(ends[0]);
    return ends[1];
}

static void writes_fail(unsigned rounds) {
    int end = closed_pipe();
    for (unsigned i = 0; i < rounds; i++) {
        signal(SIGPIPE, i % 2 ? on_pipe : SIG_IGN);
        busy(i, 1000);
        CHECK(write(end, "x", 1) == -1 && errno == EPIPE);
        CHECK_EQUAL(n_handled, (i + 1) / 2);
    }
    close(end);
}

static void child_dies(void) {
    signal(SIGPIPE, SIG_DFL);
    int end = closed_pipe();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        busy(1, 3000000);
        CHECK(write(end, "x", 1) == 1);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    CHECK_EQUAL(WTERMSIG(status), SIGPIPE);
    close(end);
}

static void *produce(void *argument) {
    const int *arguments = argument;
    for (int i = 0; i < arguments[1]; i++) {
        uint64_t block[64];
        for (int k = 0; k < 64; k++)
            block[k] = mix(i, k);
        size_t bytes = sizeof block - (size_t)(i % 7);
        for (size_t done = 0; done < bytes;) {
            ssize_t written = write(arguments[0], (char *)block + done, bytes - done);
            CHECK(written > 0);
            done += (size_t)written;
        }
    }
    close(arguments[0]);
    return NULL;
}

static uint64_t transfer(int n_blocks) {
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    int arguments[2] = {ends[1], n_blocks};
    pthread_t producer;
    CHECK_EQUAL(pthread_create(&producer, NULL, produce, arguments), 0);
    unsigned char buffer[4096];
    uint64_t digest = 0;
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) != 0;) {
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; i++)
            digest = mix(digest, buffer[i]);
    }
    CHECK_EQUAL(pthread_join(producer, NULL), 0);
    close(ends[0]);
    return digest;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    writes_fail(2000 * scale);
    child_dies();
    report("transfer", transfer((int)(20000 * scale)));
    fflush(stdout);
    /* The end of this program itself. */
    signal(SIGPIPE, SIG_DFL);
    CHECK(write(closed_pipe(), "x", 1) == 1);
}
