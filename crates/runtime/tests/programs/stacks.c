// Alternate stacks as the program sees them, and where its handlers run.
#include "burn.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
static char *alternate;
static size_t size = 65536;
static volatile int on_alternate, on_normal;
static sigjmp_buf buffer;
static volatile int jumps;
static void where(int signal) {
    char here;
    stack_t now;
    sigaltstack(0, &now);
    if (alternate && &here >= alternate && &here < alternate + size) { on_alternate++; CHECK(now.ss_flags & SS_ONSTACK); }
    else { on_normal++; CHECK(!(now.ss_flags & SS_ONSTACK)); }
    char *interrupted = __builtin_frame_address(0);
    burn(30000);
    if (jumps > 0) { jumps--; siglongjmp(buffer, 1); }
}
static void show(const char *what) {
    stack_t now; memset(&now, 0x55, sizeof now);
    CHECK(sigaltstack(0, &now) == 0);
    printf("%s: %d %d %zu, on alternate %d, normal %d\n", what, now.ss_sp == 0 ? 0 : now.ss_sp == alternate ? 1 : 2, now.ss_flags, now.ss_size, on_alternate, on_normal);
}
static void all(const char *what) {
    show(what);
    struct sigaction action = {0};
    action.sa_handler = where;
    for (int flags = 0; flags < 2; flags++) {
        action.sa_flags = flags ? SA_ONSTACK : 0;
        sigaction(SIGUSR1, &action, 0);
        sigaction(SIGURG, &action, 0);
        for (int i = 0; i < 200; i++) { raise(SIGUSR1); burn(3000); raise(SIGURG); burn(3000); }
        for (jumps = 50; jumps > 0;) if (!sigsetjmp(buffer, 1)) { burn(1000); raise(SIGUSR1); }
        for (jumps = 50; jumps > 0;) if (!sigsetjmp(buffer, 1)) { burn(1000); raise(SIGURG); }
    }
    show(what);
}
static void *thread(void *argument) {
    alternate = 0;
    all("thread without");
    char *own = malloc(size);
    alternate = own;
    stack_t stack = {.ss_sp = own, .ss_size = size};
    CHECK(sigaltstack(&stack, 0) == 0);
    all("thread with");
    stack.ss_flags = SS_DISABLE;
    stack_t old;
    CHECK(sigaltstack(&stack, &old) == 0);
    CHECK(old.ss_sp == own);
    alternate = 0;
    all("thread after");
    return 0;
}
static void tiny(int signal) { on_alternate++; }
int main() {
    all("without");
    stack_t bad = {.ss_sp = 0, .ss_size = 1};
    printf("small %d %d\n", sigaltstack(&bad, 0), errno);
    pthread_t id;
    pthread_create(&id, 0, thread, 0);
    pthread_join(id, 0);
    // A stack just large enough for the frame of a signal.
    long least = sysconf(_SC_MINSIGSTKSZ) + 1024;
    char *page = mmap(0, 65536 * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 0x5a, 65536 * 2);
    alternate = page + 65536;
    stack_t stack = {.ss_sp = alternate, .ss_size = least};
    CHECK(sigaltstack(&stack, 0) == 0);
    struct sigaction action = {.sa_handler = tiny, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    for (int i = 0; i < 300; i++) { raise(SIGUSR1); burn(300000); }
    for (int i = 0; i < 65536; i++) CHECK(page[i] == 0x5a);
    for (int i = least; i < 65536; i++) CHECK(alternate[i] == 0x5a);
    printf("tiny %d\n", on_alternate);
    return 0;
}
