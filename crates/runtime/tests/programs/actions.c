// What the program is told about its signal actions.
#include "burn.h"
static int count;
static void plain(int signal) { count++; }
static void full(int signal, siginfo_t *info, void *context) {
    CHECK(info->si_signo == signal && context);
    count++;
}
static void show(const char *what, int signal) {
    struct sigaction old;
    memset(&old, 0x55, sizeof old);
    int result = sigaction(signal, 0, &old);
    if (result) { printf("%s %d: error %d\n", what, signal, errno); return; }
    const char *handler = old.sa_handler == SIG_DFL ? "default" : old.sa_handler == SIG_IGN ? "ignore"
        : old.sa_handler == plain ? "plain" : old.sa_sigaction == full ? "full" : "other";
    printf("%s %d: %s %x", what, signal, handler, old.sa_flags);
    for (int each = 1; each < 65; each++) if (sigismember(&old.sa_mask, each) == 1) printf(" %d", each);
    printf("\n");
}
int main() {
    int signals[] = {SIGUSR1, SIGURG, SIGTRAP, SIGSEGV, SIGCHLD, 34, 64, 0, 65, SIGKILL, 32, 33};
    for (int i = 0; i < 12; i++) show("initial", signals[i]);
    for (int i = 0; i < 7; i++) {
        int signal_number = signals[i];
        struct sigaction action = {0}, old;
        action.sa_handler = plain;
        sigfillset(&action.sa_mask);
        CHECK(sigaction(signal_number, &action, &old) == 0 && old.sa_handler == SIG_DFL);
        show("plain", signal_number);
        raise(signal_number);
        action.sa_sigaction = full;
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR2);
        CHECK(sigaction(signal_number, &action, &old) == 0 && old.sa_handler == plain);
        show("full", signal_number);
        raise(signal_number);
        action.sa_flags = SA_SIGINFO | SA_RESETHAND;
        sigaction(signal_number, &action, 0);
        show("once", signal_number);
        if (signal_number != SIGSEGV) raise(signal_number); else raise(signal_number);
        show("after", signal_number);
        CHECK(signal(signal_number, plain) == SIG_DFL);
        show("signal", signal_number);
        siginterrupt(signal_number, 1);
        show("interrupt", signal_number);
        CHECK(signal(signal_number, plain) == plain);
        show("signal again", signal_number);
        siginterrupt(signal_number, 0);
        CHECK(sysv_signal(signal_number, plain) == plain);
        show("system V", signal_number);
        raise(signal_number);
        show("after", signal_number);
        sigset(signal_number, plain);
        show("sigset", signal_number);
        printf("hold %d", sighold(signal_number));
        raise(signal_number);
        printf(" %d", count);
        sigset_t pending; sigpending(&pending);
        printf(" pending %d", sigismember(&pending, signal_number));
        printf(" release %d", sigrelse(signal_number));
        printf(" %d\n", count);
        CHECK(sigset(signal_number, SIG_HOLD) == plain);
        CHECK(sigset(signal_number, SIG_IGN) == SIG_HOLD);
        show("ignored", signal_number);
        raise(signal_number);
        burn(3000000);
        sigignore(signal_number);
        signal(signal_number, SIG_DFL);
        show("default", signal_number);
    }
    printf("%d %d\n", signal(SIGKILL, plain) == SIG_ERR, errno);
    printf("%d %d\n", signal(99, plain) == SIG_ERR, errno);
    printf("%d %d\n", sighold(99), errno);
    printf("count %d\n", count);
    for (int signal_number = 1; signal_number < 65; signal_number++) signal(signal_number, SIG_DFL);
    burn(30000000);
    raise(SIGURG);
    printf("alive\n");
    fflush(stdout);
    raise(SIGTRAP);
    return 1;
}
