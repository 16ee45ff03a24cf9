/* stepper TRACE PROGRAM [ARGUMENT...]: runs a program one instruction at a time, and writes
 * which instructions of its own file every thread executed.
 *
 * A record is three 64-bit numbers: the thread, the address in the file and the stack pointer
 * before the instruction. It is written when the instruction has been executed: one before which
 * a signal was delivered comes when the handler has returned. Loading is not stepped: records
 * begin at the entry point. The program must be position-independent. */
#include "check.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { MAX_THREADS = 16, BREAKPOINT = 0xcc };

struct thread {
    pid_t tid;
    uint64_t next, stack; /* of the instruction that is under way; 0: none */
};

static struct thread threads[MAX_THREADS];
static unsigned n_threads;
static uint64_t base, end;
static FILE *trace;

static struct thread *thread_of(pid_t tid) {
    for (unsigned i = 0; i < n_threads; i++)
        if (threads[i].tid == tid)
            return &threads[i];
    CHECK(n_threads < MAX_THREADS);
    threads[n_threads] = (struct thread){.tid = tid};
    return &threads[n_threads++];
}

/* The program's file is mapped in one piece; its name stands in every line of it. */
static void find_file(pid_t child, const char *program) {
    char name[64], line[1024];
    snprintf(name, sizeof name, "/proc/%d/maps", child);
    FILE *maps = fopen(name, "re");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        if (!strstr(line, program) || sscanf(line, "%llx-%llx", &from, &to) != 2)
            continue;
        base = base ? base : from;
        end = to;
    }
    fclose(maps);
    CHECK(base);
}

static uint64_t entry_point(pid_t child) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/auxv", child);
    FILE *file = fopen(name, "re");
    CHECK(file);
    Elf64_auxv_t entry = {0};
    while (fread(&entry, sizeof entry, 1, file) == 1 && entry.a_type != AT_ENTRY) {
    }
    fclose(file);
    CHECK_EQUAL(entry.a_type, AT_ENTRY);
    return entry.a_un.a_val;
}

static struct user_regs_struct registers_of(pid_t tid) {
    struct user_regs_struct registers;
    CHECK_EQUAL(ptrace(PTRACE_GETREGS, tid, NULL, &registers), 0);
    return registers;
}

static void run_to_entry(pid_t child) {
    int status;
    uint64_t entry = entry_point(child);
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, child, (void *)entry, NULL);
    CHECK_EQUAL(errno, 0);
    CHECK_EQUAL(ptrace(PTRACE_POKETEXT, child, (void *)entry, (void *)((word & ~0xffL) | BREAKPOINT)), 0);
    CHECK_EQUAL(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    CHECK_EQUAL(ptrace(PTRACE_POKETEXT, child, (void *)entry, (void *)word), 0);
    struct user_regs_struct registers = registers_of(child);
    CHECK_EQUAL(registers.rip, entry + 1);
    registers.rip = entry;
    CHECK_EQUAL(ptrace(PTRACE_SETREGS, child, NULL, &registers), 0);
}

static void finish_instruction(struct thread *thread) {
    if (thread->next >= base && thread->next < end) {
        uint64_t record[] = {thread->tid, thread->next - base, thread->stack};
        CHECK_EQUAL(fwrite(record, sizeof record, 1, trace), 1);
    }
}

static void step(struct thread *thread, int signal) {
    struct user_regs_struct registers = registers_of(thread->tid);
    thread->next = registers.rip;
    thread->stack = registers.rsp;
    CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, thread->tid, NULL, (void *)(intptr_t)signal), 0);
}

/* A thread has stopped: behind an instruction, because it is new, or because it is about to get
 * a signal. */
static void go_on(pid_t tid, int status) {
    unsigned n_known = n_threads;
    struct thread *thread = thread_of(tid);
    int signal = WSTOPSIG(status);
    int is_new = n_threads != n_known && signal == SIGSTOP;
    int is_event = status >> 16 != 0;
    if (is_new || is_event)
        signal = 0;
    else if (signal == SIGTRAP)
        signal = 0, finish_instruction(thread);
    else if (registers_of(tid).rip != thread->next)
        finish_instruction(thread);
    step(thread, signal);
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    trace = fopen(argv[1], "we");
    CHECK(trace);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQUAL(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
        execv(argv[2], argv + 2);
        _exit(97);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQUAL(ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)), 0);
    find_file(child, argv[2]);
    run_to_entry(child);
    step(thread_of(child), 0);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        CHECK(tid > 0);
        if (WIFSTOPPED(status))
            go_on(tid, status);
        else if (tid == child)
            break;
    }
    CHECK_EQUAL(fclose(trace), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 96;
}
