/* Loads and unloads libraries that are alike in shape but not in code, so that each lands where
 * the last one was, and calls what is in them; stale knowledge of the old code would show in the
 * digest. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

/* A library stays for milliseconds: between an unload and the agent's next look no burst starts. */
enum { N_PLUGINS = 4, N_ROUNDS = 3000000 };

typedef uint64_t compute_function(uint64_t seed, unsigned rounds);

static uint64_t expected[N_PLUGINS];
static unsigned n_same_address;
static unsigned n_unloads;

void plugin_unloaded(void) { __atomic_add_fetch(&n_unloads, 1, __ATOMIC_SEQ_CST); }

static uint64_t use_plugin(unsigned index, unsigned rounds, void **address) {
    char name[64];
    snprintf(name, sizeof name, "plugin%u.so", index);
    void *handle = dlopen(name, index % 2 ? RTLD_NOW : RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        check_failed(__FILE__, __LINE__, "%s", dlerror());
    compute_function *compute = (compute_function *)dlsym(handle, "compute");
    int *variant = (int *)dlsym(handle, "variant");
    CHECK(compute && variant);
    CHECK_EQUAL(*variant, index);
    uint64_t digest = compute(99, rounds);
    if (address)
        *address = (void *)compute;
    CHECK_EQUAL(dlclose(handle), 0);
    return digest;
}

static void *in_thread(void *rounds) {
    for (unsigned i = 0; i < (uintptr_t)rounds; i++)
        CHECK_EQUAL(use_plugin(i * 3 % N_PLUGINS, N_ROUNDS, NULL), expected[i * 3 % N_PLUGINS]);
    return NULL;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    uint64_t digest = 0;
    void *last = NULL, *now;
    for (unsigned i = 0; i < N_PLUGINS; i++)
        expected[i] = use_plugin(i, N_ROUNDS, NULL);
    for (unsigned i = 0; i < 10 * scale; i++) {
        uint64_t result = use_plugin(i % N_PLUGINS, N_ROUNDS, &now);
        CHECK_EQUAL(result, expected[i % N_PLUGINS]);
        digest = mix(digest, result);
        n_same_address += now == last;
        last = now;
    }
    CHECK_EQUAL(n_unloads, N_PLUGINS + 10 * scale);
    fprintf(stderr, "%u of %u times at the same address\n", n_same_address, 10 * scale);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, in_thread, (void *)(uintptr_t)(5 * scale)), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    report("plugins", digest);
}
