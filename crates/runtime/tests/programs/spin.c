// A loop in assembly, for which a test makes a copy by hand. While it runs, signals come; their
// handler looks at what they interrupted.
#include "burn.h"
#include <pthread.h>
#include <sys/time.h>
#include <ucontext.h>

unsigned long spin(unsigned long rounds);
extern char spin_end[];
__asm__(".text\n.globl spin\n.type spin,@function\n.p2align 4\n"
        "spin:\n"
        "xorl %eax, %eax\n"                 // 2 bytes
        "spin_loop:\n"
        "imulq $31, %rax, %rax\n"           // 4 bytes
        "addq %rdi, %rax\n"                 // 3 bytes
        "decq %rdi\n"                       // 3 bytes
        "jnz spin_loop\n"                   // 2 bytes
        "ret\n"
        ".globl spin_end\nspin_end:\n.size spin, .-spin\n");

static volatile long signals, inside;
static void look(int signal, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    char *pc = (char *)state->uc_mcontext.gregs[REG_RIP];
    signals++;
    if (pc >= (char *)spin && pc < spin_end) inside++;
    // The whole program is small: anything outside it, but near, would be a copy.
    else CHECK(pc < (char *)spin - (512l << 20) || pc > (char *)spin - (64l << 20));
}

int main() {
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, 0);
    unsigned long sum = 0;
    for (int i = 0; i < 400; i++) sum = sum * 7 + spin(1000000 + i);
    timer.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, 0);
    printf("%lx %d %d\n", sum, signals > 20, inside > 10);
    return 0;
}
