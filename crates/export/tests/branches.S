# A loop whose likely branch is taken, and which calls a local function. Every block's first and last instruction is an absolute symbol,
# as an offset from its function, so that a test can describe the blocks without a disassembler.

    .text
    .globl main
    .type main, @function
main:
    .cfi_startproc
    pushq %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    pushq %r12
    .cfi_def_cfa_offset 24
    .cfi_offset %r12, -24
    xorl %r12d, %r12d
.Lm0_last:
    movl $1000, %ebx
.Lm1:
    movl %ebx, %edi
.Lm1_last:
    call step
.Lm2:
    testl %eax, %eax
.Lm2_last:
    jne .Lm4
.Lm3:
    addl $3, %r12d
    imull $5, %r12d, %r12d
    andl $1023, %r12d
.Lm3_last:
    jmp .Lm5
.Lm4:
.Lm4_last:
    addl $1, %r12d
.Lm5:
    decl %ebx
.Lm5_last:
    jne .Lm1
.Lm6:
    movl %r12d, %eax
    andl $127, %eax
    popq %r12
    .cfi_def_cfa_offset 16
    popq %rbx
    .cfi_def_cfa_offset 8
.Lm6_last:
    ret
    .cfi_endproc
.Lm7:
    .size main, . - main

    .type step, @function
step:
    .cfi_startproc
    movl %edi, %eax
    andl $7, %eax
.Lstep_last:
    ret
    .cfi_endproc
.Lstep_end:
    .size step, . - step

    .set m0_last, .Lm0_last - main
    .set m1, .Lm1 - main
    .set m1_last, .Lm1_last - main
    .set m2, .Lm2 - main
    .set m2_last, .Lm2_last - main
    .set m3, .Lm3 - main
    .set m3_last, .Lm3_last - main
    .set m4, .Lm4 - main
    .set m4_last, .Lm4_last - main
    .set m5, .Lm5 - main
    .set m5_last, .Lm5_last - main
    .set m6, .Lm6 - main
    .set m6_last, .Lm6_last - main
    .set m7, .Lm7 - main
    .set step_last, .Lstep_last - step
    .set step_end, .Lstep_end - step

    .section .note.GNU-stack, "", @progbits
