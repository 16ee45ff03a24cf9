// Exceptions through hundreds of frames with cleanups, in three shared objects that call one
// another; caught, thrown again, nested, carried to other threads, and thrown in the middle of
// other work.
#include "check.h"
#include "throws.h"

#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

thread_local Tally tally;

namespace {

// The third link of the chain: this program itself.
__attribute__((noinline)) uint64_t own_frame(unsigned depth, uint64_t seed) {
    Guard guard(depth);
    uint64_t below = in_first_library(depth - 1, mix(seed, depth));
    return below + depth;
}

uint64_t through_frames(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        tally = {};
        unsigned depth = 300 + i % 201;
        try {
            digest = mix(digest, own_frame(depth, i));
            CHECK(!"returned");
        } catch (const Bottom &bottom) {
            digest = mix(digest, bottom.seed);
            digest = mix(digest, std::string(bottom.what()).size());
        }
        CHECK_EQUAL(tally.n_entered, tally.n_left);
        CHECK_EQUAL(tally.n_entered, depth);
        digest = mix(digest, tally.order);
    }
    return digest;
}

uint64_t nested(unsigned depth) {
    try {
        if (depth == 0)
            throw std::runtime_error("innermost");
        return nested(depth - 1) + 1;
    } catch (...) {
        std::throw_with_nested(std::logic_error(std::to_string(depth)));
    }
}

uint64_t unwrap(const std::exception &error) {
    uint64_t digest = 0;
    for (const char *c = error.what(); *c; c++)
        digest = mix(digest, (unsigned char)*c);
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        digest = mix(digest, unwrap(inner));
    }
    return digest;
}

uint64_t catch_nested() {
    try {
        return nested(20);
    } catch (const std::exception &error) {
        return unwrap(error);
    }
}

uint64_t in_other_thread(unsigned round) {
    std::future<uint64_t> result = std::async(std::launch::async, through_frames, 2 + round % 3);
    std::future<int> failing = std::async(std::launch::async, []() -> int { throw std::out_of_range("far"); });
    uint64_t digest = result.get();
    try {
        failing.get();
        CHECK(!"returned");
    } catch (const std::out_of_range &) {
        digest++;
    }
    return digest;
}

uint64_t from_library() {
    std::vector<int> few(3);
    try {
        return (uint64_t)few.at(busy(1, 10) % 7 + 3);
    } catch (const std::out_of_range &) {
        return 5;
    }
}

} // namespace

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    report("frames", through_frames(50 * scale));
    uint64_t digest = 0;
    for (unsigned i = 0; i < 20 * scale; i++) {
        digest = mix(digest, catch_nested());
        digest = mix(digest, from_library());
        digest = mix(digest, in_other_thread(i));
    }
    report("others", digest);
}
