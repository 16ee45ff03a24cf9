# Shapes of code that copies with checks treat each in a way of its own. Goes with shapes.S.
        .text
        .type nested, @function
nested:                                 # a boring loop in one that has more blocks and accesses
        mov $3, %ecx
1:      mov $4, %edx
2:      add (%rdi), %rax
        dec %edx
        jnz 2b
        mov %rax, (%rsi)
        test $1, %al
        jz 3f
        add 8(%rdi), %rax
3:      mov 16(%rdi), %r8
        mov %r8, 8(%rsi)
        test $2, %al
        jz 4f
        add 24(%rdi), %rax
        nopw 0(%rax,%rax,1)
4:      dec %ecx
        jnz 1b
        ret
        .size nested, . - nested

        .type carries, @function
carries:                                # a loop that passes a flag on, with registers to spare
        xor %eax, %eax
1:      adc (%rdi), %rax
        lea 8(%rdi), %rdi
        dec %ecx
        jnz 1b
        setc %al
        ret
        .size carries, . - carries

        .type recurses, @function
recurses:                               # calls itself, and goes on in itself
        test %edi, %edi
        jz 1f
        dec %edi
        call recurses
        dec %esi
        js recurses
1:      ret
        .size recurses, . - recurses

        .type ping, @function
ping:                                   # two that call each other, and one that they leave to
        dec %edi
        js leaf
        call pong
        ret
        .size ping, . - ping
        .type pong, @function
pong:    dec %edi
        js leaf
        call ping
        ret
        .size pong, . - pong
        .type leaf, @function
leaf:   mov $1, %eax
        ret
        .size leaf, . - leaf

        .type waits, @function
waits:                                  # a loop to which a call returns
        push %rbx
        mov $5, %ebx
1:      call leaf
2:      dec %ebx
        js 3f
        test $1, %bl
        jnz 2b
        jmp 1b
3:      pop %rbx
        ret
        .size waits, . - waits

        .type turns, @function
turns:                                  # a loop that a function starts with, and that only calls
        call leaf
        jmp turns
        .size turns, . - turns

        .type crowded, @function
crowded:                                # a carry goes round, and every register is needed
        clc
1:      adc (%rsi), %rax
        lea 8(%rsi), %rsi
        lea -1(%rcx), %rcx
        jrcxz 2f
        jmp 1b
2:      adc %rax, %rbx
        adc %rdx, %rbx
        adc %rdi, %rbx
        adc %rbp, %rbx
        adc %r8, %rbx
        adc %r9, %rbx
        adc %r10, %rbx
        adc %r11, %rbx
        adc %r12, %rbx
        adc %r13, %rbx
        adc %r14, %rbx
        adc %r15, %rbx
        mov %rbx, (%rsi)
        ret
        .size crowded, . - crowded

        .type entered, @function
entered:                                # code that others come to in its middle, in a loop
        xor %eax, %eax
inside: add (%rdi), %rax
        add $8, %rdi
        dec %ecx
        jnz inside
        ret
        .size entered, . - entered
        .type enters, @function
enters: mov (%rsi), %rax
        jmp inside
        .size enters, . - enters
