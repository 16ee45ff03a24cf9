/* Backtraces from handlers, from threads and from deep calls: the same frames with the same
 * names, none of them foreign, whether the signal was raised or came out of the blue. */
#include "maps.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { MAX_FRAMES = 128 };

static volatile int is_printing;
static volatile unsigned n_async;

static const char *name_of(void *address) {
    Dl_info info;
    return dladdr((char *)address - 1, &info) && info.dli_sname ? info.dli_sname : "?";
}

static int check_frames(void **frames, int count, const char *must_contain) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        check_code_address((uintptr_t)frames[i] - 1, "frame");
        found |= strcmp(name_of(frames[i]), must_contain) == 0;
    }
    return found;
}

static void print_frames(void **frames, int count) {
    printf("%d frames:", count);
    for (int i = 0; i < count; i++)
        printf(" %s", name_of(frames[i]));
    printf("\n");
}

void on_raised(int signal, siginfo_t *info, void *context) {
    CHECK_EQUAL(info->si_signo, signal);
    check_context(context);
    void *frames[MAX_FRAMES];
    int count = backtrace(frames, MAX_FRAMES);
    CHECK(check_frames(frames, count, "descend"));
    if (is_printing)
        print_frames(frames, count);
}

void on_timer(int signal, siginfo_t *info, void *context) {
    CHECK_EQUAL(info->si_signo, signal);
    check_context(context);
    void *frames[MAX_FRAMES];
    int count = backtrace(frames, MAX_FRAMES);
    CHECK(check_frames(frames, count, "main"));
    n_async++;
}

__attribute__((noinline)) uint64_t descend(unsigned depth, uint64_t seed) {
    uint64_t digest = busy(seed, 200);
    if (depth == 0)
        CHECK_EQUAL(raise(SIGUSR1), 0);
    else
        digest = mix(digest, descend(depth - 1, digest));
    __asm__ volatile("" ::: "memory");
    return digest + depth;
}

void *thread_main(void *rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < (uintptr_t)rounds; i++)
        digest = mix(digest, descend(i % 30, i));
    return (void *)(uintptr_t)digest;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    refresh_maps();
    void *warm_up[4];
    backtrace(warm_up, 4); /* loads the unwinder, which must not happen in a handler */
    refresh_maps();
    struct sigaction action = {.sa_sigaction = on_raised, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    uint64_t rounds = 100 * scale;

    is_printing = 1;
    for (unsigned depth = 0; depth < 100; depth += 33)
        descend(depth, depth);
    void *digest;
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_main, (void *)(uintptr_t)3), 0);
    CHECK_EQUAL(pthread_join(thread, &digest), 0);
    is_printing = 0;

    CHECK_EQUAL(pthread_create(&thread, NULL, thread_main, (void *)rounds), 0);
    CHECK_EQUAL(pthread_join(thread, &digest), 0);
    report("thread", (uintptr_t)digest);

    action.sa_sigaction = on_timer;
    CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval interval = {{0, 900}, {0, 900}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &interval, NULL), 0);
    uint64_t main_digest = 0;
    for (unsigned i = 0; i < 40 * rounds || !n_async; i++)
        main_digest = mix(main_digest, busy(i, 500));
    CHECK_EQUAL(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    report("main", main_digest);
}
