/* Control comes by addresses that the program keeps: to labels of an interpreter whose code is
 * addresses, one of which is also run into from the one before; and to a handler behind padding,
 * to which no jump leads, as those of ocamlopt. */
#include "check.h"

enum { ROUNDS = 2000 };

int with_handler(int throws);

__asm__(".text\n"
        ".globl with_handler\n.type with_handler, @function\nwith_handler: .cfi_startproc\n"
        " push %rbx\n .cfi_adjust_cfa_offset 8\n mov %edi, %ebx\n lea 2f(%rip), %rax\n push %rax\n .cfi_adjust_cfa_offset 8\n"
        " mov %rsp, %rsi\n call throw_if\n add $8, %rsp\n .cfi_adjust_cfa_offset -8\n xor %eax, %eax\n jmp 3f\n"
        " .p2align 5\n"
        "2: call handled\n mov $1, %eax\n test %ebx, %ebx\n jne 3f\n mov $2, %eax\n"
        "3: pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size with_handler, . - with_handler\n"
        ".globl throw_if\n.type throw_if, @function\nthrow_if: .cfi_startproc\n"
        " test %edi, %edi\n jz 1f\n mov %rsi, %rsp\n1: ret\n .cfi_endproc\n.size throw_if, . - throw_if\n");

__attribute__((noinline)) void handled(void) {
    __asm__ volatile("");
}

__attribute__((noinline)) void doubled(void) {
    __asm__ volatile("");
}

__attribute__((noinline)) void stepped(void) {
    __asm__ volatile("");
}

static __attribute__((noinline)) uint64_t run(void *const *next, void *const **labels) {
    static void *const all[] = {&&twice, &&step, &&halt};
    uint64_t total = 1;
    if (labels) {
        *labels = all;
        return 0;
    }
    goto *(*next++);
twice:
    total *= 2;
    doubled();
    __asm__ volatile("" : "+r"(total));
step:
    total += 1;
    stepped();
    goto *(*next++);
halt:
    return total;
}

int main(void) {
    void *const *labels;
    run(NULL, &labels);
    void *code[] = {labels[0], labels[1], labels[1], labels[0], labels[2]};
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(run(code, NULL) == 11);
        CHECK(with_handler(i & 1) == (i & 1));
    }
    puts("done");
    return 0;
}
