// Virtual calls of three classes, whose methods take about 1 : 2 : 4 times as long.
#include "planted.h"

#include <memory>
#include <vector>

static uint64_t state;

struct Shape {
    virtual ~Shape() = default;
    virtual void work() = 0;
};

template <unsigned n> struct Chained final : Shape {
    __attribute__((noinline)) void work() override { state = chain(state, n); }
};

using Short = Chained<20>;
using Middle = Chained<40>;
using Long = Chained<80>;

static constexpr unsigned N = 6000;
static std::vector<std::unique_ptr<Shape>> shapes;

// Visits all but one of every three.
PLANTED void visit(unsigned n, unsigned left_out) {
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < 3; k++)
            if (k != left_out) shapes[3 * (i % 64) + k]->work();
}

static uint64_t all() { visit((unsigned)sized(N), 3); return state; }
static uint64_t without_short() { visit((unsigned)sized(N), 0); return state; }
static uint64_t without_middle() { visit((unsigned)sized(N), 1); return state; }
static uint64_t without_long() { visit((unsigned)sized(N), 2); return state; }

int main(int argc, char **argv) {
    for (unsigned i = 0; i < 64; i++) {
        shapes.push_back(std::make_unique<Short>());
        shapes.push_back(std::make_unique<Middle>());
        shapes.push_back(std::make_unique<Long>());
    }
    removal parts[3] = {};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&parts[0], all, without_short);
        compare(&parts[1], all, without_middle);
        compare(&parts[2], all, without_long);
    }
    const char *names[] = {"_ZN7ChainedILj20EE4workEv", "_ZN7ChainedILj40EE4workEv", "_ZN7ChainedILj80EE4workEv"};
    double total = 0;
    for (const removal &part : parts)
        total += part.with_ns + part.without_ns;
    // Every method runs in three of the units with all of them, and in two without another one.
    for (unsigned i = 0; i < 3; i++)
        tell_function(names[i], 5 * removed_ns(&parts[i]), 5 * removed_error(&parts[i]));
    tell_function("visit", total, 0);
    return tell_totals();
}
