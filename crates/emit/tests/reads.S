# What instructions read otherwise than by a move to a whole register: each form once, with flags dead and alive, and with registers to spare and without.
        .text
        .type parts, @function
parts:                                  # of registers, and of what is in memory
        mov (%rdi), %al
        mov 1(%rdi), %bh
        mov -2(%rdi,%rsi,2), %r9w
        movsbw 3(%rdi), %dx
        movzbw 200(%rdi), %r12w
        movabs 0x601000, %eax           # has no register, and no ModRM either
        mov 0x601000, %ax
        ret

        .type reads_operands, @function
reads_operands:                               # flags are dead, then alive
        add (%rdi), %eax
        sub 1(%rsi), %r8b
        adc (%rdi), %cx
        sbb 8(%r13), %rbx
        and read_word(%rip), %r14d
        cmp %rax, (%r12)
        setz %al
        cmpb $5, 4(%rdi,%rbp)
        cmovz (%rdi), %rbx
        cmovnz 8(%rsp), %r15w
        setc %bl
        testl $1, (%rcx)
        jz 1f
        imul (%rdi), %rax
        imul $100, 8(%rdi), %ecx
        mull (%rdi)
        divq (%rsi)
        popcnt (%rdi), %rcx
        movbe (%rdi), %eax
        btl $3, (%rdi)
        movslq %fs:8, %rcx              # by the move
        cmp %fs:8, %rax
        xor %fs:(%rdi), %rcx
        add (%edi,%esi,4), %eax
        add -8(%ebx), %al
        addr32 add 0x1234, %eax
1:      ret $16

        .type changes, @function
changes:                                # read, and write what they have read
        incl (%rdi)
        addq $5, (%rsi)
        notb 7(%rdi)
        shlw $3, read_word(%rip)
        xchg %rax, (%rdi)
        xadd %ecx, (%rsi)
        lock decq (%rdi)
        lock cmpxchg %rbx, (%rdi)
        lock cmpxchg16b (%r8)
        btsl $7, (%rdi)
        jmp *read_table(%rip)

        .type stack, @function
stack:
        push (%rdi)
        push 8(%rsp)
        pop (%rsi)
        pop %rcx
        pop %bx
        popfq
        call *8(%rbx)
        call *%fs:16
        leave
        ret

        .type vectors, @function
vectors:
        movups (%rdi), %xmm0
        movss (%rdi), %xmm1
        movsd 8(%rsi), %xmm9
        movq (%rdi), %xmm2
        movhps (%rdi), %xmm3
        pinsrw $1, (%rdi), %xmm4
        pinsrb $1, (%rdi), %xmm4
        paddd (%rdi), %xmm5
        cvtsi2sdq (%rdi), %xmm6
        vpxor read_word(%rip), %ymm7, %ymm8
        vbroadcastss (%rdi), %ymm1
        vpaddd 64(%rdi), %zmm1, %zmm2   # a displacement in steps of 64
        vaddps 4(%rdi){1to16}, %zmm1, %zmm2
        fldt (%rdi)
        flds (%rdi)
        fildll (%rsi)
        ldmxcsr (%rdi)
        jmp *(%rdi,%rax,8)

        .type strings, @function
strings:
        lodsb
        lodsq
        movsl
        movsq
        scasb
        scasw
        lodsl %fs:(%rsi)
        ret

        .type all_are_needed, @function
all_are_needed:                         # behind these, in code that cannot be seen, with flags and without
        cmp %rsi, %rdi
        cmp (%rdi), %rcx
        mov (%rax), %cl
        jmp *(%rsp)

        .type not_read, @function
not_read:                               # these are not noted, and counted: two reads by cmps
        rep movsb
        repne scasb
        cmpsb
        xlat
        bt %rcx, (%rdi)
        btsq %rcx, (%rdi)
        vmaskmovps (%rdi), %ymm0, %ymm1
        vpgatherdd %ymm0, (%rdi,%ymm1,4), %ymm2
        vmovups (%rdi), %zmm0{%k1}
        fxrstor (%rdi)
        xrstor (%rdi)
        movabs 0x123456789abcdef0, %al
        ret

        .type leaves, @function
leaves:                                 # the original executes these
        add %gs:8, %eax
        jz 1f
1:      add 0x12345678(%eip), %eax
        jz 2f
2:      ret

        .type no_reads, @function
no_reads:                               # these read nothing
        mov %rax, (%rdi)
        lea (%rdi), %rax
        nopw (%rdi)
        prefetcht0 (%rdi)
        setz (%rdi)
        push %rax
        stosb
        jmp no_reads

        .section .data
read_word: .quad 7, 0, 0, 0
read_table: .quad parts
        .text
