/* Trees of processes: each computes, forks, waits for its children and passes a digest up; also
 * forks out of a second thread, and children that end by a signal. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static unsigned scale;
static unsigned n_prepared, n_in_parent, n_in_child;

static void prepare(void) { n_prepared++; }
static void in_parent(void) { n_in_parent++; }
static void in_child(void) { n_in_child++; }

static uint64_t tree(unsigned depth, uint64_t seed) {
    uint64_t digest = busy(seed, 60000 * scale);
    if (depth == 0)
        return digest;
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    pid_t children[3];
    unsigned width = depth > 2 ? 3 : 2;
    for (unsigned i = 0; i < width; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            uint64_t result[2] = {i, tree(depth - 1, mix(seed, i))};
            CHECK_EQUAL(write(ends[1], result, sizeof result), sizeof result);
            _exit((int)(40 + i));
        }
    }
    uint64_t parts[3] = {0};
    for (unsigned i = 0; i < width; i++) {
        uint64_t result[2];
        CHECK_EQUAL(read(ends[0], result, sizeof result), sizeof result);
        parts[result[0]] = result[1];
    }
    for (unsigned i = 0; i < width; i++) {
        int status;
        CHECK_EQUAL(waitpid(children[i], &status, 0), children[i]);
        CHECK(WIFEXITED(status));
        CHECK_EQUAL(WEXITSTATUS(status), 40 + i);
        digest = mix(digest, parts[i]);
    }
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    close(ends[0]);
    close(ends[1]);
    return digest;
}

static void *fork_in_thread(void *unused) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            busy(i, 50000);
            if (i % 4 == 0)
                raise(i % 8 ? SIGKILL : SIGTERM);
            if (i % 4 == 1)
                pthread_exit(NULL); /* the last thread: the process ends with 0 */
            exit(i);
        }
        int status;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        if (i % 4 == 0)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == (i % 8 ? SIGKILL : SIGTERM));
        else
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (i % 4 == 1 ? 0 : i));
    }
    return unused;
}

int main(int argc, char **argv) {
    scale = scale_of(argc, argv);
    CHECK_EQUAL(pthread_atfork(prepare, in_parent, in_child), 0);
    pid_t before = getpid();
    uint64_t digest = tree(4, 1);
    CHECK_EQUAL(getpid(), before);
    CHECK(n_prepared == 3 && n_in_parent == 3 && n_in_child == 0);
    report("tree", digest);
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, fork_in_thread, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    report("threads", n_prepared);
}
