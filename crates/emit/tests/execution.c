// A program that runs its own copy. What it computes in the original and in the copy must be the
// same, however long bursts are, and wherever in the copy a signal handler sends it back to the
// original.
//
// usage: execution COPY ENTRIES RUNS RECORDS [MAX_STEPS [READS]]
// COPY holds the bytes of the copy, ENTRIES pairs of 32-bit numbers: original address less LO, and
// entry of the map; SPAN more is the same in the map of checking copies. RUNS holds the rules of
// recovery. The records of the last burst go to RECORDS. With MAX_STEPS, every function is also
// single-stepped in the copy and sent back after 1, 2, 3... steps. With AREA_AT, the copy is one
// that is never left; with N_EVENTS, too, one of bursts that notes events, and READS says what
// instructions read (struct read); with N_CHECK, two that lead to each other.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// The test gives LO, SPAN, COPY_AT, MAP_AT, and offsets in the thread's header.
#define HARNESS __attribute__((section("harness"), noinline))
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define WORK __attribute__((noinline, noclone))

#ifdef AREA_AT
#define header ((unsigned char *)AREA_AT)
#else
static unsigned char header[4096] __attribute__((aligned(4096)));
#endif
static uint32_t records[1 << 20];
static unsigned char leaving[65536];
static uint32_t pending;

WORK static long sum(long n) {
    long total = 0;
    for (long i = 0; i < n; i++) total += i * i ^ total >> 3;
    return total;
}

WORK static long wide(long n) { // carries between words
    unsigned __int128 a = 1, b = 1;
    for (long i = 0; i < n; i++) {
        unsigned __int128 c = a + b;
        a = b;
        b = c * 3 - (c >> 70);
    }
    return (long)(b >> 64) ^ (long)b;
}

WORK static long carry_chain(long n) { // flags live around a loop
    uint64_t words[8] = {~0ul, ~0ul, 3, ~0ul, 5, ~0ul, 7, 8};
    uint64_t *at = words, total = (uint64_t)n;
    long count = 8;
    asm volatile("clc\n"
                 "1: adc (%0), %1\n"
                 "lea 8(%0), %0\n"
                 "dec %2\n"
                 "jnz 1b\n"
                 "adc $0, %1\n"
                 : "+r"(at), "+r"(total), "+r"(count)
                 :
                 : "cc", "memory");
    return (long)total;
}

WORK static long counted(long n) { // branches on rcx
    long total = 0, count = n;
    asm volatile("jrcxz 2f\n"
                 "1: add %1, %0\n"
                 "loop 1b\n"
                 "2:\n"
                 : "+r"(total), "+c"(count)
                 :
                 : "cc");
    return total;
}

WORK static long interpret(long n) { // a jump table in a loop
    static const unsigned char program[] = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 7};
    long a = n, b = 1, steps = 0;
    for (unsigned pc = 0; steps < 100000; pc = (pc + 1) % sizeof program) {
        steps++;
        switch (program[pc]) {
        case 0: if (--n < 0) return a ^ b; break;
        case 1: a += b; break;
        case 2: b ^= a << 1; break;
        case 3: a = a * 5 + 1; break;
        case 4: b -= 7; break;
        case 5: a ^= a >> 7; break;
        case 6: b = b << 3 | (b >> 61 & 7); break;
        case 7: a -= steps; break;
        }
    }
    return a;
}

WORK static long threaded(long n) { // many jumps through one table
    static const void *const labels[] = {&&add, &&twist, &&less, &&more, &&end};
    static const unsigned char program[] = {0, 1, 3, 0, 2, 1, 1, 0, 3, 2, 0, 4};
    const unsigned char *pc = program;
    long a = n, b = 3;
#define NEXT goto *labels[*pc++]
    NEXT;
add: a += b; if (a & 1) b++; NEXT;
twist: b ^= a << 3; NEXT;
less: if (a < b) a -= 5; else b -= 7; NEXT;
more: a = a * 3 + 1; NEXT;
end: if (--n > 0) { pc = program; NEXT; }
    return a ^ b;
}

WORK static long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

static int compare(const void *a, const void *b) { return *(const int *)a < *(const int *)b ? -1 : 1; }

WORK static long sorted(long n) { // calls through pointers, in and out of the C library
    int *numbers = malloc((size_t)n * sizeof *numbers);
    unsigned seed = 1;
    for (long i = 0; i < n; i++) numbers[i] = (int)(seed = seed * 1103515245 + 12345);
    qsort(numbers, (size_t)n, sizeof *numbers, compare);
    long total = 0;
    for (long i = 0; i < n; i++) total = total * 31 + numbers[i];
    free(numbers);
    return total;
}

WORK static long text(long n) { // the C library at work
    char buffer[256];
    long total = 0;
    for (long i = 0; i < n; i++) {
        int len = snprintf(buffer, sizeof buffer, "%ld %.6f %s %x", i, (double)i / 7, "strobe", (unsigned)i * 77);
        total += (long)strlen(buffer) * len + strtol(buffer, 0, 10) + (strchr(buffer, 's') - buffer);
    }
    return total;
}

static jmp_buf back;
WORK static void jump_out(long depth) { depth ? jump_out(depth - 1) : longjmp(back, 7); }
WORK static long jumps(long n) {
    volatile long total = 0;
    for (volatile long i = 0; i < n; i++) {
        int value = setjmp(back);
        if (value == 0) jump_out(i % 5);
        total += value + i;
    }
    return total;
}

WORK static long system_calls(long n) { // flags and registers around system calls
    long total = 0;
    for (long i = 0; i < n; i++) {
        long result;
        unsigned char carry;
        asm volatile("stc\n syscall\n setc %1" : "=a"(result), "=q"(carry) : "0"(SYS_getppid) : "rcx", "r11", "memory");
        total += (result == getppid()) + carry;
        uint64_t next, here;
        asm volatile("syscall\n mov %%rcx, %1\n lea 0(%%rip), %2\n" : "=a"(result), "=&r"(next), "=&r"(here) : "0"(SYS_getpid) : "rcx", "r11", "memory");
        total += here - next; // rcx is an address of the original, and so is what lea gives
    }
    return total;
}

asm(".text\n.type take_two, @function\ntake_two: mov 8(%rsp), %rax\n add 16(%rsp), %rax\n ret $16\n.size take_two, . - take_two\n");
WORK static long drops(long n) { // a return that drops arguments
    long result;
    asm volatile("push %1\n push %1\n call take_two\n" : "=a"(result) : "r"(n) : "cc", "memory");
    return result;
}

WORK static long own_address(long n) { // a call of the next instruction
    long result, here;
    asm volatile("call 1f\n1: pop %0\n lea 1b(%%rip), %1" : "=r"(result), "=r"(here) : : "memory");
    return result - here + n;
}

#define FIELD(type, offset) (*(volatile type *)(header + (offset)))

#ifdef N_EVENTS
// Empties the buffer of events, and leaves room for so many.
HARNESS static void empty_events(uint64_t room) {
    uint64_t n_used = N_EVENTS + (int64_t)FIELD(uint64_t, NEXT_EVENT) / 2;
    if (n_used <= N_EVENTS) memset(header + EVENTS_END - 16 * N_EVENTS, 0, 16 * n_used);
    FIELD(uint64_t, NEXT_EVENT) = -2 * room;
}
#endif

HARNESS static long in_copy(long (*function)(long), long argument, uint32_t checks) {
#ifdef N_CHECK
    FIELD(uint32_t, N_CHECK) = checks;
    FIELD(uint32_t, IS_INSTRUMENTED) = 0;
    uint32_t entry = ((uint32_t *)MAP_AT)[(uintptr_t)function - LO + SPAN];
#else
    uint32_t entry = ((uint32_t *)MAP_AT)[(uintptr_t)function - LO];
#endif
    if (!(entry >> 31)) return -1;
    FIELD(uint64_t, CURSOR) = (uintptr_t)records;
    FIELD(uint64_t, LIMIT) = (uintptr_t)(records + (1 << 20) - 20000);
    FIELD(uint32_t, CHECKS) = checks;
    FIELD(uint32_t, END_REASON) = 0;
    FIELD(uint32_t, STATE) = 1;
    FIELD(uint32_t, N_SYSTEM_CALLS) = 0;
#ifdef N_EVENTS
    empty_events(N_EVENTS);
#endif
    return ((long (*)(long))(COPY_AT + (uintptr_t)(entry & 0x7fffffff)))(argument);
}

HARNESS static void *load(const char *path, size_t *len, void *at, int protection) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) exit(10);
    *len = (size_t)ftell(file);
    void *memory = mmap(at, *len, protection, MAP_PRIVATE | (at ? MAP_FIXED_NOREPLACE : 0), fileno(file), 0);
    if (memory == MAP_FAILED) exit(11);
    fclose(file);
    return memory;
}

struct run { uint32_t copy, original; uint8_t kind, saves, save_end[4], reserved[2]; };
static const struct run *runs;
static size_t n_runs, copy_len;
static volatile long steps, steps_to_go;

enum { STRAIGHT, PROBE, FORWARD, EXIT, AFTER_SYSTEM_CALL, SYSTEM_CALL, NEVER, CALLED, RETURNING };
enum { TRAP_FLAG = 0x100, ARITHMETIC_FLAGS = 0x8d5 };

// The rules of wire::recovery.
HARNESS static void recover(greg_t *registers) {
    uint32_t at = (uint32_t)(registers[REG_RIP] - COPY_AT);
    size_t first = 0, end = n_runs; // the last run that starts at or before the address
    while (end - first > 1) {
        size_t middle = (first + end) / 2;
        *(runs[middle].copy <= at ? &first : &end) = middle;
    }
    const struct run *run = &runs[first];
    uint32_t into = at - run->copy;
    uint64_t original = LO + run->original;
    unsigned saves = run->saves, next = 0;
    int is_forward = run->kind == FORWARD || run->kind == EXIT;
    if (run->kind == CALLED || run->kind == RETURNING) {
        int64_t on_stack = *(int64_t *)registers[REG_RSP];
        if (run->kind == RETURNING) registers[REG_RCX] = FIELD(int64_t, SAVED_RCX);
        registers[REG_RSP] += run->kind == CALLED ? 8 : run->original;
        registers[REG_RIP] = run->kind == CALLED ? on_stack - 5 : on_stack;
        return recover(registers);
    }
    if (run->kind > SYSTEM_CALL) exit(20);
    if (run->kind == STRAIGHT) original += into;
    if (is_forward) {
        original = into < run->save_end[0] ? (uint64_t)registers[REG_RAX] : FIELD(uint64_t, TARGET);
        registers[REG_RAX] = FIELD(int64_t, SAVED_RAX);
        saves &= ~1u;
        next = 1;
    }
    const struct { int bit, field, target; } saved[] = {{1, SAVED_RAX, REG_RAX}, {2, SAVED_RCX, REG_RCX}, {4, SAVED_RDX, REG_RDX}};
    for (int i = 0; i < 3; i++)
        if (saves & saved[i].bit && into >= run->save_end[next++]) registers[saved[i].target] = FIELD(int64_t, saved[i].field);
    if (saves & 8 && into >= run->save_end[next]) {
        uint64_t packed = FIELD(uint64_t, SAVED_FLAGS);
        registers[REG_EFL] = (registers[REG_EFL] & ~ARITHMETIC_FLAGS) | (packed >> 8 & 0xd5) | (packed & 0xff ? 0x800 : 0);
    }
    if (run->kind == AFTER_SYSTEM_CALL) registers[REG_RCX] = (greg_t)original;
    registers[REG_RIP] = (greg_t)original;
}

// Single-steps through the copy, and goes back to the original after some steps.
HARNESS static void on_step(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if ((uint64_t)registers[REG_RIP] - COPY_AT >= copy_len) {
        if (steps) registers[REG_EFL] &= ~TRAP_FLAG;
    } else if (++steps == steps_to_go) {
        recover(registers);
        registers[REG_EFL] &= ~TRAP_FLAG;
    }
}

HARNESS static long in_copy_for(long (*function)(long), long argument, uint32_t checks, long n_steps) {
    steps = 0;
    steps_to_go = n_steps;
    asm volatile("pushf\n orl $0x100, (%rsp)\n popf");
    long result = in_copy(function, argument, checks);
    asm volatile("pushf\n andl $~0x100, (%rsp)\n popf");
    return result;
}

#ifdef AREA_AT
// Goes back to the original for good.
void gate(void);
asm(".pushsection harness,\"ax\",@progbits\ngate: jmp *%gs:" STRING(TARGET_NUMBER) "\n.popsection\n");

// Counts the instructions that the original executes, by single-stepping.
static uint32_t hits[SPAN];
HARNESS static void on_native_step(int signal, siginfo_t *info, void *context) {
    uint64_t at = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - LO;
    if (at < SPAN) hits[at]++;
}
#endif

HARNESS static void set_up(char **arguments) {
    size_t len;
#ifdef AREA_AT
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    if (mmap(header, AREA_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) != header) exit(14);
    FIELD(uint64_t, GATE) = (uintptr_t)gate;
#endif
    load(arguments[1], &copy_len, (void *)COPY_AT, PROT_READ | PROT_EXEC);
    runs = load(arguments[3], &len, 0, PROT_READ);
    n_runs = len / sizeof *runs;
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, 0)) exit(13);
    uint32_t *map = mmap((void *)MAP_AT, 2 * 4ul * SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (map != (void *)MAP_AT) exit(15);
    uint32_t *entries = load(arguments[2], &len, 0, PROT_READ);
    extern char __start_harness[], __stop_harness[];
    for (size_t i = 0; i < len / 8; i++) {
        uintptr_t original = LO + entries[2 * i] % SPAN;
        if (original < (uintptr_t)__start_harness || original >= (uintptr_t)__stop_harness) map[entries[2 * i]] = entries[2 * i + 1];
    }
    FIELD(uint64_t, CLUSTER_LO) = LO;
    FIELD(uint64_t, CLUSTER_SPAN) = SPAN;
    FIELD(uint64_t, CLUSTER_MAP) = MAP_AT;
    FIELD(uint64_t, CLUSTER_CHECKING_MAP) = MAP_AT + 4ul * SPAN;
    FIELD(uint64_t, CLUSTER_LEADER_BASE) = COPY_AT - 0x80000000ul;
    FIELD(uint64_t, CLUSTER_COPY_BASE) = COPY_AT;
    FIELD(uint64_t, SYSTEM_CALLS_THAT_LEAVE) = (uintptr_t)leaving;
    FIELD(uint64_t, UNLOADS_PENDING) = (uintptr_t)&pending;
    if (syscall(SYS_arch_prctl, 0x1001, header)) exit(12); // ARCH_SET_GS
}

static const struct { const char *name; long (*function)(long); long argument, small_argument; } work[] = {
    {"sum", sum, 1000, 3}, {"wide", wide, 500, 3}, {"carry_chain", carry_chain, 12, 12}, {"counted", counted, 50, 3},
    {"interpret", interpret, 40, 1}, {"threaded", threaded, 40, 3}, {"fibonacci", fibonacci, 15, 4}, {"sorted", sorted, 200, 4}, {"jumps", jumps, 20, 2},
    {"system_calls", system_calls, 5, 2}, {"drops", drops, 21, 21}, {"own_address", own_address, 3, 3}, {"text", text, 30, 1},
};

// Sends every function back to the original after 1, 2, 3... steps in the copy.
HARNESS static int recover_after_any_step(long max_steps) {
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, 0)) return 13;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        long expected = work[i].function(work[i].small_argument), n_steps = 1;
        for (steps = steps_to_go = 0; steps == steps_to_go && n_steps <= max_steps; n_steps++) {
            long result = in_copy_for(work[i].function, work[i].small_argument, 12, n_steps);
            if (result != expected) {
                printf("%s: DIFFERENT after %ld steps\n", work[i].name, n_steps);
                return 1;
            }
        }
        if (max_steps) printf("%s: same after any of %ld steps\n", work[i].name, steps);
    }
    return 0;
}

#ifdef N_EVENTS
// What the original does, step by step: all registers before each instruction.
static struct step { greg_t registers[NGREG]; uint64_t read; } noted_steps[1 << 16];
static size_t n_noted_steps;

// What the instruction at LO + at reads before anything else: so many bytes at segment +
// registers[base] + registers[index] * scale + displacement. No register has the number NGREG.
struct read { uint64_t at, base, index, scale, is_thread_relative, n_bytes; int64_t displacement; };
static const struct read *reads;
static uint32_t read_at[SPAN]; // one more than the index

HARNESS static uint64_t read_by(const struct read *read, const greg_t *registers) {
    uint64_t address = (uint64_t)read->displacement, value = 0;
    if (read->base != NGREG) address += (uint64_t)registers[read->base];
    if (read->index != NGREG) address += (uint64_t)registers[read->index] * read->scale;
    if (read->is_thread_relative) address += (uint64_t)__builtin_thread_pointer();
    __builtin_memcpy(&value, (void *)address, read->n_bytes);
    return value;
}

HARNESS static void on_noted_step(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (n_noted_steps == 1 << 16) exit(21);
    struct step *step = &noted_steps[n_noted_steps++];
    memcpy(step->registers, registers, sizeof step->registers);
    uint64_t at = (uint64_t)registers[REG_RIP] - LO;
    step->read = at < SPAN && read_at[at] ? read_by(&reads[read_at[at] - 1], registers) : 0;
}

// Calls a function so that the stack and the registers that it has to keep look the same whoever
// calls.
long call(uint64_t function, long argument);
asm(".pushsection harness,\"ax\",@progbits\ncall: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rax\n"
    "xor %ebx, %ebx\n xor %ebp, %ebp\n xor %r12d, %r12d\n xor %r13d, %r13d\n xor %r14d, %r14d\n xor %r15d, %r15d\n"
    "mov %rdi, %rax\n mov %rsi, %rdi\n call *%rax\n"
    "pop %rcx\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n.popsection\n");

// Every function once in the original, step by step, and then in bursts, with room for more and
// more events; and what was noted.
HARNESS int main(int n_arguments, char **arguments) {
    static const uint64_t rooms[] = {1, 2, 3, 7, 20, N_EVENTS};
    if (n_arguments < 7) return 9;
    set_up(arguments);
    size_t len;
    reads = load(arguments[6], &len, 0, PROT_READ);
    for (uint32_t i = 0; i < len / sizeof *reads; i++) read_at[reads[i].at] = i + 1;
    FILE *file = fopen(arguments[4], "wb");
    if (!file) return 15;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        uint64_t entry = ((uint32_t *)MAP_AT)[(uintptr_t)work[i].function - LO] & 0x7fffffff;
        long argument = work[i].small_argument, warm = work[i].function(argument);
        struct sigaction action = {.sa_sigaction = on_noted_step, .sa_flags = SA_SIGINFO};
        if (sigaction(SIGTRAP, &action, 0)) return 13;
        n_noted_steps = 0;
        asm volatile("pushf\n orl $0x100, (%rsp)\n popf");
        long expected = call((uint64_t)work[i].function, argument);
        asm volatile("pushf\n andl $~0x100, (%rsp)\n popf");
        if (expected != warm || fwrite(&n_noted_steps, 8, 1, file) != 1) return 16;
        if (fwrite(noted_steps, sizeof *noted_steps, n_noted_steps, file) != n_noted_steps) return 16;
        for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
            FIELD(uint64_t, CURSOR) = (uintptr_t)records;
            FIELD(uint64_t, LIMIT) = (uintptr_t)(records + (1 << 20) - 20000);
            FIELD(uint32_t, CHECKS) = 1 << 30;
            FIELD(uint32_t, END_REASON) = 0;
            FIELD(uint32_t, STATE) = 1;
            empty_events(rooms[k]);
            if (call(COPY_AT + entry, argument) != expected || FIELD(uint32_t, STATE) != 2) {
                printf("%s: DIFFERENT with room for %lu\n", work[i].name, rooms[k]);
                return 1;
            }
            uint64_t n_noted = rooms[k] + (int64_t)FIELD(uint64_t, NEXT_EVENT) / 2;
            uint64_t facts[] = {rooms[k], FIELD(uint32_t, END_REASON), n_noted};
            if (fwrite(facts, 8, 3, file) != 3 || fwrite(header + EVENTS_END - 16 * rooms[k], 16, n_noted, file) != n_noted) return 17;
        }
    }
    if (fclose(file)) return 18;
    return recover_after_any_step(atol(arguments[5]));
}
#elif defined N_CHECK
// Every function in the original, step by step, and then with all checks in the checking copy, and
// with bursts between so many; and what was logged.
HARNESS int main(int n_arguments, char **arguments) {
    static const uint32_t counts[][2] = {{UINT32_MAX, 1}, {1, UINT32_MAX}, {1, 1}, {1, 3}, {3, 1}, {7, 5}, {2, 100}};
    if (n_arguments < 6) return 9;
    set_up(arguments);
    struct sigaction action = {.sa_sigaction = on_native_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, 0)) return 13;
    FILE *file = fopen(arguments[4], "wb");
    if (!file) return 15;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        long argument = work[i].small_argument, warm = work[i].function(argument);
        memset(hits, 0, sizeof hits);
        asm volatile("pushf\n orl $0x100, (%rsp)\n popf");
        long expected = work[i].function(argument);
        asm volatile("pushf\n andl $~0x100, (%rsp)\n popf");
        uint64_t n_hits = 0;
        for (uint32_t at = 0; at < SPAN; at++) n_hits += hits[at] != 0;
        if (expected != warm || fwrite(&n_hits, 8, 1, file) != 1) return 16;
        for (uint32_t at = 0; at < SPAN; at++) {
            uint32_t pair[2] = {at, hits[at]};
            if (hits[at] && fwrite(pair, sizeof pair, 1, file) != 1) return 16;
        }
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            uint64_t *end = (uint64_t *)(header + EVENTS_END), *start = end + (int64_t)EVENTS_EMPTY;
            memset(start, 0, (size_t)(end - start) * 8);
            FIELD(uint64_t, NEXT_EVENT) = EVENTS_EMPTY;
            FIELD(uint32_t, N_INSTR) = counts[k][1];
            if (in_copy(work[i].function, argument, counts[k][0]) != expected) {
                printf("%s: DIFFERENT with %u and %u\n", work[i].name, counts[k][0], counts[k][1]);
                return 1;
            }
            uint64_t n_words = FIELD(uint64_t, NEXT_EVENT) - EVENTS_EMPTY;
            uint64_t facts[] = {counts[k][0], counts[k][1], FIELD(uint32_t, CHECKS), FIELD(uint32_t, IS_INSTRUMENTED), n_words};
            if (fwrite(facts, sizeof facts, 1, file) != 1 || fwrite(start, 8, n_words, file) != n_words) return 17;
        }
    }
    if (fclose(file)) return 18;
    FIELD(uint64_t, NEXT_EVENT) = EVENTS_EMPTY;
    FIELD(uint32_t, N_INSTR) = 5;
    return recover_after_any_step(atol(arguments[5]));
}
#elif defined AREA_AT
// Every function once in the original, step by step, and once in the copy; then what both have
// counted.
HARNESS int main(int n_arguments, char **arguments) {
    if (n_arguments < 9) return 9;
    set_up(arguments);
    FIELD(uint32_t, SAMPLES_WANTED) = strtoul(arguments[8], 0, 10);
    FIELD(uint32_t, ENDS_BETWEEN) = FIELD(uint32_t, ENDS_TO_SKIP) = strtoul(arguments[9], 0, 10);
    FIELD(uint64_t, SAMPLING_TICK) = 1ul << 32 | 1;
    FIELD(uint64_t, NEXT_EVENT) = EVENTS_EMPTY;
    struct sigaction action = {.sa_sigaction = on_native_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, 0)) return 13;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        long argument = work[i].small_argument, warm = work[i].function(argument);
        asm volatile("pushf\n orl $0x100, (%rsp)\n popf");
        long expected = work[i].function(argument);
        asm volatile("pushf\n andl $~0x100, (%rsp)\n popf");
        long result = in_copy(work[i].function, argument, 0);
        if (result != expected || result != warm) {
            printf("%s: DIFFERENT\n", work[i].name);
            return 1;
        }
    }
    printf("same\n");
    FILE *file = fopen(arguments[4], "wb");
    if (!file) return 15;
    for (uint32_t at = 0; at < SPAN; at++) {
        uint32_t pair[2] = {at, hits[at]};
        if (hits[at] && fwrite(pair, sizeof pair, 1, file) != 1) return 16;
    }
    fclose(file);
    file = fopen(arguments[5], "wb");
    if (!file || fwrite(header + CELLS, 8, N_CELLS, file) != N_CELLS || fclose(file)) return 17;
    // Keys and counts of the path table, and what is beside.
    file = fopen(arguments[6], "wb");
    for (uint64_t *entry = (uint64_t *)(header + PATHS), *end = entry + PATHS_BYTES / 8; entry < end; entry += 2)
        if (entry[0] && (fwrite(entry, 8, 2, file) != 2 || fwrite(entry + (PATH_METRIC - PATHS) / 8, 8, 1, file) != 1)) return 18;
    // Or what the trace has of them, each once.
    for (uint64_t at = EVENTS_EMPTY; at != FIELD(uint64_t, NEXT_EVENT); at++) {
        uint64_t entry[3] = {*(uint64_t *)(header + EVENTS_END + at * 8), 1, 0};
        if (fwrite(entry, sizeof entry, 1, file) != 1) return 18;
    }
    if (fclose(file)) return 19;
    return recover_after_any_step(atol(arguments[7]));
}
#else
HARNESS int main(int n_arguments, char **arguments) {
    if (n_arguments < 5) return 9;
    long max_steps = n_arguments > 5 ? atol(arguments[5]) : 0;
    set_up(arguments);
    size_t n_records = 0;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        long expected = work[i].function(work[i].argument);
        for (uint32_t checks = 1; checks < 1u << 30; checks = checks * 3 + 1) {
            long result = in_copy(work[i].function, work[i].argument, checks);
            n_records = (uint32_t *)FIELD(uint64_t, CURSOR) - records;
            printf("%s %u: %s, state %u, reason %u, checks left %u, records %zu, system calls %u\n", work[i].name, checks,
                   result == expected ? "same" : "DIFFERENT", FIELD(uint32_t, STATE), FIELD(uint32_t, END_REASON),
                   FIELD(uint32_t, CHECKS), n_records, FIELD(uint32_t, N_SYSTEM_CALLS));
            if (result != expected || FIELD(uint32_t, STATE) != 2) return 1;
        }
    }
    uint64_t last_cursor = FIELD(uint64_t, CURSOR);
    if (recover_after_any_step(max_steps)) return 1;
    FIELD(uint64_t, CURSOR) = last_cursor;
    FILE *file = fopen(arguments[4], "wb");
    return !file || fwrite(records, 4, n_records, file) != n_records || fclose(file);
}
#endif
