/* A function jumps out of code made at run time, so that main goes on natively, below a function
 * that has not returned but is gone. What main then calls is a long loop of one block. */
#include "check.h"

#include <setjmp.h>
#include <sys/mman.h>

enum { ROUNDS = 400000 };

static jmp_buf back;

void spin(int rounds);

__asm__(".text\n"
        ".globl spin\n.type spin, @function\nspin: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n mov %edi, %ebx\n"
        "1:\n .rept 1000\n imul %rcx, %rcx\n .endr\n call leaf\n dec %ebx\n jnz 1b\n"
        " pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size spin, . - spin\n");

__attribute__((noinline)) void leaf(void) {
    __asm__ volatile("");
}

static __attribute__((noinline)) void hop(void) {
    longjmp(back, 1);
}

__attribute__((noinline)) void leaver(void (*jump_to)(void (*)(void))) {
    jump_to(hop);
    __asm__ volatile("");
}

int main(void) {
    static const unsigned char jump[] = {0xff, 0xe7}; /* jmp *%rdi */
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, jump, sizeof jump);
    __builtin___clear_cache((char *)page, (char *)page + sizeof jump);
    if (setjmp(back) == 0)
        leaver((void (*)(void (*)(void)))page);
    spin(ROUNDS);
    puts("done");
    return 0;
}
