# What is noted before instructions: arguments, addresses, targets, outcomes and method tables, with flags dead and alive.
        .text
        .type takes_arguments, @function
takes_arguments:                        # rdi, rsi and r9 are read; rdx is overwritten, rcx comes too late
        mov %rdi, %rax
        xor %edx, %edx
        add %rsi, %rdx
        cmp %r9, %rax
        jz 1f
        mov %rcx, %rax
1:      ret

        .type goes_round, @function
goes_round:                             # the entry is a loop, too: no arguments
        dec %rdi
        jnz goes_round
        ret

        .type calls, @function
calls:
        mov (%rdi), %rcx
        call *8(%rcx)                   # from a method table
        mov (%rbx), %rax
        call *%rax
        call *%rcx
        call *called(%rip)
        call *called(,%rbx,8)
        call *16(%rsp)
        call *%fs:16
        ret

        .type jumps, @function
jumps:
        cmp %rsi, %rdi
        jz 2f
        jmp *(%rsi,%rdi,8)
2:      jmp *called(%rip)               # goes where the loader says

        .type branches, @function
branches:                               # all registers that the probe uses are alive
        cmp %rax, %rcx
        jbe 1f
        jg elsewhere                    # a block that is nothing else, to another function
1:      loop 1b                         # a counter decides: these are not noted
        jrcxz 1b
        ret

        .type elsewhere, @function
elsewhere:
        jo branches
        ret

        .type addresses, @function
addresses:
        cmp %rsi, %rdi
        mov %rax, (%rdi)
        mov %rcx, -8(%rsp,%rcx,4)
        mov %r8, called(%rip)
        mov called(,%r9,2), %rcx
        mov 0x1234, %eax
        add (%r12), %r13
        add (%r13), %r12
        movups (%rax), %xmm0
        mov %fs:8, %rax                 # these have none
        lea (%rdi), %rax
        nopl (%rax)
        push (%rax)
        pop (%rax)
        xor %eax, %eax
        mov %rcx, (%rcx)
        mov $39, %eax
        syscall
        mov (%rax), %rdx                # everything is needed behind a system call
        jmp *(%rdx)

        .section .data
called: .quad calls
        .text
