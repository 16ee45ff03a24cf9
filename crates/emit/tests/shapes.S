# Shapes of code that copies treat each in a way of its own.
        .text
        .globl _start
        .type _start, @function
_start:                                 # calls, and a system call that does not return
        endbr64
        call loops
        call *table(%rip)
        call get_pc
        xor %edi, %edi
        mov $231, %eax
        syscall
        hlt
        .size _start, . - _start

        .type loops, @function
loops:                                  # a loop whose header is in the middle: the way back runs into it
        push %rbx
        mov $10, %ecx
        xor %eax, %eax
        jmp 2f
1:      add counter(%rip), %rax
        movq $1, counter(%rip)
2:      dec %ecx
        jns 1b
3:      add $1, %eax                    # a loop that jumps back
        cmp $100, %eax
        jb 3b
        pop %rbx
        ret
        .size loops, . - loops

        .type carry, @function
carry:                                  # a loop that carries a flag around
        clc
1:      adc (%rsi), %rax
        lea 8(%rsi), %rsi
        lea -1(%rcx), %rcx
        jrcxz 2f
        jmp 1b
2:      setc %al
        ret
        .size carry, . - carry

        .type counted, @function
counted:                                # branches without a long form
        mov $5, %ecx
1:      nop
        loop 1b
        jecxz 2f
        nop
2:      ret $16
        .size counted, . - counted

        .type choose, @function
choose:                                 # a jump table in a loop
        cmp $3, %edi
        ja 4f
        mov %edi, %edi
        lea cases(%rip), %rdx
        movslq (%rdx,%rdi,4), %rax
        add %rdx, %rax
        notrack jmp *%rax
.Lone:  mov $1, %eax
        ret
.Lagain:
        dec %edi
        jmp choose
.Lthree:
        mov $3, %eax
4:      ret
        .size choose, . - choose

        .type get_pc, @function
get_pc:                                 # a call of the next instruction
        call 1f
1:      pop %rax
        ret
        .size get_pc, . - get_pc

        .type operands, @function
operands:                               # indirect transfers with operands of all kinds
        push %rbp
        call *%rax
        call *8(%rsp)
        call *(%r12,%r13,8)
        call *%fs:0x10
        call *table+8(%rip)
        pop %rbp
        jmp *0x40(%r11)
        .size operands, . - operands

        .type tail, @function
tail:                                   # a jump to another function
        test %edi, %edi
        jz counted
        jmp loops
        .size tail, . - tail

        .type calls_system, @function
calls_system:                           # a system call with flags in use around it
        mov $39, %eax
        cmp $7, %edi
        syscall
        jb 1f
        neg %eax
1:      ret
        .size calls_system, . - calls_system

        .type odd, @function
odd:                                    # instructions that are left to the original
        mov %gs:0x28, %rax
        int3
        rdtsc
        rep stosb
        int $0x80
        mov %eax, %gs
        call *%gs:(%rax)
        ud2
        .size odd, . - odd

        .type flags_out, @function
flags_out:                              # returns a verdict in a flag
        cmp %rsi, %rdi
        ret
        .size flags_out, . - flags_out

        .type flags_user, @function
flags_user:
        call flags_out
        jb 1f
        xor %eax, %eax
1:      ret
        .size flags_user, . - flags_user

        .section .rodata
        .balign 4
cases:  .long .Lone - cases, .Lagain - cases, .Lthree - cases, .Lone - cases

        .data
        .balign 8
counter: .quad 0
table:  .quad choose, tail
