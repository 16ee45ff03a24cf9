/* Tells its process id, then computes for a while in two threads and in calls that block: for
 * those who attach to it or kill it meanwhile. The result is in a file as well, for when nobody
 * reads its output any more. With another argument it goes on computing, to no effect on the
 * result, until there is a file "released": for those who take their time. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static unsigned n_rounds;
static int is_held;

static void write_file(const char *name, const char *format, unsigned long long value) {
    char part[64];
    snprintf(part, sizeof part, "%s.part", name);
    FILE *file = fopen(part, "we");
    CHECK(file && fprintf(file, format, value) > 0 && fclose(file) == 0);
    CHECK_EQUAL(rename(part, name), 0);
}

static void *run(void *seed) {
    uint64_t digest = (uintptr_t)seed;
    for (unsigned i = 0; i < n_rounds; i++) {
        digest = mix(digest, busy(digest, 100000));
        if (i % 20 == 0)
            CHECK(poll(NULL, 0, 1) == 0 || errno == EINTR);
    }
    while (is_held && access("released", F_OK) != 0)
        busy(digest, 100000);
    return (void *)(uintptr_t)digest;
}

int main(int argc, char **argv) {
    n_rounds = 60 * scale_of(argc, argv);
    is_held = argc > 2;
    write_file("pid", "%llu\n", (unsigned long long)getpid());
    pthread_t thread;
    void *other;
    CHECK_EQUAL(pthread_create(&thread, NULL, run, (void *)1), 0);
    uint64_t digest = (uintptr_t)run((void *)2);
    CHECK_EQUAL(pthread_join(thread, &other), 0);
    digest = mix(digest, (uintptr_t)other);
    CHECK_EQUAL(unlink("pid"), 0);
    CHECK(!is_held || unlink("released") == 0);
    write_file("result", "%016llx\n", digest);
    report("spin", digest);
    return 6;
}
