/* Address space in motion: the heap grows by brk to hundreds of megabytes, mappings come, move,
 * change and go. */
#include "check.h"

#include <sys/mman.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static uint64_t grow_heap(unsigned mib) {
    char *first = sbrk(0);
    uint64_t digest = 0;
    for (unsigned i = 0; i < mib; i++) {
        char *block = sbrk(MIB);
        CHECK(block == first + (size_t)i * MIB);
        for (unsigned offset = 0; offset < MIB; offset += 16 * PAGE) {
            block[offset] = (char)i;
            digest = mix(digest, (unsigned char)block[offset] + (unsigned char)block[offset + 1]);
        }
    }
    CHECK(sbrk(-(intptr_t)mib * MIB) == first + (size_t)mib * MIB);
    CHECK(sbrk(0) == first);
    return digest;
}

static uint64_t churn(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        size_t size = (1 + i % 50) * PAGE;
        unsigned char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(block != MAP_FAILED);
        block[size - 1] = (unsigned char)i;
        CHECK_EQUAL(mprotect(block, PAGE, PROT_READ), 0);
        unsigned char *moved = mremap(block, size, size * 4, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) { /* two mappings since mprotect: they cannot move as one */
            CHECK_EQUAL(errno, EFAULT);
            CHECK_EQUAL(mprotect(block, PAGE, PROT_READ | PROT_WRITE), 0);
            moved = mremap(block, size, size * 4, MREMAP_MAYMOVE);
            CHECK(moved != MAP_FAILED);
        }
        digest = mix(digest, moved[size - 1] + moved[size * 4 - 1]);
        CHECK_EQUAL(madvise(moved, size * 4, MADV_DONTNEED), 0);
        digest = mix(digest, moved[size - 1] + busy(i, 1000));
        CHECK_EQUAL(munmap(moved, size * 4), 0);
    }
    return digest;
}

static uint64_t allocate(unsigned rounds) {
    enum { N_BLOCKS = 500 };
    static char *blocks[N_BLOCKS];
    uint64_t digest = 1;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned slot = busy(digest, 10) % N_BLOCKS;
        size_t size = 1 + digest % (i % 100 == 0 ? 3 * MIB : 3000);
        if (blocks[slot])
            digest = mix(digest, (unsigned char)blocks[slot][0]);
        blocks[slot] = realloc(blocks[slot], size);
        CHECK(blocks[slot]);
        memset(blocks[slot], (int)i, size > 64 ? 64 : size);
        digest = mix(digest, i);
    }
    for (unsigned i = 0; i < N_BLOCKS; i++)
        free(blocks[i]);
    return digest;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    report("heap", grow_heap(700));
    report("mappings", churn(1500 * scale));
    report("blocks", allocate(40000 * scale));
}
