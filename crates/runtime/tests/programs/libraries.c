// Loads and unloads two libraries again and again; they tend to come to lie at the same addresses.
#include "burn.h"
#include <dlfcn.h>
int main(int argc, char **argv) {
    unsigned long digest = 0;
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
        CHECK(library);
        void *again = dlopen(argv[1 + i % 2], RTLD_NOW);
        CHECK(dlclose(again) == 0);
        unsigned long (*compute)(unsigned long) = dlsym(library, "compute");
        for (int j = 0; j < 2000; j++) digest = digest * 31 + compute(digest + j);
        CHECK(dlclose(library) == 0);
    }
    printf("%lx\n", digest);
    return 0;
}
