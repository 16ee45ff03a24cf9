# Moves to whole registers: with flags dead and alive, with registers to spare and without, at the end of a block; and other loads.
        .text
        .type all_alive, @function
all_alive:                              # every register is needed behind the load, flags too: by code that cannot be seen
        cmp %rsi, %rdi
        mov (%rdi), %rcx
        jz 1f
        cmp %rsi, %rdi
        mov (%rdi), %rbx
        jz 1f
        cmp %rsi, %rdi
        mov (%rdi), %r13
1:      jmp *(%rsp)

        .type flags_dead, @function
flags_dead:
        mov (%rdi), %eax                # a register that is overwritten below can be used
        movzbl 1(%rdi), %r9d
        movswq %fs:8, %r10
        movslq loaded_word(%rip), %r12
        mov %rsp, %r11
        mov (%rdi), %rsp
        mov %r11, %rsp
        mov (%rdi), %rcx
        mov %r8, (%rdi)
        xor %edx, %edx
        mov (%rsi), %rdx
        call all_alive                  # needs all registers, but no flags
        mov (%rsi), %rcx
        call all_alive
        ret

        .type ends_block, @function
ends_block:
        mov $5, %eax
2:      dec %eax
        jz 3f
        mov (%rdi), %rdi                # the next instruction starts a block
3:      test %eax, %eax
        mov 8(%rdi), %rcx
4:      jnz 2b
        jmp 4b

        .type other_loads, @function
other_loads:
        mov (%rdi), %al
        mov (%rdi), %ax
        add (%rdi), %eax
        movups (%rdi), %xmm0
        pop %rcx
        push %rcx
        lea (%rdi), %rax
        mov %rdi, %rax
        ret

        .section .rodata
loaded_word:  .long 7
        .text
