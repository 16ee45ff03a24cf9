# A function whose landing pad lies in another section, so that its table has to state where landing pads are counted from.
        .text
        .globl  split
        .type   split, @function
split:
        .cfi_startproc
        .cfi_personality 0x1b, personality
        .cfi_lsda 0x1b, table
.Lfirst:
        nop
        nop
.Lsecond:
        nop
        nop
        nop
.Lend:
        ret
        .cfi_endproc
        .size   split, . - split

        .type   personality, @function
personality:
        ret
        .size   personality, . - personality

        .section .text.other, "ax", @progbits
.Lother:
        nop
        .type   pad, @function
pad:
        ret
        .size   pad, . - pad

        .section .gcc_except_table, "a", @progbits
        .p2align 2
table:
        .byte   0x1b                    # LPStart: relative to its place, 4 bytes
        .long   .Lother - .
        .byte   0xff                    # no types
        .byte   0x01                    # call sites in LEB128
        .uleb128 .Lsites_end - .Lsites
.Lsites:
        .uleb128 .Lfirst - split
        .uleb128 .Lsecond - .Lfirst
        .uleb128 pad - .Lother
        .uleb128 1
        .uleb128 .Lsecond - split
        .uleb128 .Lend - .Lsecond
        .uleb128 0
        .uleb128 0
.Lsites_end:
