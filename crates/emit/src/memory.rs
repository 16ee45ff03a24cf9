//! Memory operands as probes name them, and instructions with one.

use iced_x86::{Instruction, Register};
use image::Svma;

use crate::asm::{Asm, Gpr};

/// A memory operand: base, index with the binary logarithm of its scale, and displacement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Registers(Option<Gpr>, Option<(Gpr, u8)>, i32),
    /// At this address, relative to the instruction pointer.
    At(Svma),
}

impl Operand {
    /// The memory operand of an instruction; `None` if it needs a segment or registers of another
    /// size.
    pub fn of(insn: &Instruction) -> Option<Operand> {
        if matches!(insn.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        if insn.memory_base() == Register::RIP {
            return Some(Operand::At(Svma(insn.memory_displacement64())));
        }
        let register = |register: Register| match register {
            Register::None => Some(None),
            _ => register.is_gpr64().then(|| Some(Gpr(register.number() as u8))),
        };
        let displacement = i32::try_from(insn.memory_displacement64() as i64).ok()?;
        let scale = insn.memory_index_scale().trailing_zeros() as u8;
        let index = register(insn.memory_index())?.map(|index| (index, scale));
        Some(Operand::Registers(register(insn.memory_base())?, index, displacement))
    }
}

/// Opcode of `lea`.
pub(crate) const LEA: u8 = 0x8d;

/// Writes `opcode register, operand`. What is relative to the instruction pointer ends in 4 bytes
/// that are still to be set.
pub(crate) fn write_with_operand(asm: &mut Asm, opcode: u8, register: Gpr, operand: Operand) {
    write_form(asm, 0x48, &[opcode], register, operand);
}

/// The same with a REX prefix, which gets the bits of the registers, and an opcode of any length.
pub(crate) fn write_form(asm: &mut Asm, rex: u8, opcode: &[u8], register: Gpr, operand: Operand) {
    let (field, rex) = ((register.0 & 7) << 3, rex | (register.0 >> 3) << 2);
    let Operand::Registers(base, index, displacement) = operand else {
        asm.bytes(&[rex]);
        asm.bytes(opcode);
        asm.bytes(&[0x05 | field, 0, 0, 0, 0]);
        return;
    };
    // As an index, 4 is none, and as a base it needs a SIB byte. Without a base, 5 in its place is
    // none, and 4 bytes of displacement follow; as a base, 5 needs some.
    let (index, scale) = index.unwrap_or((Gpr(4), 0));
    let short = i8::try_from(displacement).ok().filter(|_| base.is_some());
    let mode = match (base, short) {
        (Some(base), Some(0)) if base.0 & 7 != 5 => 0x00,
        (Some(_), Some(_)) => 0x40,
        (Some(_), None) => 0x80,
        (None, _) => 0x00,
    };
    let base = base.unwrap_or(Gpr(5));
    asm.bytes(&[rex | (index.0 >> 3) << 1 | base.0 >> 3]);
    asm.bytes(opcode);
    let needs_sib = index.0 != 4 || base.0 & 7 == 4 || (mode == 0 && base.0 == 5);
    if needs_sib {
        let sib = scale << 6 | (index.0 & 7) << 3 | base.0 & 7;
        asm.bytes(&[mode | field | 4, sib]);
    } else {
        asm.bytes(&[mode | field | base.0 & 7]);
    }
    match (mode, short) {
        (0x00, Some(_)) => {}
        (0x40, Some(short)) => asm.bytes(&short.to_le_bytes()),
        _ => asm.bytes(&displacement.to_le_bytes()),
    }
}
