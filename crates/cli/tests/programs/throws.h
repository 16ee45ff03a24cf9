// What throws.cpp and its two libraries share.
#pragma once

#include <cstdint>
#include <exception>

struct Tally {
    unsigned n_entered = 0, n_left = 0;
    uint64_t order = 0;
};
extern thread_local Tally tally;

// Counts its construction and destruction, and in which order the latter happen.
struct Guard {
    explicit Guard(unsigned depth) : depth(depth) { tally.n_entered++; }
    ~Guard() {
        tally.n_left++;
        tally.order = tally.order * 31 + depth;
    }
    unsigned depth;
};

struct Bottom : std::exception {
    explicit Bottom(uint64_t seed) : seed(seed) {}
    const char *what() const noexcept override;
    uint64_t seed;
};

uint64_t in_first_library(unsigned depth, uint64_t seed);
uint64_t in_second_library(unsigned depth, uint64_t seed);
