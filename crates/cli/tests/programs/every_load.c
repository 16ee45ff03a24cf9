// Loads of known values in every form that an instruction can have, as often as the second argument
// says. The loads of `every_form` are listed, in the order of their addresses, in `values.rs`.
#include <stdio.h>
#include <stdlib.h>

struct data {
    unsigned long words[4];
    unsigned pair[2];
    unsigned long others[6];
    void (*function)(void);
    const void *label;
    unsigned long room[2];
};

static struct data data __attribute__((aligned(64))) = {
    .words = {0x1122334455667788, 0x99aabbccddeeff00, 5, 77},
    .pair = {6, 9},
    .others = {0xa0a1a2a3a4a5a6a7, 2, 0x3ff8000000000000, 3, 4, 0},
};

void every_form(struct data *data, long rounds);
void do_nothing(void);
extern const void *const behind_jump;

__asm__(".text\n"
        ".globl do_nothing\n"
        ".type do_nothing, @function\n"
        "do_nothing: ret\n"
        ".size do_nothing, . - do_nothing\n"
        ".globl every_form\n"
        ".type every_form, @function\n"
        "every_form:\n"
        "    push %rbx\n"
        "    push %rbp\n"
        "    push %r12\n"
        "    push %r13\n"
        "    mov %rsi, %r12\n"
        "    mov 40(%rdi), %r10\n" // once
        "1:  mov (%rdi), %al\n"
        "    mov 1(%rdi), %bh\n"
        "    mov (%rdi), %dx\n"
        "    movsbw (%rdi), %dx\n"
        "    movsbl (%rdi), %edx\n"
        "    movzwl 2(%rdi), %edx\n"
        "    movslq 12(%rdi), %rdx\n"
        "    mov (%rdi), %rdx\n"
        "    add (%rdi), %edx\n"
        "    cmpb $1, 3(%rdi)\n"
        "    adc 16(%rdi), %rdx\n"
        "    testw $1, 4(%rdi)\n"
        "    cmovz 8(%rdi), %r8\n"
        "    imul 16(%rdi), %rdx\n"
        "    xorl $1, 32(%rdi)\n" // 6 and 7 in turn
        "    xor %r9d, %r9d\n"
        "    lock xaddl %r9d, 36(%rdi)\n"
        "    xchg %r10, 40(%rdi)\n"
        "    mov $1, %eax\n"
        "    lock cmpxchg %r11, 48(%rdi)\n" // does not find 1
        "    btl $1, 64(%rdi)\n"
        "    pushq 16(%rdi)\n"
        "    pop %rdx\n"
        "    lea (%rdi), %rsi\n"
        "    lodsb\n"
        "    mov %rdi, %r13\n"
        "    lea 104(%rdi), %rdi\n"
        "    lea 4(%r13), %rsi\n"
        "    movsl\n"
        "    mov %r13, %rdi\n"
        "    scasw\n"
        "    mov %r13, %rdi\n"
        "    movups 8(%rdi), %xmm0\n"
        "    movss 4(%rdi), %xmm1\n"
        "    pxor (%rdi), %xmm0\n"
        "    cvtsi2sdl 16(%rdi), %xmm2\n"
        "    fldl 56(%rdi)\n"
        "    fstp %st(0)\n"
        "    cmp seventy_seven(%rip), %edx\n"
        "    cmp %fs:0, %rdx\n" // its own address
        "    sub 64(%edi), %edx\n"
        "    call *88(%rdi)\n"
        "    test %rdi, %rdi\n"
        "    jz .Lbehind_jump\n"
        "    jmp *96(%rdi)\n"
        ".Lbehind_jump:\n"
        "    mov $0x1234, %ebp\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    leave\n"
        "    dec %r12\n"
        "    jnz 1b\n"
        "    pop %r13\n" // these once, too
        "    pop %r12\n"
        "    pop %rbp\n"
        "    pop %rbx\n"
        "    ret\n"
        ".size every_form, . - every_form\n"
        ".section .rodata\n"
        "seventy_seven: .long 77\n"
        ".balign 8\n"
        ".globl behind_jump\n"
        "behind_jump: .quad .Lbehind_jump\n"
        ".text\n");

int main(int argc, char **argv) {
    data.function = do_nothing;
    data.label = behind_jump;
    every_form(&data, argc > 2 ? atol(argv[2]) : 1000);
    printf("%lx %x %x\n", data.words[0], data.pair[0], data.pair[1]);
    return 0;
}
