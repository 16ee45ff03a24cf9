// Beginnings and ends: constructors before main, destructors and exit handlers after it in reverse
// order, in the program's threads, too; and the many ways to end. The second argument names one.
#include "check.h"

#include <atomic>
#include <csignal>
#include <exception>
#include <pthread.h>
#include <string_view>
#include <sys/resource.h>
#include <thread>

namespace {

struct Noisy {
    explicit Noisy(const char *name) : name(name) { say("begins"); }
    ~Noisy() { say("ends"); }
    void say(const char *what) const { printf("%s %s %016llx\n", name, what, (unsigned long long)busy(1, 2000000)); }
    const char *name;
};

Noisy first("first"), second("second");

Noisy &lazily() {
    static Noisy lazy("lazy");
    return lazy;
}

void on_exit_early() { printf("exit handler, installed early\n"); }
void on_exit_late() { printf("exit handler, installed late\n"); }
void on_quick_exit() {
    printf("quick exit handler\n");
    fflush(stdout);
}

std::atomic<unsigned> n_thread_ends{0};

struct CountsEnd {
    bool is_used = false;
    ~CountsEnd() { n_thread_ends += is_used; }
};
thread_local CountsEnd counts_end;

void run_threads(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        std::thread([i] {
            counts_end.is_used = true;
            CHECK(busy(i, 10000));
        }).join();
    printf("%u threads ended\n", n_thread_ends.load());
}

// Others compute on while one of them ends the program.
void end_from_thread(int status) {
    for (int i = 0; i < 3; i++)
        std::thread([] {
            for (uint64_t digest = 1;; digest = busy(digest, 1000)) {
            }
        }).detach();
    std::thread([status] {
        CHECK(busy(9, 10000000));
        exit(status);
    }).join();
}

void outlive_main_thread(int status) {
    std::thread([status] {
        CHECK(busy(3, 20000000));
        exit(status);
    }).detach();
    pthread_exit(nullptr);
}

void no_core() {
    struct rlimit none = {0, 0};
    CHECK_EQUAL(setrlimit(RLIMIT_CORE, &none), 0);
}

int end(const char *way) {
    std::string_view name(way);
    no_core();
    if (name == "return")
        return 37;
    if (name == "exit")
        exit(38);
    fflush(stdout);
    if (name == "quick")
        quick_exit(39);
    if (name == "thread")
        end_from_thread(40);
    if (name == "main-thread-first")
        outlive_main_thread(41);
    if (name == "abort")
        abort();
    if (name == "terminate")
        throw 1;
    if (name == "segv")
        raise(SIGSEGV);
    if (name == "fault")
        *(volatile int *)nullptr = 1;
    if (name == "trap")
        __builtin_trap();
    if (name == "kill")
        kill(getpid(), SIGKILL);
    if (name == "urgent-default") { // ignored by default, so the program goes on
        signal(SIGURG, SIG_DFL);
        raise(SIGURG);
        return 42;
    }
    check_failed(__FILE__, __LINE__, "unknown way to end: %s", way);
}

} // namespace

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    atexit(on_exit_early);
    at_quick_exit(on_quick_exit);
    lazily();
    atexit(on_exit_late);
    run_threads(20 * scale);
    return end(argc > 2 ? argv[2] : "return");
}
