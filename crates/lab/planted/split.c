/* Time in user mode and in the kernel, each in units of its own: how it is split is known. */
#include "planted.h"

#include <fcntl.h>
#include <unistd.h>

#define N_CHAINED 400000u
/* So much at once that entering the kernel and leaving it are nothing beside it. */
#define SIZE (1u << 20)
#define N_READS 60u

static char buffer[SIZE];
static int zeros;

PLANTED uint64_t computes(void) {
    uint64_t x = 1;
    const uint64_t n = sized(N_CHAINED);
    for (uint64_t i = 0; i < n; i++)
        x = chain(x + i, 4);
    return x;
}

PLANTED uint64_t reads(void) {
    const uint64_t n = sized(N_READS);
    for (uint64_t i = 0; i < n; i++)
        REQUIRE(read(zeros, buffer, SIZE) == SIZE);
    return 0;
}

int main(int argc, char **argv) {
    zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    REQUIRE(zeros >= 0);
    double computes_ns = 0, reads_ns = 0;
    for (unsigned rounds = rounds_of(argc, argv); rounds; rounds--) {
        next_round();
        computes_ns += took_ns(computes);
        reads_ns += took_ns(reads);
    }
    tell_function("computes", computes_ns, 0);
    tell_function("reads", reads_ns, 0);
    printf("kernel %.0f 0\n", reads_ns);
    return tell_totals();
}
