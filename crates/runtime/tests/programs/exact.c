// Functions in assembly, for which a test makes copies of exact mode by hand. They run as start
// routines of threads, while signals come whose handler has a copy, too. What they count in their
// copies must be exact.
#include "burn.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

struct call { void *function; long arguments[3]; long rounds; long result; };
void *rounds(void *count);
void *caller(void *call);
void *forks(void *count);
void *unmaps(void *address);
void *ends(void *unused);
void handler(int signal, siginfo_t *info, void *context);
long handled;
__asm__(".text\n"
        ".globl rounds\n.type rounds,@function\n.p2align 4\n"
        "rounds:\n"
        "xorl %eax, %eax\n"                 // +0
        "1: imulq $31, %rax, %rax\n"        // +2
        "addq %rdi, %rax\n"                 // +6
        "decq %rdi\n"                       // +9
        "jnz 1b\n"                          // +12
        "ret\n"                             // +14
        ".size rounds, .-rounds\n"
        ".globl handler\n.type handler,@function\n.p2align 4\n"
        "handler:\n"
        "lock incq handled(%rip)\n"         // +0
        "ret\n"                             // +8
        ".size handler, .-handler\n"
        ".globl caller\n.type caller,@function\n.p2align 4\n"
        "caller:\n"
        "pushq %rbx\n"                      // +0
        "movq %rdi, %rbx\n"                 // +1
        "1: movq 8(%rbx), %rdi\n"           // +4
        "movq 16(%rbx), %rsi\n"             // +8
        "movq 24(%rbx), %rdx\n"             // +12
        "call *(%rbx)\n"                    // +16
        "movq %rax, 40(%rbx)\n"             // +18
        "decq 32(%rbx)\n"                   // +22
        "jnz 1b\n"                          // +26
        "popq %rbx\n"                       // +28
        "ret\n"                             // +29
        ".size caller, .-caller\n"
        ".globl forks\n.type forks,@function\n.p2align 4\n"
        "forks:\n"
        "pushq %rbx\n"                      // +0
        "movq %rdi, %rbx\n"                 // +1
        "1: movl %ebx, %eax\n"              // +4
        "andl $1, %eax\n"                   // +6
        "addl $57, %eax\n"                  // +9: fork or vfork
        "syscall\n"                         // +12
        "testl %eax, %eax\n"                // +14
        "jnz 2f\n"                          // +16
        "xorl %edi, %edi\n"                 // +18
        "movl $231, %eax\n"                 // +20
        "syscall\n"                         // +25
        "2: decq %rbx\n"                    // +27
        "jnz 1b\n"                          // +30
        "popq %rbx\n"                       // +32
        "ret\n"                             // +33
        ".size forks, .-forks\n"
        ".globl unmaps\n.type unmaps,@function\n.p2align 4\n"
        "unmaps:\n"
        "xorl %esi, %esi\n"                 // +0
        "movl $11, %eax\n"                  // +2
        "syscall\n"                         // +7
        "ret\n"                             // +9
        ".size unmaps, .-unmaps\n"
        ".globl ends\n.type ends,@function\n.p2align 4\n"
        "ends:\n"
        "xorl %edi, %edi\n"                 // +0
        "movl $60, %eax\n"                  // +2
        "syscall\n"                         // +7
        ".size ends, .-ends\n");

static void *run(void *(*routine)(void *), void *argument) {
    pthread_t id;
    void *result;
    CHECK(pthread_create(&id, 0, routine, argument) == 0);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGALRM);
    sigaddset(&both, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &both, 0);
    CHECK(pthread_join(id, &result) == 0);
    pthread_sigmask(SIG_UNBLOCK, &both, 0);
    return result;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    struct itimerval timer = {{0, 100}, {0, 100}};
    struct itimerspec other_timer = {{0, 70000}, {0, 70000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t other;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &other) == 0);
    if (argc > 1) {
        setitimer(ITIMER_REAL, &timer, 0);
        timer_settime(other, 0, &other_timer, 0);
    }
    printf("%lx\n", (unsigned long)run(rounds, (void *)30000000l));
    sigset_t none;
    sigemptyset(&none);
    struct call masks = {pthread_sigmask, {SIG_BLOCK, (long)&none, 0}, 20000, -1};
    run(caller, &masks);
    printf("%ld %ld\n", masks.rounds, masks.result);
    void *kernel = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    struct timespec now = {0, 0};
    struct call clock = {kernel ? dlsym(kernel, "__vdso_clock_gettime") : 0, {CLOCK_MONOTONIC, (long)&now, 0}, 20000, -1};
    CHECK(clock.function);
    run(caller, &clock);
    printf("%ld %ld %d\n", clock.rounds, clock.result, now.tv_sec != 0);
    run(forks, (void *)50l);
    int children = 0, status;
    while (children < 50 && waitpid(-1, &status, 0) > 0) children += status == 0;
    printf("%d\n", children);
    printf("%ld\n", (long)run(unmaps, 0));
    timer_delete(other);
    timer.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, 0);
    for (int i = 0; i < 100; i++) run(ends, 0);
    fprintf(stderr, "%ld\n", handled);
    return 0;
}
