# Accesses to memory in all the ways that instructions make them.
        .text
        .type accesses, @function
accesses:
        push %rbp
        mov %rsp, %rbp
        push %rbx
        mov (%rdi), %rax
        mov %rax, 8(%rdi,%rsi,4)
        add $1, (%rdi)
        cmp %rax, 16(%rdi)
        mov 24(%rdi), %rcx              # flags are alive
        mov %rcx, 32(%rdi)
        jz 1f
        movups %xmm0, 15(%rdi)
        vmovdqu (%rdi), %ymm0
        mov word(%rip), %edx
        lea word(%rip), %rdx
        prefetcht0 (%rdi)
        mov %fs:0x28, %rax
        mov (%edi), %eax
        movsb
        stosq
        rep movsb
        pushq (%rdi)
        popq 8(%rsp)
        popq (%rdi)
        pushf
        popf
        call *16(%rdi)
        push $1
        pop %rcx
        vpgatherdd %ymm1, (%rdi,%ymm2,4), %ymm3
        cmpxchg %rcx, (%rdi)
        xlatb
        fxsave (%rdi)
1:      pop %rbx
        leave
        ret $8
        .size accesses, . - accesses
        .type starts, @function
starts: mov (%rdi), %rax
        test %rax, %rax
        jz 2f
        call accesses
2:      jmp *(%rdi)
        .size starts, . - starts
        .data
word:   .long 1
