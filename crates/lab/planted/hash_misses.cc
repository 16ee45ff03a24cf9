// A hash table that is larger than the caches: a loop over the key, then one load that misses.
// Units with keys of one byte are what is left if all but the last round of the loop is removed.
#include "planted.h"

#include <vector>

struct Slot {
    uint64_t key, value;
};

static constexpr size_t N_SLOTS = 1 << 24;
static constexpr unsigned LONG_KEY = 100, SHORT_KEY = 1, N = 20000;

static std::vector<Slot> slots;

PLANTED uint64_t prepare() {
    slots.resize(N_SLOTS);
    uint64_t x = 1;
    for (Slot &slot : slots) {
        x = chain(x + 1, 1);
        slot = {x, x >> 3};
    }
    return x;
}

PLANTED uint64_t find(uint64_t n, unsigned length, uint64_t x) {
    const Slot *table = slots.data();
    for (uint64_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < length; k++) {
            x = (x ^ k) * 1099511628211u;
            x ^= x >> 31;
        }
        MARK("looks_up");
        const Slot &slot = table[(x * 0x9e3779b97f4a7c15u) >> 40];
        x += slot.key ^ slot.value;
    }
    return x;
}

static uint64_t seed = 1;
static uint64_t with() { return seed = find(sized(N), LONG_KEY, seed); }
static uint64_t without() { return seed = find(sized(N), SHORT_KEY, seed); }

int main(int argc, char **argv) {
    tell_function("prepare", took_ns(prepare), 0);
    removal sums = {};
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        compare(&sums, with, without);
    }
    tell_two_paths("find", "!looks_up", "looks_up", &sums);
    // To give it back takes time, too.
    slots = std::vector<Slot>();
    return tell_totals();
}
