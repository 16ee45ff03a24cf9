//! What an instruction accesses.

use iced_x86::{
    CodeSize, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, Register, UsedMemory,
};
use image::Svma;

use crate::asm::Gpr;
use crate::memory::Operand;

/// An access to memory that the cache is told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Where it is, with registers as they are before the instruction.
    pub operand: Operand,
    /// How many bytes it has.
    pub size: u32,
}

/// The accesses of an instruction, reads first, and how many more there are.
pub(super) fn of(insn: &Instruction) -> (Vec<Access>, u32) {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info_options(insn, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory();
    let is_repeated = insn.is_string_instruction() && (insn.has_rep_prefix() || insn.has_repne_prefix());
    let is_known = !is_repeated && !has_large_frame(insn);
    let mut known = Vec::new();
    let mut n_unknown = 0;
    for memory in used.iter().filter(|memory| !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess)) {
        match access(insn, memory).filter(|_| is_known) {
            Some(access) => known.push((!reads(memory), access)),
            None => n_unknown += 1,
        }
    }
    known.sort_by_key(|&(is_write, _)| is_write);
    (known.into_iter().map(|(_, access)| access).collect(), n_unknown)
}

/// Instructions of other times that push or pop more than one word.
fn has_large_frame(insn: &Instruction) -> bool {
    use Mnemonic::{Enter, Iret, Iretd, Iretq, Retf};
    matches!(insn.mnemonic(), Enter | Iret | Iretd | Iretq | Retf) || insn.is_call_far() || insn.is_call_far_indirect()
}

fn reads(memory: &UsedMemory) -> bool {
    !matches!(memory.access(), OpAccess::Write | OpAccess::CondWrite)
}

/// `None` if its address needs a segment or registers of another size, or if its size is not known.
fn access(insn: &Instruction, memory: &UsedMemory) -> Option<Access> {
    let has_segment = matches!(memory.segment(), Register::FS | Register::GS);
    let size = u32::try_from(memory.memory_size().size()).ok()?;
    if has_segment || size == 0 || memory.address_size() != CodeSize::Code64 {
        return None;
    }
    // What is relative to the instruction pointer is listed without it.
    let is_absolute = memory.base() == Register::None && memory.index() == Register::None;
    if is_absolute && insn.is_ip_rel_memory_operand() {
        return Some(Access { operand: Operand::At(Svma(memory.displacement())), size });
    }
    let register = |register: Register| match register {
        Register::None => Some(None),
        _ => register.is_gpr64().then(|| Some(Gpr(register.number() as u8))),
    };
    let displacement = i32::try_from(memory.displacement() as i64).ok()?;
    let scale = memory.scale().trailing_zeros() as u8;
    let index = register(memory.index())?.map(|index| (index, scale));
    Some(Access { operand: Operand::Registers(register(memory.base())?, index, displacement), size })
}
