// siglongjmp out of handlers, faults as control flow, one-shot and nested handlers.
#include "burn.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
static sigjmp_buf buffer;
static char *page;
static volatile long faults, alarms, depth, deepest;
static void fault(int signal, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    CHECK(info->si_addr == page + 64);
    CHECK(state->uc_mcontext.gregs[REG_CR2] == (greg_t)(page + 64));
    faults++;
    if (faults % 2) siglongjmp(buffer, 1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}
static void alarmed(int signal) { alarms++; if (alarms % 3 == 0) siglongjmp(buffer, 2); }
static void nested(int signal) { depth++; if (depth > deepest) deepest = depth; if (depth < 20) raise(SIGUSR2); burn(50000); depth--; }
int main() {
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {0};
    action.sa_sigaction = fault; action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 20000; i++) {
        if (sigsetjmp(buffer, 1) == 0) page[64] = i;
        mprotect(page, 4096, PROT_NONE);
        burn(2000);
    }
    printf("faults %ld\n", faults);
    signal(SIGALRM, alarmed);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, 0);
    while (sigsetjmp(buffer, 1) >= 0 && alarms < 100) { while (alarms < 100) burn(20000); }
    timer.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, 0);
    printf("alarms enough %d\n", alarms >= 100);
    action.sa_handler = nested; action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR2, &action, 0);
    for (int i = 0; i < 50; i++) raise(SIGUSR2);
    printf("deepest %ld depth %ld\n", deepest, depth);
    action.sa_handler = nested; action.sa_flags = SA_RESETHAND | SA_NODEFER;
    depth = 100;
    sigaction(SIGUSR2, &action, 0);
    raise(SIGUSR2);
    fflush(stdout);
    raise(SIGUSR2);
    return 0;
}
