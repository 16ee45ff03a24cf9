/* Code made at run time: in pages writable and executable at once, rewritten while the program
 * runs; in pages made executable afterwards; and over a function of the program itself: with
 * "over", as anyone would; with "early", by system calls, before the program does anything else,
 * and once more in a child as soon as it exists. */
#include "check.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PAGE = 4096 };
typedef uint64_t function(uint64_t rounds);

/* mov rax, 1; mov rcx, rdi; 1: imul rax, rax, k; add rax, c; dec rcx; jnz 1b; ret */
static size_t assemble(unsigned char *code, uint32_t factor, uint32_t addend) {
    static const unsigned char template[] = {0x48, 0xc7, 0xc0, 1, 0, 0, 0, 0x48, 0x89, 0xf9, 0x48, 0x69, 0xc0, 0, 0, 0, 0,
                                             0x48, 0x05, 0,    0, 0, 0, 0x48, 0xff, 0xc9, 0x75, 0xee, 0xc3};
    memcpy(code, template, sizeof template);
    memcpy(code + 13, &factor, 4);
    memcpy(code + 19, &addend, 4);
    return sizeof template;
}

static uint64_t same_in_c(uint64_t rounds, uint64_t factor, uint64_t addend) {
    uint64_t value = 1;
    for (uint64_t i = 0; i < rounds; i++)
        value = value * factor + addend;
    return value;
}

static uint64_t call(void *code, uint64_t rounds) {
    __builtin___clear_cache((char *)code, (char *)code + PAGE);
    return ((function *)code)(rounds);
}

static uint64_t rewritten(unsigned rounds) {
    unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        assemble(page, i * 2 + 1, i);
        uint64_t result = call(page, 20000);
        CHECK_EQUAL(result, same_in_c(20000, i * 2 + 1, i));
        digest = mix(digest, result);
    }
    CHECK_EQUAL(munmap(page, PAGE), 0);
    return digest;
}

static uint64_t remapped(unsigned rounds) {
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        assemble(page, i * 6 + 1, 7);
        CHECK_EQUAL(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0);
        digest = mix(digest, call(page, 5000));
        CHECK_EQUAL(munmap(page, PAGE), 0);
    }
    return digest;
}

/* A function of the program itself is overwritten in place. */
static __attribute__((noinline, aligned(PAGE), section(".text.patched"))) uint64_t patched(uint64_t rounds) {
    uint64_t value = 1;
    for (uint64_t i = 0; i < rounds; i++)
        value = value * 3 + i;
    return value + busy(value, 1);
}

static uint64_t overwritten(unsigned rounds) {
    function *volatile target = patched;
    uint64_t digest = mix(0, target(500000));
    unsigned char *page = (unsigned char *)((uintptr_t)patched & -(uintptr_t)PAGE);
    CHECK_EQUAL(mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    for (unsigned i = 0; i < rounds; i++) {
        assemble((unsigned char *)patched, 5 + 2 * i, 9);
        uint64_t result = target(20000);
        CHECK_EQUAL(result, same_in_c(20000, 5 + 2 * i, 9));
        digest = mix(digest, result);
    }
    return digest;
}

static void overwrite_by_system_call(uint32_t factor) {
    uintptr_t page = (uintptr_t)patched & -(uintptr_t)PAGE;
    CHECK_EQUAL(syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE), 0);
    assemble((unsigned char *)patched, factor, 9);
    CHECK_EQUAL(syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC), 0);
}

static uint64_t check_overwritten(unsigned rounds, uint32_t factor) {
    function *volatile target = patched;
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t result = target(200000);
        CHECK_EQUAL(result, same_in_c(200000, factor, 9));
        digest = mix(digest, result);
    }
    return digest;
}

static uint64_t overwritten_early(unsigned rounds) {
    overwrite_by_system_call(5);
    uint64_t digest = check_overwritten(rounds, 5);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        overwrite_by_system_call(7);
        check_overwritten(rounds, 7);
        _exit(0);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    return mix(digest + 1, check_overwritten(rounds, 5));
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    if (argc > 2 && strcmp(argv[2], "early") == 0) {
        report("early", overwritten_early(100 * scale));
        return 0;
    }
    report("rewritten", rewritten(150 * scale));
    report("remapped", remapped(600 * scale));
    if (argc > 2)
        report("overwritten", overwritten(150 * scale));
}
