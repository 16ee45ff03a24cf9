//! What one instruction does to the program counter.
//!
//! iced's [`FlowControl`] answers a nearby question; this module settles the cases where a profiler
//! of user-space code needs another answer: `syscall` is not a call, `int3` and `int n` come back,
//! `hlt` does not, `xbegin` can branch, and a call of the next instruction (to learn the program
//! counter) is no call at all.

use iced_x86::{Code, FlowControl, Instruction};
use image::Svma;

/// Where control can go after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Only to the next instruction.
    Next,
    /// To a fixed address.
    Jump(Svma),
    /// To a fixed address or to the next instruction.
    Branch(Svma),
    /// To a computed address.
    IndirectJump,
    /// Into a function at a fixed address, and usually back.
    Call(Svma),
    /// Into a function at a computed address, and usually back.
    IndirectCall,
    /// To the caller.
    Return,
    /// Nowhere: the instruction faults, or its bytes are not an instruction.
    Trap,
}

impl Transfer {
    /// Classifies a decoded instruction.
    #[must_use]
    pub fn of(insn: &Instruction) -> Transfer {
        match insn.flow_control() {
            FlowControl::Next if insn.code() == Code::Hlt => Transfer::Trap,
            FlowControl::Next | FlowControl::Interrupt => Transfer::Next,
            FlowControl::UnconditionalBranch => Transfer::Jump(direct_target(insn)),
            FlowControl::ConditionalBranch => Transfer::Branch(direct_target(insn)),
            FlowControl::XbeginXabortXend if matches!(insn.code(), Code::Xbegin_rel16 | Code::Xbegin_rel32) => {
                Transfer::Branch(direct_target(insn))
            }
            FlowControl::XbeginXabortXend => Transfer::Next,
            FlowControl::Call if !insn.is_call_near() => Transfer::Next,
            FlowControl::Call if insn.near_branch_target() == insn.next_ip() => Transfer::Next,
            FlowControl::Call => Transfer::Call(direct_target(insn)),
            FlowControl::IndirectBranch => Transfer::IndirectJump,
            FlowControl::IndirectCall => Transfer::IndirectCall,
            FlowControl::Return => Transfer::Return,
            FlowControl::Exception => Transfer::Trap,
        }
    }

    /// Whether a basic block ends here.
    ///
    /// Calls end blocks: their return site is where a callee comes back, where an exception does
    /// not, and where a copy of the code must be enterable.
    #[must_use]
    pub fn ends_block(self) -> bool {
        self != Transfer::Next
    }

    /// Whether this is a call of any kind.
    #[must_use]
    pub fn is_call(self) -> bool {
        matches!(self, Transfer::Call(_) | Transfer::IndirectCall)
    }
}

fn direct_target(insn: &Instruction) -> Svma {
    Svma(insn.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[track_caller]
    fn check(bytes: &[u8], expected: Transfer) {
        let insn = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(Transfer::of(&insn), expected, "{bytes:02x?}");
    }

    #[test]
    fn classification() {
        check(&[0x90], Transfer::Next);
        check(&[0xf3, 0x0f, 0x1e, 0xfa], Transfer::Next); // endbr64
        check(&[0x0f, 0x05], Transfer::Next); // syscall
        check(&[0xcc], Transfer::Next); // int3
        check(&[0xcd, 0x80], Transfer::Next);
        check(&[0xf4], Transfer::Trap); // hlt
        check(&[0x0f, 0x0b], Transfer::Trap); // ud2
        check(&[0x06], Transfer::Trap); // no instruction in 64-bit mode
        check(&[0xeb, 0x02], Transfer::Jump(Svma(0x1004)));
        check(&[0x74, 0xfe], Transfer::Branch(Svma(0x1000)));
        check(&[0xe2, 0x00], Transfer::Branch(Svma(0x1002))); // loop
        check(&[0xe3, 0x10], Transfer::Branch(Svma(0x1012))); // jrcxz
        check(&[0xc7, 0xf8, 1, 0, 0, 0], Transfer::Branch(Svma(0x1007))); // xbegin
        check(&[0xff, 0xe0], Transfer::IndirectJump);
        check(&[0x3e, 0xff, 0xe0], Transfer::IndirectJump); // notrack
        check(&[0xe8, 0x10, 0, 0, 0], Transfer::Call(Svma(0x1015)));
        check(&[0xe8, 0, 0, 0, 0], Transfer::Next);
        check(&[0xff, 0xd0], Transfer::IndirectCall);
        check(&[0xc3], Transfer::Return);
        check(&[0xf3, 0xc3], Transfer::Return); // rep ret
        check(&[0xc2, 8, 0], Transfer::Return);
    }
}
