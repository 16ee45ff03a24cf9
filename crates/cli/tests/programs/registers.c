/* Holds values in every general register and in the red zone below the stack pointer over long
 * loops with branches: whatever interrupts the loop must leave all of it alone. */
#include "check.h"

/* 0 after `rounds` rounds in which nothing changed, else 1. The counter, too, is in the red
 * zone. */
extern int hold(uint64_t rounds);

__asm__(".text\n"
        ".macro on_all what\n"
        ".set value, 0x11111111\n"
        ".irp register, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
        "  \\what \\register\n"
        "  .set value, value + 0x00910305\n"
        ".endr\n"
        ".endm\n"
        ".macro fill register\n"
        "  mov $value, %\\register\n"
        ".endm\n"
        ".macro verify register\n"
        "  cmp $value, %\\register\n"
        "  jne 2f\n"
        ".endm\n"
        ".type hold, @function\n"
        "hold:\n"
        "  .cfi_startproc\n"
        "  push %rbx; .cfi_adjust_cfa_offset 8\n"
        "  push %rbp; .cfi_adjust_cfa_offset 8\n"
        "  push %r12; .cfi_adjust_cfa_offset 8\n"
        "  push %r13; .cfi_adjust_cfa_offset 8\n"
        "  push %r14; .cfi_adjust_cfa_offset 8\n"
        "  push %r15; .cfi_adjust_cfa_offset 8\n"
        "  mov %rdi, -8(%rsp)\n"
        "  .set slot, 2\n"
        "  .rept 15\n"
        "  movl $0x1000 + slot, -8*slot(%rsp)\n"
        "  movl $0x2000 + slot, 4-8*slot(%rsp)\n"
        "  .set slot, slot + 1\n"
        "  .endr\n"
        "  on_all fill\n"
        "1:\n"
        "  on_all verify\n"
        "  .set slot, 2\n"
        "  .rept 15\n"
        "  cmpl $0x1000 + slot, -8*slot(%rsp)\n"
        "  jne 2f\n"
        "  cmpl $0x2000 + slot, 4-8*slot(%rsp)\n"
        "  jne 2f\n"
        "  .set slot, slot + 1\n"
        "  .endr\n"
        "  decq -8(%rsp)\n"
        "  jnz 1b\n"
        "  xor %eax, %eax\n"
        "  jmp 3f\n"
        "2: mov $1, %eax\n"
        "3:\n"
        "  pop %r15; .cfi_adjust_cfa_offset -8\n"
        "  pop %r14; .cfi_adjust_cfa_offset -8\n"
        "  pop %r13; .cfi_adjust_cfa_offset -8\n"
        "  pop %r12; .cfi_adjust_cfa_offset -8\n"
        "  pop %rbp; .cfi_adjust_cfa_offset -8\n"
        "  pop %rbx; .cfi_adjust_cfa_offset -8\n"
        "  ret\n"
        "  .cfi_endproc\n"
        "  .size hold, .-hold\n");

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    for (unsigned i = 0; i < 10 * scale; i++)
        CHECK_EQUAL(hold(200000), 0);
    printf("every register kept its value\n");
}
