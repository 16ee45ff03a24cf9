//! What must be noted, by the original instructions alone.

use emit::Events;
use flow::FunctionFlow;
use flow::graph::BlockId;
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use wire::events::Kind;

use super::{Landing, Operand, Origin, Original, Place, Read, Site, Svma, Walker, loaded};
use crate::body;
use crate::liveness::Set;
use crate::liveness::effects::{Effect, Effects};

/// An event that must be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub origin: Origin,
    pub site: u32,
    pub tag: u32,
}

/// Registers in which functions get arguments, in order.
const ARGUMENT_REGISTERS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

impl Walker<'_, '_> {
    /// What must be noted behind an instruction that the copy has taken over.
    pub fn event_behind(&self, site: Site<'_>) -> Option<Expected> {
        let notes = self.notes(site.original, Events::LOADS) && !self.is_silent(self.block);
        let register = register_to_note(site.insn).filter(|_| notes)?;
        Some(self.expected(site.original, Kind::Load, Origin::Register(register)))
    }

    /// The block where a walk has arrived at its start.
    fn block_of(&self, landing: &Landing) -> Option<(&FunctionFlow, BlockId)> {
        let at = self.module.base.offset(u64::from(landing.block.0));
        let own = self.function.filter(|_| self.module.owned_block_at(self.id, at).is_some());
        let function = own.or_else(|| self.module.flow.function_at(at))?;
        Some((function, function.cfg.block_at(at)?))
    }

    /// The instruction where a walk has arrived, unless that is before a probe.
    pub fn instruction_at(&self, landing: &Landing) -> Option<Instruction> {
        let at = self.module.base.offset(u64::from(landing.block.0));
        let end = match landing.place {
            Place::Before => return None,
            Place::Within => self.block_end,
            Place::First => self.block_of(landing).map(|(function, block)| function.cfg.block(block).range.end)?,
        };
        // One that reaches beyond its block, which data may look like, is not executed by the copy.
        let bytes = self.module.image.read(at, (end - at) as usize).unwrap_or_default();
        let insn = Decoder::with_ip(64, bytes, at.0, DecoderOptions::NONE).decode();
        (!insn.is_invalid()).then_some(insn)
    }

    /// What must be noted where a walk has arrived, in order.
    pub fn expected_before(&self, landing: &Landing) -> Vec<Expected> {
        let original = landing.block;
        let own = || self.module.owned_block_at(self.id, self.module.base.offset(u64::from(original.0)));
        if self.is_silent(if landing.place == Place::Within { self.block } else { own() }) {
            return Vec::new();
        }
        let first = self.block_of(landing).filter(|_| landing.place == Place::First);
        let mut all = first.map_or(Vec::new(), |(function, block)| self.expected_arguments(function, block, original));
        let Some(insn) = self.instruction_at(landing) else { return all };
        let memory = self.memory_operand(&insn);
        if let Some(operand) =
            memory.filter(|_| self.notes(original, Events::ADDRESSES) && names_what_it_accesses(&insn))
        {
            all.push(self.expected(original, Kind::Address, Origin::Address(operand)));
        }
        let load = self.read_before(&insn).filter(|_| self.notes(original, Events::LOADS));
        if let Some(read) = load.filter(|_| register_to_note(&insn).is_none()) {
            all.push(self.expected(original, Kind::Load, Origin::Loaded(read)));
        }
        let is_call = insn.code() == Code::Call_rm64;
        if let Some(Operand { base, index: Register::None, .. }) = memory
            && is_call
            && self.notes(original, Events::METHOD_TABLES)
            && !matches!(base, Register::None | Register::RIP | Register::RSP | Register::RBP)
        {
            all.push(self.expected(original, Kind::MethodTable, Origin::Register(base.number())));
        }
        let is_jump = insn.code() == Code::Jmp_rm64 && insn.memory_base() != Register::RIP;
        let origin = match insn.op0_kind() {
            OpKind::Register => Some(Origin::Register(insn.op0_register().full_register().number())),
            _ => memory.map(|operand| Origin::Loaded(Read { operand, has_fs: false, n_bytes: 8, is_written: false })),
        };
        if let Some(origin) = origin.filter(|_| is_call && self.notes(original, Events::CALL_TARGETS)) {
            all.push(self.expected(original, Kind::CallTarget, origin));
        }
        if let Some(origin) = origin.filter(|_| is_jump && self.notes(original, Events::JUMP_TARGETS)) {
            all.push(self.expected(original, Kind::JumpTarget, origin));
        }
        if let Some(origin) = self.outcome(&insn).filter(|_| self.notes(original, Events::BRANCH_TARGETS)) {
            all.push(self.expected(original, Kind::BranchTarget, origin));
        }
        all
    }

    /// Where a conditional jump goes on, unless a counter decides, or the copy cannot name both
    /// ways.
    fn outcome(&self, insn: &Instruction) -> Option<Origin> {
        let is_on_flags = insn.is_jcc_short_or_near() && insn.op0_kind() == OpKind::NearBranch64;
        let address = |way: u64| self.module.is_nameable(Svma(way)).then(|| loaded(self.module.base, Svma(way)));
        let [taken, behind] = [insn.near_branch_target(), insn.next_ip()].map(address);
        is_on_flags.then_some(())?;
        Some(Origin::Outcome { condition: insn.condition_code(), taken: taken?, behind: behind? })
    }

    /// Whether a block of the function is in a loop that is boring: nothing is noted there.
    fn is_silent(&self, block: Option<BlockId>) -> bool {
        let innermost = block.and_then(|block| self.function?.loops.innermost(block));
        innermost.is_some_and(|innermost| self.duties.is_boring(innermost))
    }

    fn notes(&self, original: Original, events: Events) -> bool {
        let noted = match self.index.copy.selection() {
            Some(selection) => selection.at(original),
            None => self.index.copy.events(),
        };
        noted.has(events)
    }

    fn expected(&self, original: Original, kind: Kind, origin: Origin) -> Expected {
        Expected { origin, site: self.record(original), tag: kind.tag() }
    }

    /// The memory operand of an instruction as the copy must name it.
    pub fn memory_operand(&self, insn: &Instruction) -> Option<Operand> {
        (0..insn.op_count()).find(|&op| insn.op_kind(op) == OpKind::Memory)?;
        self.named(Operand::of(insn)?)
    }

    /// The same operand as the copy must name it.
    fn named(&self, operand: Operand) -> Option<Operand> {
        if operand.base == Register::RIP {
            let target = Svma(operand.displacement);
            return self
                .module
                .is_nameable(target)
                .then(|| Operand { displacement: loaded(self.module.base, target), ..operand });
        }
        // No displacement of four bytes.
        let is_short = operand.is_short() || i32::try_from(operand.displacement as i64).is_ok();
        is_short.then_some(operand)
    }

    /// What must be read before an instruction, because the instruction will read it: what its
    /// operand names, the top of the stack, or an element of a string.
    fn read_before(&self, insn: &Instruction) -> Option<Read> {
        let is_return = matches!(insn.code(), Code::Retnq | Code::Retnq_imm16);
        let is_transfer = matches!(insn.code(), Code::Call_rm64 | Code::Jmp_rm64) || is_return;
        if insn.segment_prefix() == Register::GS || !is_transfer && !body::may_copy(insn) {
            return None;
        }
        let on_stack =
            |register, n_bytes| Read { operand: Operand::at(register, 0), has_fs: false, n_bytes, is_written: false };
        match insn.mnemonic() {
            Mnemonic::Ret => return is_return.then(|| on_stack(Register::RSP, 8)),
            Mnemonic::Pop | Mnemonic::Popf | Mnemonic::Popfq => {
                return Some(on_stack(Register::RSP, insn.stack_pointer_increment() as u8));
            }
            Mnemonic::Leave => {
                return Some(on_stack(Register::RBP, if insn.code() == Code::Leaveq { 8 } else { 2 }));
            }
            _ => {}
        }
        let n_bytes = match insn.memory_size().size() {
            all @ (1 | 2 | 4 | 8) => all as u8,
            9..=64 => 8,
            _ => return None,
        };
        let (operand, is_written) = match element_read(insn) {
            Some(register) => (Operand::at(register, 0), false),
            None => {
                let (operand, is_written) = operand_read(insn)?;
                (self.named(operand)?, is_written)
            }
        };
        let has_fs = insn.memory_segment() == Register::FS && !is_destination(insn);
        Some(Read { operand, has_fs, n_bytes, is_written })
    }

    /// What must be noted at the start of a function: registers for arguments that its first block
    /// reads, or may keep, before it overwrites them. Nothing if that is also reached from within.
    fn expected_arguments(&self, function: &FunctionFlow, block: BlockId, original: Original) -> Vec<Expected> {
        let is_entry = function.cfg.block(block).range.start == function.entry;
        if !is_entry || !self.notes(original, Events::ARGUMENTS) || !function.cfg.graph.in_edges(block).is_empty() {
            return Vec::new();
        }
        let mut effects = Effects::new();
        let mut effect = |insn: &Instruction| match insn.code() {
            Code::Syscall => Effect::SYSTEM_CALL,
            _ => effects.of(insn),
        };
        let all: Vec<Effect> = function.cfg.instructions(self.module.image, block).map(|insn| effect(&insn)).collect();
        let n_transfers = usize::from(function.cfg.block(block).transfer.ends_block());
        let straight = &all[..all.len() - n_transfers];
        let read = straight.iter().rev().fold(Set::NONE, |behind, effect| effect.before(behind));
        let arguments = ARGUMENT_REGISTERS.into_iter().map(Register::number).enumerate();
        let arguments = arguments.filter(|&(_, number)| read.has_register(number));
        arguments
            .map(|(index, number)| self.expected(original, Kind::Argument(index as u8), Origin::Register(number)))
            .collect()
    }
}

/// The register whose value must be noted behind an instruction: one of at least 32 bits that a
/// move fills from memory.
fn register_to_note(insn: &Instruction) -> Option<usize> {
    let is_move = matches!(insn.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
    let to = insn.op0_register();
    let is_load = is_move && insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Memory;
    let is_short_form = matches!(insn.code(), Code::Mov_EAX_moffs32 | Code::Mov_RAX_moffs64);
    // `movsxd` without a 64-bit operand is a strange way to write `mov`.
    let is_odd = insn.mnemonic() == Mnemonic::Movsxd && insn.code() != Code::Movsxd_r64_rm32;
    (is_load && !is_short_form && !is_odd && (to.is_gpr32() || to.is_gpr64())).then(|| to.full_register().number())
}

/// The register that points to the one element of a string that an instruction reads.
fn element_read(insn: &Instruction) -> Option<Register> {
    use Mnemonic::{Lodsb, Lodsd, Lodsq, Lodsw, Movsb, Movsd, Movsq, Movsw, Scasb, Scasd, Scasq, Scasw};
    let all = [Lodsb, Lodsw, Lodsd, Lodsq, Movsb, Movsw, Movsd, Movsq, Scasb, Scasw, Scasd, Scasq];
    let has_count = insn.has_rep_prefix() || insn.has_repne_prefix();
    match insn.op1_kind() {
        _ if has_count || !all.contains(&insn.mnemonic()) => None,
        OpKind::MemorySegRSI => Some(Register::RSI),
        OpKind::MemorySegESI => Some(Register::ESI),
        OpKind::MemoryESRDI => Some(Register::RDI),
        OpKind::MemoryESEDI => Some(Register::EDI),
        _ => None,
    }
}

/// Whether what is read lies where a string goes to, which no prefix moves to another segment.
fn is_destination(insn: &Instruction) -> bool {
    matches!(insn.op1_kind(), OpKind::MemoryESRDI | OpKind::MemoryESEDI)
}

/// The memory operand of an instruction that reads all of it, at one place and in any case, and
/// whether it writes it, too.
fn operand_read(insn: &Instruction) -> Option<(Operand, bool)> {
    let op = (0..insn.op_count()).find(|&op| insn.op_kind(op) == OpKind::Memory)?;
    let is_elsewhere = match insn.mnemonic() {
        // A bit anywhere in memory.
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => insn.op1_kind() == OpKind::Register,
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq => true,
        Mnemonic::Lfs | Mnemonic::Lgs | Mnemonic::Lss | Mnemonic::Fldenv | Mnemonic::Ldtilecfg => true,
        _ => insn.has_op_mask(),
    };
    let access = InstructionInfoFactory::new().info(insn).op_access(op);
    let is_written = match access {
        OpAccess::Read => false,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => true,
        _ => return None,
    };
    Operand::of_any_size(insn).filter(|_| !is_elsewhere).map(|operand| (operand, is_written))
}

/// Whether the memory operand is what the instruction accesses: not where the stack pointer moves
/// first, nor if nothing is accessed.
fn names_what_it_accesses(insn: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let is_access = |access: OpAccess| access != OpAccess::NoMemAccess;
    !insn.is_stack_instruction() && factory.info(insn).used_memory().iter().any(|memory| is_access(memory.access()))
}
