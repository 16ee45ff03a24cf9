//! Copies that were written in the belief that something is dead which is not: the verifier, which
//! works that out by itself, refuses them.
//!
//! Nothing in `emit` can be told to be wrong. It is handed another program instead, in which one
//! instruction overwrites what the same instruction of the true program reads: its liveness, or as
//! a whole where a function without a copy is all that differs. The copy is then right for that
//! program, and the verifier says so; it is wrong for the true one.

use emit::{Counting, Events, ModuleCopy, Options, Probe};
use flow::order::Order;
use flow::{ModuleFlow, Sequential, liveness};
use image::Image;

use crate::fixture::{assemble, parse};

/// A program, true and as `emit` is told. Both instructions have the same length.
struct Lie {
    source: &'static str,
    truth: &'static str,
    lie: &'static str,
}

/// Stands for the instruction.
const PLACE: &str = "INSTRUCTION";

impl Lie {
    /// Returns the true program, and the other one.
    fn files(&self) -> [Vec<u8>; 2] {
        let files = [self.truth, self.lie].map(|insn| assemble(&self.source.replace(PLACE, insn)));
        assert_eq!(files[0].len(), files[1].len());
        files
    }
}

fn translate(image: &Image<'_>, flow: &ModuleFlow, probe: Probe) -> ModuleCopy {
    emit::translate(image, flow, Options { cluster: 1, probe, events: Events::NONE }, &Sequential)
}

/// Gives functions the liveness that they would have in another program.
fn believe(flow: &mut ModuleFlow, other: &Image<'_>) {
    for function in &mut flow.functions {
        let conventions = function.liveness.conventions().clone();
        let order = Order::new(&function.cfg.graph);
        function.liveness = liveness::Liveness::new(other, &function.cfg, &order, conventions);
    }
}

/// Translates with the liveness of the other program.
#[track_caller]
fn lie_about_liveness(lie: &Lie, probe: Probe) {
    let [truth, other] = lie.files();
    let (image, other) = (parse(&truth), parse(&other));
    let mut flow = flow::analyze(&image, &Sequential);
    let right = translate(&image, &flow, probe);
    assert_eq!(emit_verify::verify(&image, &flow, &right), Ok(()), "{probe:?}");

    believe(&mut flow, &other);
    let wrong = translate(&image, &flow, probe);
    assert!(right != wrong, "{probe:?}: emit makes no use of what it believes");
    // The lie is still in what the verifier is given.
    assert!(emit_verify::verify(&image, &flow, &wrong).is_err(), "{probe:?}");
    assert_eq!(emit_verify::verify(&image, &flow, &right), Ok(()), "{probe:?}: the verifier believes it, too");
}

#[test]
fn a_register_that_a_block_reads() {
    let lie = Lie {
        source: "
                .globl _start
        _start: mov %rdi, %rax
                test %rsi, %rsi
                jz 1f
                inc %rsi
        1:      INSTRUCTION
                ret
        ",
        truth: "mov %rax, %rbx",
        lie: "mov %rbx, %rax",
    };
    lie_about_liveness(&lie, Probe::Trace);
}

/// A loop that passes the carry from one turn to the next, where something must be counted.
#[test]
fn flags_that_a_block_reads() {
    let lie = Lie {
        source: "
                .globl _start
        _start: clc
        1:      INSTRUCTION
                lea 8(%rsi), %rsi
                lea -1(%rcx), %rcx
                jrcxz 2f
                jmp 1b
        2:      ret
        ",
        truth: "adc (%rsi), %rax",
        lie: "add (%rsi), %rax",
    };
    for counting in [Counting::Blocks, Counting::Paths, Counting::CONTEXT_PATHS] {
        lie_about_liveness(&lie, Probe::Exact(counting));
    }
}

/// Between the functions of a module, by what they are seen to read: the last of them restarts, so
/// that it has no copy.
#[test]
fn a_register_that_a_callee_of_a_callee_reads() {
    let lie = Lie {
        source: "
                .globl _start
                .type _start, @function
        _start: mov %rdi, %rcx
                call middle
                mov $60, %eax
                syscall
                hlt
                .size _start, . - _start
                .type middle, @function
        middle: .cfi_startproc
                test %rsi, %rsi
                jz 1f
                inc %rsi
        1:      call last
                ret
                .cfi_endproc
                .size middle, . - middle
                .type last, @function
        last:   .cfi_startproc
                INSTRUCTION
        2:      mov %rbx, (%rsi)
        3:      mov $1, %eax
                ret
        4:      jmp 2b
                .cfi_endproc
                .size last, . - last
                .section __rseq_cs, \"aw\"
                .balign 32
                .long 0, 0
                .quad 2b, 3b - 2b, 4b
        ",
        truth: "mov %rcx, %rbx",
        lie: "mov %rbx, %rcx",
    };
    let [truth, other] = lie.files();
    let (image, other) = (parse(&truth), parse(&other));
    let flow = flow::analyze(&image, &Sequential);
    for counting in [Counting::Paths, Counting::CONTEXT_PATHS] {
        let probe = Probe::Exact(counting);
        let (right, wrong) = (translate(&image, &flow, probe), translate(&other, &flow, probe));
        assert_eq!(emit_verify::verify(&image, &flow, &right), Ok(()), "{counting:?}");
        assert_eq!(emit_verify::verify(&other, &flow, &wrong), Ok(()), "{counting:?}: right for the other program");
        assert!(right != wrong, "{counting:?}: emit makes no use of what it believes");
        assert!(emit_verify::verify(&image, &flow, &wrong).is_err(), "{counting:?}");
    }
}
