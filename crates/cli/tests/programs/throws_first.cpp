// A link of the chain in throws.cpp: some frames of its own, one of which catches and throws again.
#include "throws.h"

uint64_t in_first_library(unsigned depth, uint64_t seed) {
    if (depth == 0)
        throw Bottom(seed);
    Guard guard(depth);
    try {
        return in_second_library(depth - 1, seed * 3 + depth) ^ seed;
    } catch (Bottom &bottom) {
        if (depth % 16 == 0) {
            bottom.seed += depth;
            throw;
        }
        throw Bottom(bottom.seed ^ depth);
    }
}
