// A link of the chain in throws.cpp: passes through, sometimes by a function pointer and with a
// filter that does not match. Calls the first library, which calls this one.
#include "throws.h"

#include <stdexcept>

const char *Bottom::what() const noexcept { return "bottom"; }

static __attribute__((noinline)) uint64_t filtered(unsigned depth, uint64_t seed) {
    try {
        return in_first_library(depth, seed) + 1;
    } catch (const std::runtime_error &) {
        return 0;
    }
}

uint64_t in_second_library(unsigned depth, uint64_t seed) {
    if (depth == 0)
        throw Bottom(seed + 1);
    Guard guard(depth);
    uint64_t (*volatile next)(unsigned, uint64_t) = depth % 3 ? filtered : in_first_library;
    return next(depth - 1, seed ^ depth) * 5;
}
