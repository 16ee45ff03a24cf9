//! Instructions that a copy takes over as they are.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use image::{Image, Svma};

use super::index::{Index, address_of, loaded};

/// Decodes an instruction of the copy.
pub(super) fn decode(index: &Index<'_>, at: u32) -> Option<Instruction> {
    let code = index.code.get(..index.copy.literals() as usize)?.get(at as usize..)?;
    let mut decoder = Decoder::with_ip(64, code, address_of(at), DecoderOptions::NONE);
    Some(decoder.decode()).filter(|insn| !insn.is_invalid())
}

/// Whether `copied` does the same as `original`, which a copy may take over.
pub(super) fn is_same(base: Svma, original: &Instruction, copied: &Instruction) -> bool {
    if !may_copy(original) || original.len() != copied.len() {
        return false;
    }
    if !original.is_ip_rel_memory_operand() {
        return original == copied;
    }
    let target = copied.memory_displacement64();
    let mut moved = *copied;
    moved.set_memory_displacement64(original.memory_displacement64());
    target == loaded(base, Svma(original.memory_displacement64())) && moved == *original
}

/// Whether a copy has a reason to leave instead of executing the instruction.
pub(super) fn may_leave(image: &Image<'_>, original: &Instruction) -> bool {
    !may_copy(original) || is_out_of_reach(image, original)
}

/// Whether the instruction has an operand relative to the instruction pointer that a copy need not
/// be able to reach.
pub(super) fn is_out_of_reach(image: &Image<'_>, original: &Instruction) -> bool {
    let target = Svma(original.memory_displacement64());
    let is_outside = !image.segments().iter().any(|segment| segment.range.contains(target));
    let is_unusual = original.memory_base() != Register::RIP;
    original.is_ip_rel_memory_operand() && (is_outside || is_unusual)
}

/// Whether an indirect jump or call has a prefix other than REX, `fs`, `bnd` and `notrack`.
pub(super) fn has_unusual_prefix(bytes: &[u8]) -> bool {
    let mut prefixes = bytes.iter().take_while(|&&byte| byte != 0xff);
    prefixes.any(|byte| !matches!(byte, 0x40..=0x4f | 0x64 | 0xf2 | 0x3e))
}

pub(super) fn may_copy(insn: &Instruction) -> bool {
    let is_segment = |register| matches!(register, Register::GS | Register::SS);
    let touches_segment =
        insn.segment_prefix() == Register::GS || is_segment(insn.op0_register()) || is_segment(insn.op1_register());
    let enters_kernel =
        matches!(insn.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Lgs | Mnemonic::Lss);
    let is_base = matches!(insn.mnemonic(), Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Swapgs);
    let is_transaction = matches!(insn.mnemonic(), Mnemonic::Xbegin | Mnemonic::Xabort | Mnemonic::Xend);
    let does_io = matches!(
        insn.mnemonic(),
        Mnemonic::In
            | Mnemonic::Out
            | Mnemonic::Insb
            | Mnemonic::Insw
            | Mnemonic::Insd
            | Mnemonic::Outsb
            | Mnemonic::Outsw
            | Mnemonic::Outsd
    );
    insn.flow_control() == FlowControl::Next
        && !insn.is_invalid()
        && !insn.is_privileged()
        && !touches_segment
        && !enters_kernel
        && !is_base
        && !does_io
        && !is_transaction
}
