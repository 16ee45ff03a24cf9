// Exceptions that are thrown once in 64 times. Unwinding is in the libraries; here are the path
// that throws nothing and the whole.
#include "planted.h"

#include <stdexcept>

static constexpr unsigned ONE_IN = 64, NEVER = ONE_IN, N = 64000;

PLANTED void reject(uint64_t x) { throw x; }

PLANTED uint64_t step(uint64_t n, uint64_t when, uint64_t x) {
    for (uint64_t i = 0; i < n; i++) {
        if (i % ONE_IN == when) {
            try {
                reject(x);
            } catch (uint64_t thrown) {
                x ^= thrown >> 9;
            }
        } else {
            MARK("computes");
            x = chain(x, 20);
        }
    }
    return x;
}

static uint64_t seed = 1;
static uint64_t with() { return seed = step(sized(N), 3, seed); }
static uint64_t without() { return seed = step(sized(N - N / ONE_IN), NEVER, seed); }

int main(int argc, char **argv) {
    removal sums = {};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    double all = sums.with_ns + sums.without_ns, error = removed_error(&sums);
    tell_function("step", all, 0);
    tell_function("reject", removed_ns(&sums), error);
    tell_path("step", "computes", all - removed_ns(&sums), error);
    return tell_totals();
}
