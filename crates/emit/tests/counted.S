# Shapes of code that copies which count treat each in a way of its own. Goes with shapes.S.
        .text
        .macro branches number          # this doubles the paths, so often
        .rept \number
        test $1, %dil
        jz 1f
        inc %ecx
1:      shr %edi
        .endr
        .endm

        .macro jumps name, number       # two jumps through one table, which leads back and forward: what is done depends on the jump
        .type \name, @function
\name:  push %rbx
        branches \number
.Lback_\name:
        call get_pc
        cmp $2, %esi
        ja 3f
        lea .Ltable_\name(%rip), %rdx
        movslq (%rdx,%rsi,4), %rax
        add %rdx, %rax
        test %ebx, %ebx
        jz 2f
        notrack jmp *%rax
2:      inc %ebx
        cmp $2, %esi
        ja 3f
        lea .Ltable_\name(%rip), %rdx
        movslq (%rdx,%rsi,4), %rax
        add %rdx, %rax
        notrack jmp *%rax
.Lone_\name:
        mov $1, %eax
3:      pop %rbx
        ret
.Ltwo_\name:
        mov $2, %eax
        pop %rbx
        jmp *%rax
        .size \name, . - \name
        .section .rodata
        .balign 4
.Ltable_\name:
        .long .Lone_\name - .Ltable_\name, .Lback_\name - .Ltable_\name, .Ltwo_\name - .Ltable_\name
        .text
        .endm

        jumps few, 1
        jumps many, 7

        .type ends, @function
ends:                                   # a conditional jump out of a function with too many paths for cells, and a call that does not return
        branches 10
        test %edi, %edi
        jz few
        call stops
        .size ends, . - ends

        .type stops, @function
stops:  ud2
        .size stops, . - stops
