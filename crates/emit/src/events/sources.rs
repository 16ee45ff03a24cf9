//! What of an instruction is noted, and where it comes from.

use flow::FunctionFlow;
use flow::graph::BlockId;
use flow::liveness::{Effect, Effects};
use flow::registers::AT_SYSTEM_CALL;
use iced_x86::{
    Code, CodeSize, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess,
    OpKind, Register,
};
use image::{Image, Svma};
use wire::events::Kind;

use super::Events;
use crate::asm::{Condition, Gpr};
use crate::classify::{self, Body, Branch};
use crate::memory::Operand;

/// Where a value comes from, before the instruction that it is about, or behind it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Register(Gpr),
    /// What is in memory.
    Loaded(Read),
    /// Where it is.
    Address(Operand),
    /// Where a conditional jump goes on.
    Outcome(Outcome),
}

/// The two ways of a conditional jump, of which flags choose one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub condition: Condition,
    pub taken: Svma,
    pub behind: Svma,
}

/// What an instruction reads from memory: an operand, and how it is named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub operand: Operand,
    /// Whether it is relative to `fs`.
    pub has_fs: bool,
    /// Whether its registers, and the address, have 32 bits.
    pub is_short: bool,
    pub width: Width,
    /// Whether the instruction will write there, too.
    pub is_written: bool,
}

/// How many bytes are taken from memory: all that the instruction reads, or the lowest eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte,
    Word,
    Dword,
    Qword,
}

/// The most bytes that an instruction reads as one value, those of a vector. What reads more takes
/// the state of the processor from memory.
const LARGEST_VALUE: usize = 64;

/// Registers for arguments, in order.
const ARGUMENTS: [Gpr; wire::events::N_ARGUMENTS as usize] = [Gpr(7), Gpr(6), Gpr(2), Gpr(1), Gpr(8), Gpr(9)];

impl Width {
    fn of(n_bytes: usize) -> Option<Width> {
        match n_bytes {
            1 => Some(Width::Byte),
            2 => Some(Width::Word),
            4 => Some(Width::Dword),
            8..=LARGEST_VALUE => Some(Width::Qword),
            _ => None,
        }
    }
}

impl Read {
    /// What an instruction reads that reads at one place, all of it whenever it is executed, and is
    /// executed by the copy.
    fn of(insn: &Instruction) -> Option<Read> {
        let is_executed = match insn.flow_control() {
            FlowControl::Next => classify::body(insn) == Body::Copy,
            _ => classify::is_plain_indirect(insn) || classify::returned_bytes(insn).is_some(),
        };
        if !is_executed || insn.segment_prefix() == Register::GS || may_read_elsewhere(insn) {
            return None;
        }
        let mut factory = InstructionInfoFactory::new();
        let all = factory.info_options(insn, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory();
        let mut reads = all.iter().filter(|memory| reads(memory.access()));
        let memory = reads.next().filter(|memory| reads.next().is_none() && memory.access() != OpAccess::CondRead)?;
        let width = Width::of(memory.memory_size().size())?;
        let has_fs = memory.segment() == Register::FS;
        let is_written = memory.access() != OpAccess::Read;
        // What is relative to the instruction pointer is listed without it.
        let is_absolute = memory.base() == Register::None && memory.index() == Register::None;
        if is_absolute && insn.is_ip_rel_memory_operand() {
            let is_whole = insn.memory_base() == Register::RIP;
            let operand = Operand::At(Svma(memory.displacement()));
            return is_whole.then_some(Read { operand, has_fs, is_short: false, width, is_written });
        }
        let is_short = memory.address_size() == CodeSize::Code32 && !is_absolute;
        let register = |register: Register| match register {
            Register::None => Some(None),
            _ if is_short => register.is_gpr32().then(|| Some(Gpr(register.number() as u8))),
            _ => register.is_gpr64().then(|| Some(Gpr(register.number() as u8))),
        };
        let displacement = match is_short {
            true => memory.displacement() as i32,
            false => i32::try_from(memory.displacement() as i64).ok()?,
        };
        let scale = memory.scale().trailing_zeros() as u8;
        let index = register(memory.index())?.map(|index| (index, scale));
        let operand = Operand::Registers(register(memory.base())?, index, displacement);
        Some(Read { operand, has_fs, is_short, width, is_written })
    }
}

/// Instructions that may read less than their operand, or elsewhere: elements by a mask, a bit of a
/// string of bits, as often as a counter says, or frames of other procedures. Far pointers are ten
/// bytes long on some processors, and six on others.
fn may_read_elsewhere(insn: &Instruction) -> bool {
    use Mnemonic::{Bt, Btc, Btr, Bts, Enter, Fldenv, Ldtilecfg, Lfs, Lgs, Lss};
    use Mnemonic::{Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    let is_bit = matches!(insn.mnemonic(), Bt | Bts | Btr | Btc) && insn.op1_kind() == OpKind::Register;
    let is_masked = matches!(insn.mnemonic(), Vmaskmovps | Vmaskmovpd | Vpmaskmovd | Vpmaskmovq) || insn.has_op_mask();
    let is_repeated = insn.is_string_instruction() && (insn.has_rep_prefix() || insn.has_repne_prefix());
    let is_far_pointer = matches!(insn.mnemonic(), Lfs | Lgs | Lss);
    // The state of the processor is no value.
    let is_state = matches!(insn.mnemonic(), Fldenv | Ldtilecfg);
    is_bit || is_masked || is_repeated || is_far_pointer || is_state || insn.mnemonic() == Enter
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// At how many places an instruction reads memory, and how many bytes it reads at the first.
pub(super) fn places_read(insn: &Instruction) -> (u32, usize) {
    let mut factory = InstructionInfoFactory::new();
    let all = factory.info_options(insn, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory();
    let mut sizes = all.iter().filter(|memory| reads(memory.access())).map(|memory| memory.memory_size().size());
    let first = sizes.next();
    (u32::from(first.is_some()) + sizes.count() as u32, first.unwrap_or(0))
}

/// The whole register that an instruction loads, which is noted behind it.
pub(super) fn loaded_register(insn: &Instruction) -> Option<Gpr> {
    use Code::{
        Mov_r32_rm32, Mov_r64_rm64, Movsx_r32_rm8, Movsx_r32_rm16, Movsx_r64_rm8, Movsx_r64_rm16, Movsxd_r64_rm32,
        Movzx_r32_rm8, Movzx_r32_rm16, Movzx_r64_rm8, Movzx_r64_rm16,
    };
    let is_load = matches!(
        insn.code(),
        Mov_r32_rm32
            | Mov_r64_rm64
            | Movzx_r32_rm8
            | Movzx_r32_rm16
            | Movzx_r64_rm8
            | Movzx_r64_rm16
            | Movsx_r32_rm8
            | Movsx_r32_rm16
            | Movsx_r64_rm8
            | Movsx_r64_rm16
            | Movsxd_r64_rm32
    );
    let is_noted = is_load && insn.op1_kind() == OpKind::Memory && classify::body(insn) == Body::Copy;
    is_noted.then(|| Gpr(insn.op0_register().full_register().number() as u8))
}

/// What is noted before an instruction.
pub(super) fn before(insn: &Instruction, events: Events) -> impl Iterator<Item = (Kind, Source)> {
    let address = Some(insn).filter(|insn| events.has(Events::ADDRESSES) && has_plain_address(insn));
    let address = address.and_then(Operand::of).map(|operand| (Kind::Address, Source::Address(operand)));
    let load = Some(insn).filter(|insn| events.has(Events::LOADS) && loaded_register(insn).is_none());
    let load = load.and_then(Read::of).map(|read| (Kind::Load, Source::Loaded(read)));
    let table = method_table(insn).filter(|_| events.has(Events::METHOD_TABLES));
    let table = table.map(|table| (Kind::MethodTable, Source::Register(table)));
    let target = target(insn).filter(|&(kind, _)| match kind {
        Kind::CallTarget => events.has(Events::CALL_TARGETS),
        _ => events.has(Events::JUMP_TARGETS),
    });
    let outcome = outcome(insn).filter(|_| events.has(Events::BRANCH_TARGETS));
    let outcome = outcome.map(|outcome| (Kind::BranchTarget, Source::Outcome(outcome)));
    address.into_iter().chain(load).chain(table).chain(target).chain(outcome)
}

/// Whether an instruction accesses what its memory operand names, with registers as they are before
/// it.
fn has_plain_address(insn: &Instruction) -> bool {
    let is_explicit = (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory);
    is_explicit && !insn.is_stack_instruction() && accesses(insn, |access| access != OpAccess::NoMemAccess)
}

/// Whether an instruction reads memory through an operand.
pub(super) fn reads_memory(insn: &Instruction) -> bool {
    accesses_operand(insn, reads)
}

/// Whether an instruction accesses memory through an operand in a way that counts.
pub(super) fn accesses_operand(insn: &Instruction, counts: fn(OpAccess) -> bool) -> bool {
    let is_explicit = (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory);
    is_explicit && accesses(insn, counts)
}

fn accesses(insn: &Instruction, counts: fn(OpAccess) -> bool) -> bool {
    InstructionInfoFactory::new().info(insn).used_memory().iter().any(|memory| counts(memory.access()))
}

/// Where an indirect call or jump goes. Jumps through a fixed place are how a linkage table enters
/// another module, and go where the loader says.
fn target(insn: &Instruction) -> Option<(Kind, Source)> {
    let kind = match insn.code() {
        Code::Call_rm64 => Kind::CallTarget,
        Code::Jmp_rm64 if !insn.is_ip_rel_memory_operand() => Kind::JumpTarget,
        _ => return None,
    };
    let source = match insn.op0_kind() {
        OpKind::Register => Source::Register(Gpr(insn.op0_register().number() as u8)),
        _ => {
            let operand = Operand::of(insn)?;
            Source::Loaded(Read { operand, has_fs: false, is_short: false, width: Width::Qword, is_written: false })
        }
    };
    Some((kind, source))
}

/// Whether an instruction is a conditional jump.
pub(super) fn is_branch(insn: &Instruction) -> bool {
    insn.flow_control() == FlowControl::ConditionalBranch
}

/// What a conditional jump chooses from, if flags choose.
fn outcome(insn: &Instruction) -> Option<Outcome> {
    let Some(Branch::Flags(condition)) = classify::branch(insn) else { return None };
    Some(Outcome { condition, taken: Svma(insn.near_branch_target()), behind: Svma(insn.next_ip()) })
}

/// The register that points to the table from which a call takes its target, at a fixed place in
/// it. The stack is no such table.
fn method_table(insn: &Instruction) -> Option<Gpr> {
    let base = insn.memory_base();
    let is_entry = insn.code() == Code::Call_rm64 && insn.op0_kind() == OpKind::Memory;
    let is_table = base.is_gpr64() && !matches!(base, Register::RSP | Register::RBP);
    (is_entry && is_table && insn.memory_index() == Register::None).then(|| Gpr(base.number() as u8))
}

/// Arguments that the first block of a function reads before it overwrites them, if only calls lead
/// there. An instruction that may leave its destination as it was, like `cmov`, reads it.
pub(super) fn arguments(image: &Image<'_>, function: &FunctionFlow, block: BlockId) -> Vec<(Kind, Source)> {
    let cfg = &function.cfg;
    let is_entry = cfg.block(block).range.start == function.entry && cfg.graph.in_edges(block).is_empty();
    if !is_entry {
        return Vec::new();
    }
    let n_insns = cfg.block(block).n_insns - u32::from(cfg.block(block).transfer.ends_block());
    let mut effects = Effects::default();
    let insns = cfg.instructions(image, block).take(n_insns as usize);
    let mut effect = |insn: &Instruction| match insn.code() {
        Code::Syscall => AT_SYSTEM_CALL,
        _ => effects.of(insn),
    };
    let read = insns.fold(Effect::default(), |so_far, insn| so_far.then(effect(&insn))).needs;
    let numbered = ARGUMENTS.into_iter().enumerate().filter(|(_, register)| read.has_register(register.0));
    numbered.map(|(index, register)| (Kind::Argument(index as u8), Source::Register(register))).collect()
}
