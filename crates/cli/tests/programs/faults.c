/* Faults as control flow: a page-protection barrier, null checks by siglongjmp, division by
 * zero, invalid instructions, breakpoints and pages beyond the end of a file, each with the
 * right address and code. */
#include "maps.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, N_PAGES = 64 };

static char *heap;
static sigjmp_buf back;
static volatile uintptr_t expected_address;
static volatile unsigned n_barriers, n_traps, n_reads, n_writes;
static char *closed;
extern const char divide_at[], invalid_at[], trap_after[];

static void on_segv(int signal, siginfo_t *info, void *context) {
    CHECK_EQUAL(signal, SIGSEGV);
    check_context(context);
    char *address = info->si_addr;
    if (address == closed) {
        CHECK_EQUAL(info->si_code, SEGV_ACCERR);
        int is_write = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
        ++*(is_write ? &n_writes : &n_reads);
        CHECK_EQUAL(mprotect(closed, PAGE, PROT_READ | PROT_WRITE), 0);
        return;
    }
    if (address >= heap && address < heap + N_PAGES * PAGE) {
        CHECK_EQUAL(info->si_code, SEGV_ACCERR);
        n_barriers++;
        char *page = (char *)((uintptr_t)address & -(uintptr_t)PAGE);
        CHECK_EQUAL(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
        return;
    }
    CHECK_EQUAL(info->si_code, SEGV_MAPERR);
    CHECK_EQUAL((uintptr_t)address, expected_address);
    siglongjmp(back, 1);
}

static void on_other_fault(int signal, siginfo_t *info, void *context) {
    check_context(context);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = registers[REG_RIP];
    switch (signal) {
    case SIGFPE:
        CHECK_EQUAL(info->si_code, FPE_INTDIV);
        CHECK_EQUAL(pc, (uintptr_t)divide_at);
        CHECK_EQUAL((uintptr_t)info->si_addr, pc);
        registers[REG_RIP] += 2;
        return;
    case SIGILL:
        CHECK_EQUAL(pc, (uintptr_t)invalid_at);
        registers[REG_RIP] += 2;
        return;
    case SIGTRAP:
        CHECK_EQUAL(pc, (uintptr_t)trap_after);
        n_traps++;
        return;
    default:
        CHECK_EQUAL(info->si_code, BUS_ADRERR);
        CHECK_EQUAL((uintptr_t)info->si_addr, expected_address);
        siglongjmp(back, 1);
    }
}

static uint64_t barrier(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        CHECK_EQUAL(mprotect(heap, N_PAGES * PAGE, PROT_READ), 0);
        unsigned before = n_barriers;
        for (unsigned page = 0; page < N_PAGES; page += 1 + i % 3)
            for (unsigned word = 0; word < 8; word++)
                heap[page * PAGE + word * 100] += (char)(page + word);
        CHECK_EQUAL(n_barriers - before, (N_PAGES + i % 3) / (1 + i % 3));
        for (unsigned byte = 0; byte < N_PAGES * PAGE; byte += 100)
            digest = mix(digest, (unsigned char)heap[byte]);
    }
    return digest;
}

struct node {
    char padding[200];
    long value;
};

static __attribute__((noinline)) long value_of(const struct node *node) {
    return *(const volatile long *)&node->value;
}

static uint64_t null_checks(unsigned rounds) {
    struct node node = {.value = 5};
    volatile uint64_t digest = 0;
    expected_address = 200;
    for (volatile unsigned i = 0; i < rounds; i++) {
        if (sigsetjmp(back, 1) == 0)
            digest = mix(digest, value_of(i % 2 ? &node : NULL));
        else
            digest = mix(digest, i);
    }
    return digest;
}

static __attribute__((noinline)) uint64_t instructions(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        digest = mix(digest, busy(i, 200));
        unsigned quotient = i, rest = 0;
        __asm__ volatile(".globl divide_at\ndivide_at: div %[divisor]\n"
                         ".globl invalid_at\ninvalid_at: ud2\n"
                         "int3\n.globl trap_after\ntrap_after:\n"
                         : "+a"(quotient), "+d"(rest)
                         : [divisor] "r"(0));
        CHECK_EQUAL(quotient, i);
    }
    CHECK_EQUAL(n_traps, rounds);
    return digest;
}

/* Instructions that only read, and those that read and write, at the same place. */
static uint64_t reads_and_writes(unsigned rounds) {
    closed = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(closed != MAP_FAILED);
    long one = 1;
    for (unsigned i = 0; i < rounds; i++) {
#define WITH_FAULT(instruction) \
    CHECK_EQUAL(mprotect(closed, PAGE, PROT_NONE), 0); \
    __asm__ volatile(instruction : "+r"(one) : "r"(closed) : "cc", "memory")
        WITH_FAULT("add (%1), %0\n xor %0, %0\n inc %0");
        WITH_FAULT("cmpb $0, (%1)");
        WITH_FAULT("mov (%1), %b0\n mov $1, %k0");
        WITH_FAULT("add %0, (%1)");
        WITH_FAULT("lock incb (%1)");
        WITH_FAULT("xadd %0, (%1)\n mov $1, %k0");
        WITH_FAULT("negw (%1)\n negw (%1)");
        CHECK_EQUAL(n_reads, 3 * (i + 1));
        CHECK_EQUAL(n_writes, 4 * (i + 1));
    }
    return *(uint64_t *)closed;
}

static uint64_t beyond_file(unsigned rounds) {
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), PAGE) == 0);
    volatile char *mapping = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fileno(file), 0);
    CHECK(mapping != MAP_FAILED);
    volatile uint64_t n_faults = 0;
    expected_address = (uintptr_t)mapping + PAGE + 17;
    for (volatile unsigned i = 0; i < rounds; i++) {
        if (sigsetjmp(back, 1) == 0)
            n_faults += mapping[PAGE + 17] + 1000000;
        else
            n_faults++;
    }
    fclose(file);
    return n_faults;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    refresh_maps();
    heap = mmap(NULL, N_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    CHECK_EQUAL(sigaction(SIGSEGV, &action, NULL), 0);
    action.sa_sigaction = on_other_fault;
    int others[] = {SIGFPE, SIGILL, SIGTRAP, SIGBUS};
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(sigaction(others[i], &action, NULL), 0);
    report("barrier", barrier(50 * scale));
    report("null checks", null_checks(10000 * scale));
    report("reads and writes", reads_and_writes(500 * scale));
    report("instructions", instructions(1500 * scale));
    report("beyond file", beyond_file(1000 * scale));
}
