// A handler of SIGSEGV throws, and what is caught uses what the function had in registers before
// the fault. Between the loads that may fault, few registers are free.
#include <csignal>
#include <cstdio>
#include <cstdlib>

struct Fault {};

static void on_fault(int) {
    throw Fault();
}

__attribute__((noipa)) static long triple(long x) {
    return x * 3 + 0x1000;
}

#define BUSY asm volatile("" : "+a"(r), "+c"(s), "+d"(t), "+S"(second), "+D"(first))

__attribute__((noipa)) static long shorts(const volatile short *first, const volatile short *second, long a, long d) {
    long x = triple(a), y = triple(a + 1), z = triple(a + 2);
    long r = d, s = 1, t = 2;
    try {
        BUSY;
        r ^= *first == 5;
        BUSY;
        r += *first;
        BUSY;
        r += *second == 7;
        BUSY;
        return r + s + t;
    } catch (Fault &) {
        return x * 5 + y * 7 + z;
    }
}

__attribute__((noipa)) static long operands(const volatile long *first, const volatile long *second, long a, long d) {
    long x = triple(a), y = triple(a + 1), z = triple(a + 2);
    long r = d, s = 1, t = 2;
    try {
        BUSY;
        asm volatile("addq (%%rdi), %%rax\n testq $1, (%%rdi)"
                     : "+a"(r), "+c"(s), "+d"(t), "+S"(second), "+D"(first)
                     :
                     : "cc");
        BUSY;
        r += *second;
        BUSY;
        return r + s + t;
    } catch (Fault &) {
        return x * 5 + y * 7 + z;
    }
}

int main(int argc, char **argv) {
    const unsigned scale = argc > 1 ? (unsigned)strtoul(argv[1], nullptr, 10) : 10;
    struct sigaction action = {};
    action.sa_handler = on_fault;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    short small = 5;
    long wide = 5;
    unsigned long digest = 0;
    for (long i = 0; i < 4000l * scale; i++) {
        digest = digest * 31 + shorts(&small, &small, i, i);
        digest = digest * 31 + shorts(&small, (short *)8, i, i);
        digest = digest * 31 + operands(&wide, &wide, i, i);
        digest = digest * 31 + operands(&wide, (long *)8, i, i);
    }
    printf("%lx\n", digest);
    return 0;
}
