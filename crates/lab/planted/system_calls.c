/* System calls behind a rare branch. The function's time is in user mode and in the kernel; paths
 * have user time only, so that the one without calls is what can be told. */
#include "planted.h"

#include <fcntl.h>
#include <sys/syscall.h>

#define ONE_IN 16
#define NEVER ONE_IN
#define N 120000u

static char buffer[8192];
static long zeros;

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    for (uint64_t i = 0; i < n; i++) {
        if (i % ONE_IN == when) {
            MARK("calls");
            long result = SYS_read;
            __asm__ volatile("syscall"
                             : "+a"(result)
                             : "D"(zeros), "S"(buffer), "d"(sizeof buffer)
                             : "rcx", "r11", "memory");
            x ^= (uint64_t)result;
        } else {
            MARK("computes");
            x = chain(x, 9);
        }
    }
    return x;
}

static uint64_t seed;
static uint64_t with(void) { return seed = step(sized(N), 3, seed); }
static uint64_t without(void) { return seed = step(sized(N - N / ONE_IN), NEVER, seed); }

int main(int argc, char **argv) {
    zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    REQUIRE(zeros >= 0);
    struct removal sums = {0};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    double all = sums.with_ns + sums.without_ns, error = removed_error(&sums);
    tell_function("step", all, 0);
    tell_path("step", "computes", all - removed_ns(&sums), error);
    return tell_totals();
}
