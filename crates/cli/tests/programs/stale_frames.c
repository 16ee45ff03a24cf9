/* `second` is called natively, by code made at run time, and calls `third` with the stack
 * pointer with which `first` has called `leaf` before. `third` comes into its copy when a
 * function of strobe's returns to it, so its return leads into the copy of `second`, for which
 * nobody has left anything. What `first` has left is none of its paths: counted in the cells of
 * `second` it would be one of `victim`, which never runs. */
#include "check.h"

#include <signal.h>
#include <sys/mman.h>

void first(unsigned bits);
void second(void);

__asm__(".text\n"
        ".macro step bit\n test $1 << \\bit, %edi\n jz 1f\n nop\n1:\n.endm\n"
        ".macro steps\n step 0\n step 1\n step 2\n step 3\n step 4\n step 5\n step 6\n step 7\n step 8\n.endm\n"
        ".globl first\n.type first, @function\nfirst: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n steps\n call leaf\n pop %rbx\n"
        " .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size first, . - first\n"
        ".globl second\n.type second, @function\nsecond: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n call third\n pop %rbx\n"
        " .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size second, . - second\n"
        ".globl victim\n.type victim, @function\nvictim: .cfi_startproc\n steps\n ret\n .cfi_endproc\n.size victim, . - victim\n");

__attribute__((noinline)) void leaf(void) {
    __asm__ volatile("");
}

__attribute__((noinline)) void third(void) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    __asm__ volatile("");
}

int main(void) {
    static const unsigned char jump[] = {0xff, 0xe7}; /* jmp *%rdi */
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, jump, sizeof jump);
    __builtin___clear_cache((char *)page, (char *)page + sizeof jump);
    for (unsigned bits = 0; bits < 512; bits++) {
        first(bits);
        ((void (*)(void (*)(void)))page)(second);
    }
    puts("done");
    return 0;
}
