//! Which instructions a copy executes as they are, which it replaces, and which it leaves to the
//! original.

use iced_x86::{Code, ConditionCode, Instruction, Mnemonic, Register};
use image::Svma;

use crate::asm::Condition;

/// What a copy does about an instruction that goes on to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The same.
    Copy,
    /// Pushes the original address of the next instruction: this is a call of it.
    PushNext,
    /// A system call, between two probes.
    SystemCall,
    /// Leaves.
    Leave,
}

/// What an indirect transfer does to the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StackChange {
    /// A call pushes this address.
    Push(Svma),
    /// A return drops this many bytes.
    Drop(i32),
    None,
}

pub(crate) fn body(insn: &Instruction) -> Body {
    match insn.code() {
        Code::Syscall => Body::SystemCall,
        Code::Call_rel32_64 => Body::PushNext,
        _ if must_leave(insn) => Body::Leave,
        _ => Body::Copy,
    }
}

/// Whether a copy cannot execute the instruction: it would see or change what the copy runs on
/// (`gs`), enters the kernel otherwise than by `syscall`, is part of a transaction, inhibits
/// interrupts, or faults in any case.
fn must_leave(insn: &Instruction) -> bool {
    uses_gs(insn) || insn.is_invalid() || insn.is_privileged() || leaves_by_name(insn)
}

fn uses_gs(insn: &Instruction) -> bool {
    let segment = |register| matches!(register, Register::GS | Register::SS);
    insn.segment_prefix() == Register::GS || segment(insn.op0_register()) || segment(insn.op1_register())
}

fn leaves_by_name(insn: &Instruction) -> bool {
    matches!(
        insn.mnemonic(),
        Mnemonic::Int
            | Mnemonic::Int1
            | Mnemonic::Int3
            | Mnemonic::Into
            | Mnemonic::Sysenter
            | Mnemonic::Call
            | Mnemonic::In
            | Mnemonic::Insb
            | Mnemonic::Insd
            | Mnemonic::Insw
            | Mnemonic::Out
            | Mnemonic::Outsb
            | Mnemonic::Outsd
            | Mnemonic::Outsw
            | Mnemonic::Lgs
            | Mnemonic::Lss
            | Mnemonic::Rdgsbase
            | Mnemonic::Wrgsbase
            | Mnemonic::Swapgs
            | Mnemonic::Xabort
            | Mnemonic::Xbegin
            | Mnemonic::Xend
            | Mnemonic::Ud0
            | Mnemonic::Ud1
            | Mnemonic::Ud2
            | Mnemonic::Hlt
    )
}

/// A conditional jump to a fixed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// On flags.
    Flags(Condition),
    /// On a counter, with an 8-bit displacement only.
    Counter,
}

/// How a conditional jump can be written; `None` for a form that copies do not execute.
pub(crate) fn branch(insn: &Instruction) -> Option<Branch> {
    if insn.is_jcc_short_or_near() && insn.op0_kind() == iced_x86::OpKind::NearBranch64 {
        return match insn.condition_code() {
            ConditionCode::None => None,
            condition => Some(Branch::Flags(Condition(condition as u8 - 1))),
        };
    }
    let is_counter = (insn.is_loop() || insn.is_loopcc() || insn.is_jcx_short())
        && insn.op0_kind() == iced_x86::OpKind::NearBranch64;
    is_counter.then_some(Branch::Counter)
}

pub(crate) fn is_plain_jump(insn: &Instruction) -> bool {
    matches!(insn.code(), Code::Jmp_rel8_64 | Code::Jmp_rel32_64)
}

pub(crate) fn is_plain_call(insn: &Instruction) -> bool {
    insn.code() == Code::Call_rel32_64
}

/// Bytes that a return takes off the stack, its address included; `None` for a form that copies do
/// not execute.
pub(crate) fn returned_bytes(insn: &Instruction) -> Option<i32> {
    match insn.code() {
        Code::Retnq => Some(8),
        Code::Retnq_imm16 => Some(8 + i32::from(insn.immediate16())),
        _ => None,
    }
}

/// Whether an indirect jump or call is of the only kind that copies execute.
pub(crate) fn is_plain_indirect(insn: &Instruction) -> bool {
    matches!(insn.code(), Code::Jmp_rm64 | Code::Call_rm64)
}
