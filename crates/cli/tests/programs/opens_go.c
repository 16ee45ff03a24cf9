/* Opens a library with Go's runtime after some work, while other threads run; or is linked to
 * it. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

typedef uint64_t work_in_go(uint64_t seed, uint64_t rounds);

#ifdef LINKED
extern work_in_go Work;
#endif

static atomic_int is_over;

__attribute__((noinline)) static uint64_t work(uint64_t seed, unsigned long rounds) {
    uint64_t x = seed;
    for (unsigned long i = 0; i < rounds; i++)
        x = (x & 1 ? x * 6364136223846793005u : x >> 1) ^ (i << 7);
    return x;
}

static void *thread(void *argument) {
    uint64_t x = (uint64_t)(uintptr_t)argument;
    while (!is_over)
        x = work(x, 100000);
    return (void *)(uintptr_t)(x != 0);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, (void *)1) == 0);
    printf("before %016llx\n", (unsigned long long)work(1, 1500000ul * scale));
#ifdef LINKED
    work_in_go *in_go = Work;
#else
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(length > 0);
    path[length] = 0;
    strcpy(strrchr(path, '/'), "/libgo.so");
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library != NULL);
    work_in_go *in_go = (work_in_go *)dlsym(library, "Work");
    CHECK(in_go != NULL);
#endif
    for (int i = 0; i < 3; i++)
        printf("in Go %016llx\n", (unsigned long long)in_go(i, 400000ull * scale));
    is_over = 1;
    CHECK(pthread_join(other, NULL) == 0);
    return 7;
}
