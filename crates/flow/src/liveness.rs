//! Which general registers and flags are needed at the start of each block.
//!
//! Probes run between two instructions and may use only what is dead there, so the analysis errs
//! towards *live*:
//!
//! * A register dies only at an instruction that certainly overwrites all of it. Instructions that
//!   sometimes leave their destination alone do not count, whatever a manual's operand table says:
//!   `cmov`, `bsf`/`bsr` and their `tzcnt`/`lzcnt` encodings on older processors, `rdssp` without
//!   shadow stacks, and anything with `rep` (the count can be zero). Writes of 8 or 16 bits
//!   overwrite the lowest byte, and leave the rest.
//! * A flag dies only where it is certainly written. Shifts by a variable count do not count (zero
//!   leaves the flags alone), nor repeated comparisons unless the block itself sets the count, nor
//!   flags that an instruction leaves undefined; except the adjust flag after logical operations,
//!   which every processor changes and no compiler reads.
//! * Calls, system calls and ways out of the function need every general register: callees may have
//!   conventions of their own (`-fipa-ra`, hand-written assembly). Calls and returns need no
//!   arithmetic flag, by the calling convention; hand-written code that passes or returns flags is
//!   found by [`FlagConventions`].
//! * Jumps to unknown places need everything.
//! * Code from which exceptions reach a landing pad needs what calls keep, at every instruction:
//!   faults can throw (`-fnon-call-exceptions`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

use iced_x86::{
    Code, CpuidFeature, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};
use image::{Image, Svma};

use crate::cfg::{Cfg, EdgeKind};
use crate::graph::BlockId;
use crate::order::Order;
use crate::transfer::Transfer;

/// Live registers and flags at the start of every block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    live_in: Vec<LiveSet>,
    conventions: FlagConventions,
    /// Registers that are needed at the end of each block, before a call but for its operands, if
    /// more is known than that callers and callees may need any.
    registers_at_end: Option<Vec<LiveSet>>,
}

/// Flags that cross the borders of a function, against the calling convention.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FlagConventions {
    /// Flags that callers use after the function has returned.
    pub at_return: LiveSet,
    /// Flags that functions which this one calls or jumps to use on entry.
    pub at_calls: BTreeMap<Svma, LiveSet>,
}

/// A set of general registers and flags. Of a register, the lowest byte and the rest are members of
/// their own, because compilers write and read bytes; who asks for a register asks for both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LiveSet(u64);

const FLAG_SHIFT: u32 = 16;
const LOW_SHIFT: u32 = 32;
/// Flags by bit, with iced's name of each.
const FLAGS: [(u32, &str); 7] = [
    (RflagsBits::CF, "cf"),
    (RflagsBits::PF, "pf"),
    (RflagsBits::AF, "af"),
    (RflagsBits::ZF, "zf"),
    (RflagsBits::SF, "sf"),
    (RflagsBits::OF, "of"),
    (RflagsBits::DF, "df"),
];
const REGISTERS: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
/// Their lowest bytes.
const LOW_BYTES: [&str; 16] =
    ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"];

impl LiveSet {
    /// Nothing.
    pub const NONE: LiveSet = LiveSet(0);
    /// All 16 general registers.
    pub const ALL_REGISTERS: LiveSet = LiveSet(0xffff | 0xffff << LOW_SHIFT);
    /// All flags: carry, parity, adjust, zero, sign, overflow, direction.
    pub const ALL_FLAGS: LiveSet = LiveSet(0x7f << FLAG_SHIFT);
    /// The direction flag, which calls preserve.
    pub const DIRECTION: LiveSet = LiveSet(0x40 << FLAG_SHIFT);
    /// The flags that arithmetic writes: all but direction.
    pub const ARITHMETIC_FLAGS: LiveSet = LiveSet(0x3f << FLAG_SHIFT);

    /// The registers with these hardware numbers.
    pub(crate) const fn of_numbers(numbers: &[u8]) -> LiveSet {
        let (mut set, mut index) = (0, 0);
        while index < numbers.len() {
            set |= WHOLE << numbers[index];
            index += 1;
        }
        LiveSet(set)
    }

    /// Whether the register with this hardware number, or a part of it, is in the set.
    #[must_use]
    pub fn has_register(self, number: u8) -> bool {
        self.0 & WHOLE << number != 0
    }

    /// The registers of the set.
    #[must_use]
    pub fn registers(self) -> LiveSet {
        self & LiveSet::ALL_REGISTERS
    }

    /// The flags of the set.
    #[must_use]
    pub fn flags(self) -> LiveSet {
        self & LiveSet::ALL_FLAGS
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Names of the members, registers by number, then flags. A register of which more than its
    /// lowest byte is a member has its own name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let registers = (0..16).filter_map(move |number: usize| match self.0 >> number & WHOLE {
            0 => None,
            LOW_BYTE => Some(LOW_BYTES[number]),
            _ => Some(REGISTERS[number]),
        });
        let flags = (FLAG_SHIFT..).zip(FLAGS).filter(move |(bit, _)| self.0 >> bit & 1 != 0);
        registers.chain(flags.map(|(_, (_, name))| name))
    }

    fn of_flags(rflags: u32) -> LiveSet {
        let bits = FLAGS.iter().enumerate().filter(|(_, (bit, _))| rflags & bit != 0);
        LiveSet(bits.fold(0, |set, (index, _)| set | 1 << (FLAG_SHIFT + index as u32)))
    }

    fn of_register(register: Register) -> LiveSet {
        let full = register.full_register();
        if full.is_gpr64() { LiveSet(WHOLE << full.number()) } else { LiveSet::NONE }
    }

    /// What is read of a register.
    fn read_of(register: Register) -> LiveSet {
        let part = match register.size() {
            1 if is_second_byte(register) => 1,
            1 => LOW_BYTE,
            _ => WHOLE,
        };
        LiveSet(LiveSet::of_register(register).0 & part << register.full_register().number())
    }

    /// What is certainly overwritten of it. A write of 32 bits clears the rest.
    fn written_of(register: Register) -> LiveSet {
        let part = match register.size() {
            1 if is_second_byte(register) => 0,
            1 | 2 => LOW_BYTE,
            _ => WHOLE,
        };
        LiveSet(LiveSet::of_register(register).0 & part << register.full_register().number())
    }
}

/// Registers that calls keep: `rbx`, `rsp`, `rbp`, `r12` to `r15`.
pub(crate) const KEPT: LiveSet = LiveSet::of_numbers(&[3, 4, 5, 12, 13, 14, 15]);

/// Lowest byte of a register, and all of it, before its number shifts them.
const LOW_BYTE: u64 = 1 << LOW_SHIFT;
const WHOLE: u64 = 1 | LOW_BYTE;

fn is_second_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::CH | Register::DH | Register::BH)
}

impl BitOr for LiveSet {
    type Output = LiveSet;
    fn bitor(self, other: LiveSet) -> LiveSet {
        LiveSet(self.0 | other.0)
    }
}

impl BitAnd for LiveSet {
    type Output = LiveSet;
    fn bitand(self, other: LiveSet) -> LiveSet {
        LiveSet(self.0 & other.0)
    }
}

impl Not for LiveSet {
    type Output = LiveSet;
    fn not(self) -> LiveSet {
        LiveSet(!self.0 & (LiveSet::ALL_REGISTERS.0 | LiveSet::ALL_FLAGS.0))
    }
}

impl fmt::Debug for LiveSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// What one instruction, or a run of them, reads first and what it certainly overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Effect {
    /// Read before being overwritten.
    pub needs: LiveSet,
    /// Certainly overwritten.
    pub kills: LiveSet,
}

impl Effect {
    /// What must be live before, if `after` is live afterwards.
    #[must_use]
    pub fn before(self, after: LiveSet) -> LiveSet {
        self.needs | after & !self.kills
    }

    /// The effect of `self` followed by `next`.
    #[must_use]
    pub fn then(self, next: Effect) -> Effect {
        Effect { needs: self.before(next.needs), kills: self.kills | next.kills }
    }
}

/// Works out what instructions need and overwrite. It is shown all instructions of a block in their
/// order: what one of them overwrites may depend on those before.
#[derive(Debug)]
pub struct Effects {
    info: InstructionInfoFactory,
    /// Whether `rcx` is known not to be zero, so that what it counts happens once at least.
    has_count: bool,
}

impl Default for Effects {
    fn default() -> Effects {
        Effects { info: InstructionInfoFactory::new(), has_count: false }
    }
}

impl Effects {
    /// The next instruction starts a block.
    pub fn start_block(&mut self) {
        self.has_count = false;
    }

    /// The effect of one instruction on general registers and flags.
    pub fn of(&mut self, insn: &Instruction) -> Effect {
        if needs_all_registers(insn) {
            self.has_count = false;
            // `syscall` leaves the flags in r11, where nobody looks for them.
            return Effect { needs: LiveSet::ALL_REGISTERS, kills: LiveSet::NONE };
        }
        let mut effect = self.of_operands(insn);
        if self.has_count && (insn.has_rep_prefix() || insn.has_repne_prefix()) {
            effect.kills = effect.kills | LiveSet::of_flags(insn.rflags_written());
        }
        let is_constant = matches!(insn.code(), Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32);
        if is_constant && insn.op0_register().full_register() == Register::RCX {
            self.has_count = insn.immediate(1) as u32 != 0;
        } else if self.has_count {
            self.has_count = !self.written(insn).has_register(Register::RCX.number() as u8);
        }
        effect
    }

    /// The same in a function. If a fault throws, as it can where programs are built for that, what
    /// the function has in registers that calls keep arrives at its landing pad.
    pub(crate) fn of_in(&mut self, cfg: &Cfg, insn: &Instruction) -> Effect {
        let effect = self.of(insn);
        if cfg.is_guarded(Svma(insn.ip())) { Effect { needs: effect.needs | KEPT, ..effect } } else { effect }
    }

    /// Registers that one instruction may change.
    pub(crate) fn written(&mut self, insn: &Instruction) -> LiveSet {
        let used = self.info.info(insn).used_registers().iter().filter(|used| writes(used.access()));
        used.fold(LiveSet::NONE, |set, used| set | LiveSet::of_register(used.register()))
    }

    /// The same, but for what happens in a callee or in the kernel.
    pub(crate) fn of_operands(&mut self, insn: &Instruction) -> Effect {
        self.of_operands_from(insn, 1)
    }

    /// The same, but for reads of fewer bytes.
    pub(crate) fn of_operands_from(&mut self, insn: &Instruction, least_bytes: usize) -> Effect {
        let mut effect = Effect { needs: LiveSet::of_flags(insn.rflags_read()), kills: LiveSet::NONE };
        let keeps_destination = may_keep_destination(insn);
        for used in self.info.info(insn).used_registers() {
            match used.access() {
                OpAccess::Write if !keeps_destination => {
                    effect.kills = effect.kills | LiveSet::written_of(used.register());
                }
                OpAccess::None | OpAccess::NoMemAccess => {}
                _ if used.register().size() < least_bytes => {}
                _ => effect.needs = effect.needs | LiveSet::read_of(used.register()),
            }
        }
        effect.kills = effect.kills | killed_flags(insn);
        effect
    }
}

/// Calls and system calls hand all registers to code with conventions of its own.
fn needs_all_registers(insn: &Instruction) -> bool {
    Transfer::of(insn).is_call()
        || matches!(
            insn.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Int3
        )
}

/// Whether the instruction can leave a register operand that it "writes" as it was.
fn may_keep_destination(insn: &Instruction) -> bool {
    insn.has_rep_prefix()
        || insn.has_repne_prefix()
        || insn.cpuid_features().contains(&CpuidFeature::CMOV)
        || matches!(
            insn.mnemonic(),
            Mnemonic::Bsf
                | Mnemonic::Bsr
                | Mnemonic::Tzcnt
                | Mnemonic::Lzcnt
                | Mnemonic::Rdsspd
                | Mnemonic::Rdsspq
                | Mnemonic::Lar
                | Mnemonic::Lsl
                | Mnemonic::Xbegin
        )
}

/// Flags that the instruction certainly writes.
fn killed_flags(insn: &Instruction) -> LiveSet {
    if insn.has_rep_prefix() || insn.has_repne_prefix() {
        return LiveSet::NONE;
    }
    let written = insn.rflags_written() | insn.rflags_cleared() | insn.rflags_set();
    match insn.mnemonic() {
        Mnemonic::Sal
        | Mnemonic::Shl
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Rol
        | Mnemonic::Ror
        | Mnemonic::Rcl
        | Mnemonic::Rcr
        | Mnemonic::Shld
        | Mnemonic::Shrd
            if !shifts_by_nonzero_constant(insn) =>
        {
            LiveSet::NONE
        }
        Mnemonic::Bsf | Mnemonic::Bsr | Mnemonic::Tzcnt | Mnemonic::Lzcnt => LiveSet::of_flags(RflagsBits::ZF),
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => LiveSet::of_flags(written | RflagsBits::AF),
        _ => LiveSet::of_flags(written),
    }
}

fn shifts_by_nonzero_constant(insn: &Instruction) -> bool {
    let last = insn.op_count().saturating_sub(1);
    let is_wide = insn.op0_register().is_gpr64() || insn.memory_size().size() == 8;
    let mask = if is_wide { 63 } else { 31 };
    // Rotation of a byte with its carry by nine changes nothing.
    let is_through_carry = matches!(insn.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
    let least_without_effect = if is_through_carry { 9 } else { 64 };
    insn.op_kind(last) == OpKind::Immediate8 && (1..least_without_effect).contains(&(insn.immediate(last) & mask))
}

impl Liveness {
    /// Works backwards through the graph until nothing changes.
    #[must_use]
    pub fn new(image: &Image<'_>, cfg: &Cfg, order: &Order, conventions: FlagConventions) -> Liveness {
        let mut effects = Effects::default();
        let of_block = |id| {
            effects.start_block();
            cfg.instructions(image, id).fold(Effect::default(), |effect, insn| effect.then(effects.of_in(cfg, &insn)))
        };
        let of_blocks: Vec<Effect> = cfg.graph.blocks().map(of_block).collect();
        Liveness::from_effects(&of_blocks, cfg, order, conventions)
    }

    /// The same, from the effects of blocks.
    pub(crate) fn from_effects(
        of_blocks: &[Effect],
        cfg: &Cfg,
        order: &Order,
        conventions: FlagConventions,
    ) -> Liveness {
        let mut this = Liveness { live_in: vec![LiveSet::NONE; cfg.blocks.len()], conventions, registers_at_end: None };
        loop {
            let mut changed = false;
            for &block in order.reverse_post().iter().rev() {
                let live = of_blocks[block.index()].before(this.live_out(cfg, block));
                changed |= std::mem::replace(&mut this.live_in[block.index()], live) != live;
            }
            if !changed {
                return this;
            }
        }
    }

    /// The same with what is known of registers: at the start of each block, and at its end.
    pub(crate) fn with_registers(&self, live_in: &[LiveSet], at_end: Vec<LiveSet>) -> Liveness {
        let known = self.live_in.iter().zip(live_in).map(|(all, registers)| all.flags() | registers.registers());
        Liveness {
            live_in: known.collect(),
            conventions: self.conventions.clone(),
            registers_at_end: Some(at_end.into_iter().map(LiveSet::registers).collect()),
        }
    }

    /// What it assumes about callers and callees.
    #[must_use]
    pub fn conventions(&self) -> &FlagConventions {
        &self.conventions
    }

    /// What is live at the start of a block.
    #[must_use]
    pub fn live_in(&self, block: BlockId) -> LiveSet {
        self.live_in[block.index()]
    }

    /// What is live at the end of a block; for a block that ends in a call, just before the call.
    #[must_use]
    pub fn live_out(&self, cfg: &Cfg, block: BlockId) -> LiveSet {
        let callee = match cfg.block(block).transfer {
            Transfer::Call(target) => Some(target),
            _ => None,
        };
        let after = cfg.graph.out_edges(block).map(|edge| {
            let facts = cfg.edge_facts(edge);
            let registers = LiveSet::ALL_REGISTERS | LiveSet::DIRECTION;
            match (cfg.graph.edge(edge).to, facts.kind) {
                (Some(next), _) => self.live_in[next.index()],
                (None, EdgeKind::Return) => registers | self.conventions.at_return,
                (None, EdgeKind::TailCall) => registers | self.conventions.at_return | self.flags_at_call(facts.target),
                (None, EdgeKind::Trap) => registers,
                (None, _) => registers | LiveSet::ALL_FLAGS,
            }
        });
        let live = after.fold(self.flags_at_call(callee), BitOr::bitor);
        self.registers_at_end.as_ref().map_or(live, |at_end| live.flags() | at_end[block.index()])
    }

    /// What is live just before the call at the end of a block.
    #[must_use]
    pub fn live_before_call(&self, image: &Image<'_>, cfg: &Cfg, block: BlockId) -> LiveSet {
        let behind = self.live_out(cfg, block);
        let call = cfg.instructions(image, block).last().filter(|_| self.registers_at_end.is_some());
        call.map_or(behind | LiveSet::ALL_REGISTERS, |call| Effects::default().of_operands(&call).before(behind))
    }

    /// What is live behind each instruction of a block, if `at_end` is behind the last one.
    #[must_use]
    pub fn live_behind_each(&self, image: &Image<'_>, cfg: &Cfg, block: BlockId, at_end: LiveSet) -> Vec<LiveSet> {
        let mut effects = Effects::default();
        let mut live: Vec<LiveSet> = Vec::new();
        let mut of = |insn: &Instruction| match &self.registers_at_end {
            Some(_) if Transfer::of(insn).is_call() => effects.of_operands(insn),
            _ => effects.of_in(cfg, insn),
        };
        let of_each: Vec<Effect> = cfg.instructions(image, block).map(|insn| of(&insn)).collect();
        of_each.iter().rev().fold(at_end, |behind, effect| {
            live.push(behind);
            effect.before(behind)
        });
        live.reverse();
        live
    }

    fn flags_at_call(&self, callee: Option<Svma>) -> LiveSet {
        callee.and_then(|callee| self.conventions.at_calls.get(&callee)).copied().unwrap_or_default()
    }
}

/// Whether an access can change the register or memory.
pub(crate) fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
