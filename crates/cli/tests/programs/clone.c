/* Threads and processes made by the bare system call: children that share memory, tables and
 * even the thread pointer with their parent, and that no library function announces. */
#include "check.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STACK = 65536 };

struct task {
    uint64_t seed, result;
    volatile int done;
};

static int run(void *argument) {
    struct task *task = argument;
    task->result = busy(task->seed, 200000);
    task->done = 1;
    return (int)(task->seed % 100);
}

/* No exit hooks, no errno: the thread shares the parent's thread-local data. */
static int run_as_thread(void *argument) {
    run(argument);
    syscall(SYS_exit, 0);
    return 0;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(stack != MAP_FAILED);
    uint64_t digest = 0;
    for (unsigned i = 0; i < 6 * scale; i++) {
        struct task task = {.seed = i};
        int status;
        pid_t child = clone(run, stack + STACK, CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, &task);
        CHECK(child > 0);
        digest = mix(digest, busy(i + 1, 150000));
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQUAL(WEXITSTATUS(status), i % 100);
        digest = mix(digest, task.result);

        task.done = 0;
        volatile int tid = -1;
        int flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                    CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
        CHECK(clone(run_as_thread, stack + STACK, flags, &task, &tid, NULL, &tid) > 0);
        digest = mix(digest, busy(i + 2, 150000));
        while (tid != 0)
            sched_yield();
        CHECK(task.done);
        digest = mix(digest, task.result);
    }
    report("clone", digest);
}
