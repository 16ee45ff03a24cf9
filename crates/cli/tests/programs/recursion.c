/* Deep stacks: recursion a hundred thousand deep, mutual recursion, frames of megabytes, in the
 * main thread and in threads whose stacks just suffice. */
#include "check.h"

#include <alloca.h>
#include <pthread.h>
#include <sys/resource.h>

static unsigned scale;

static __attribute__((noinline)) uint64_t deep(unsigned depth, uint64_t seed) {
    if (depth == 0)
        return busy(seed, 100);
    uint64_t below = deep(depth - 1, mix(seed, depth));
    return mix(below, seed);
}

static uint64_t odd(unsigned n, uint64_t seed);

static __attribute__((noinline)) uint64_t even(unsigned n, uint64_t seed) {
    return n == 0 ? seed : odd(n - 1, seed * 3) + 1;
}

static __attribute__((noinline)) uint64_t odd(unsigned n, uint64_t seed) {
    return n == 0 ? ~seed : even(n - 1, seed + 5) ^ 2;
}

static __attribute__((noinline)) unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

static __attribute__((noinline)) uint64_t large_frame(size_t bytes, uint64_t seed) {
    volatile unsigned char *frame = alloca(bytes);
    for (size_t i = 0; i < bytes; i += 512)
        frame[i] = (unsigned char)(seed += i);
    uint64_t digest = seed;
    for (size_t i = 0; i < bytes; i += 512)
        digest = mix(digest, frame[i]);
    return digest;
}

static void *run(void *unused) {
    (void)unused;
    uint64_t digest = 0;
    for (unsigned i = 0; i < 12 * scale; i++) {
        digest = mix(digest, deep(100000, i));
        digest = mix(digest, even(100001, i));
        digest = mix(digest, large_frame(6 << 20, i));
    }
    digest = mix(digest, ackermann(3, 8));
    return (void *)(uintptr_t)digest;
}

int main(int argc, char **argv) {
    scale = scale_of(argc, argv);
    uint64_t digest = (uintptr_t)run(NULL);
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    CHECK_EQUAL(pthread_attr_init(&attributes), 0);
    CHECK_EQUAL(pthread_attr_setstacksize(&attributes, 16 << 20), 0);
    CHECK_EQUAL(pthread_create(&thread, &attributes, run, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK_EQUAL((uintptr_t)result, digest);
    report("recursion", digest);
}
