//! Probes that note what instructions load ([`wire::events`]), in copies that are never left.
//!
//! A probe follows its instruction, at the next twin point, and appends the register that was loaded. It needs a register for the place in the buffer;
//! a full buffer shows by the place becoming 0:
//!
//! | flags dead | flags alive |
//! |---|---|
//! | `r` is a dead register, or `rcx` or `rax`, saved | `rcx`, saved; a value in `rcx` moves to `rax`, saved |
//!
//! ```text
//!     mov gs:[saved_r], r                              mov gs:[saved_rcx], rcx
//!     mov r, gs:[next_event]                           mov rcx, gs:[next_event]
//!     mov gs:[r * 8 + EVENTS_END], value               mov gs:[rcx * 8 + EVENTS_END], value
//!     mov dword gs:[r * 8 + EVENTS_END + 8], site      mov dword gs:[rcx * 8 + EVENTS_END + 8], site
//!     add r, 2                                         lea rcx, [rcx + 2]
//!     mov gs:[next_event], r                           mov gs:[next_event], rcx
//!     mov r, gs:[saved_r]                              jrcxz over the jump; jmp on; jmp full
//!     jz full                                      on: mov rcx, gs:[saved_rcx]
//! back:                                            back:
//! ```
//!
//! Behind the function, `full` restores what is saved and goes to the gate, which empties the buffer and comes back to `back`:
//!
//! ```text
//!     mov dword gs:[end_reason], EventsFull
//!     mov gs:[saved_rax], rax
//!     lea rax, [rip + back]; mov gs:[twin], rax
//!     lea rax, [rip + original]
//!     jmp exit
//! ```
//!
//! **Which loads.** Moves from memory to a whole general register, with or without extension. Loads of parts of registers, of vectors, and operands of
//! arithmetic are not noted, but counted ([`crate::Statistics::loads_not_noted`]).

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::{Code, Instruction, InstructionInfoFactory, OpAccess, OpKind};
use image::Svma;
use wire::events::{EVENT_WORDS, EVENTS_END, SITE};
use wire::recovery::{kind, saves};
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::offset;

use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Destination, Original};
use crate::function::Function;
use crate::probe;
use crate::stubs::Stub;

/// What is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Events {
    /// Values that instructions load.
    pub loads: bool,
}

impl Events {
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.loads)
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Events> {
        (bits < 2).then_some(Events { loads: bits != 0 })
    }
}

/// A probe that has filled the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullEvents {
    /// Where the probe goes.
    label: Label,
    /// Where it goes on.
    back: Label,
    original: Original,
    /// What it has saved and not restored.
    saved: u8,
}

/// Bytes of a store of a register, and of `mov dword gs:[end_reason], reason`.
const STORE_LEN: u8 = 9;
const REASON_LEN: u8 = 12;
/// Bytes of `jmp rel8` and `jmp rel32`.
const SHORT_JUMP_LEN: u8 = 2;
const JUMP_LEN: u8 = 5;

/// The register that an instruction loads, if its value is noted.
fn loaded_register(insn: &Instruction) -> Option<Gpr> {
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
    let is_from_memory = is_load && insn.op1_kind() == OpKind::Memory;
    is_from_memory.then(|| Gpr(insn.op0_register().full_register().number() as u8))
}

/// Whether an instruction reads memory through an operand.
fn reads_memory(insn: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let read = |access| matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite);
    (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory)
        && factory.info(insn).used_memory().iter().any(|memory| read(memory.access()))
}

impl Function<'_, '_> {
    /// What is alive behind each instruction of a block; nothing if no event needs to know.
    pub fn alive_in(&self, block: BlockId) -> Vec<LiveSet> {
        let Function { module, flow, .. } = self;
        if !module.options.events.loads
            || !flow.cfg.instructions(module.image, block).any(|insn| loaded_register(&insn).is_some())
        {
            return Vec::new();
        }
        flow.liveness.live_behind_each(module.image, &flow.cfg, block, self.needed_behind(block))
    }

    /// Notes what an instruction has loaded, behind which `live` is needed.
    pub fn write_event(&mut self, insn: &Instruction, live: Option<LiveSet>) -> bool {
        if !self.module.options.events.loads {
            return false;
        }
        let Some(value) = loaded_register(insn) else {
            self.chunk.statistics.loads_not_noted += u64::from(reads_memory(insn));
            return false;
        };
        let site = self.original(Svma(insn.ip())).0 | (self.module.options.cluster as u32) << RECORD_ADDRESS_BITS;
        let next = self.original(Svma(insn.next_ip()));
        let live = live.unwrap_or(LiveSet::ALL_REGISTERS | LiveSet::ALL_FLAGS);
        write(self.chunk, Noted { value, site, next }, live);
        true
    }
}

/// What a probe notes: a register, for an instruction, before the next one.
#[derive(Clone, Copy, Debug)]
struct Noted {
    value: Gpr,
    site: u32,
    next: Original,
}

fn write(chunk: &mut Chunk, noted: Noted, live: LiveSet) {
    chunk.statistics.events += 1;
    let [label, back] = [chunk.asm.new_label(), chunk.asm.new_label()];
    let saved = if (live & LiveSet::ARITHMETIC_FLAGS).is_empty() {
        write_changing_flags(chunk, noted, live, label);
        0
    } else {
        write_keeping_flags(chunk, noted, label)
    };
    chunk.asm.bind(back);
    chunk.full_events.push(FullEvents { label, back, original: noted.next, saved });
}

fn write_changing_flags(chunk: &mut Chunk, noted: Noted, live: LiveSet, full: Label) {
    if let Some(dead) = probe::dead_registers(live).find(|&dead| dead != noted.value) {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(noted.next);
        append(chunk, noted, dead, true);
    } else {
        chunk.statistics.probes_spilled += 1;
        let (spilled, bit, field) = match noted.value {
            Gpr::RCX => (Gpr::RAX, saves::RAX, offset::SAVED_RAX),
            _ => (Gpr::RCX, saves::RCX, offset::SAVED_RCX),
        };
        chunk.begin_run(kind::PROBE, noted.next, bit, [STORE_LEN, 0, 0, 0]);
        chunk.asm.store(field, spilled);
        append(chunk, noted, spilled, true);
        chunk.asm.load(spilled, field);
    }
    chunk.asm.jump_to_if(Condition::Z, full);
}

/// Returns what is saved when the buffer is full.
fn write_keeping_flags(chunk: &mut Chunk, noted: Noted, full: Label) -> u8 {
    chunk.statistics.probes_spilled += 1;
    let is_in_rcx = noted.value == Gpr::RCX;
    let saved = saves::RCX | if is_in_rcx { saves::RAX } else { 0 };
    chunk.begin_run(kind::PROBE, noted.next, saved, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
    if is_in_rcx {
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    }
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    if is_in_rcx {
        chunk.asm.bytes(&[0x48, 0x89, 0xc8]); // mov rax, rcx
    }
    let value = if is_in_rcx { Gpr::RAX } else { noted.value };
    append(chunk, Noted { value, ..noted }, Gpr::RCX, false);
    chunk.asm.jump_over_if_rcx_is_zero(SHORT_JUMP_LEN);
    chunk.asm.jump_over(JUMP_LEN);
    chunk.asm.jump_to(full);
    restore(chunk, saved);
    saved
}

fn restore(chunk: &mut Chunk, saved: u8) {
    if saved & saves::RCX != 0 {
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
    }
    if saved & saves::RAX != 0 {
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
    }
}

/// Appends the event; `place` becomes 0 if the buffer is full, and flags tell if they may change.
fn append(chunk: &mut Chunk, noted: Noted, place: Gpr, changes_flags: bool) {
    const GS: u8 = 0x65;
    let [place_low, value_low] = [place, noted.value].map(|register| register.0 & 7);
    let [place_high, value_high] = [place, noted.value].map(|register| register.0 >> 3);
    let scaled = 0xc5 | place_low << 3;
    let asm = &mut chunk.asm;
    asm.load(place, offset::NEXT_EVENT);
    // mov gs:[place * 8 + EVENTS_END], value
    asm.bytes(&[GS, 0x48 | value_high << 2 | place_high << 1, 0x89, 0x04 | value_low << 3, scaled]);
    asm.bytes(&EVENTS_END.to_le_bytes());
    // mov dword gs:[place * 8 + EVENTS_END + SITE], site
    asm.bytes(&[GS, 0x40 | place_high << 1, 0xc7, 0x04, scaled]);
    asm.bytes(&(EVENTS_END + SITE).to_le_bytes());
    asm.bytes(&noted.site.to_le_bytes());
    let site = asm.position() - 4;
    if changes_flags {
        asm.bytes(&[0x48 | place_high, 0x83, 0xc0 | place_low, EVENT_WORDS as u8]); // add place, 2
    } else {
        asm.advance(place, EVENT_WORDS as i32);
    }
    asm.store(offset::NEXT_EVENT, place);
    chunk.records.push(site);
}

/// Writes where probes of the function go that have filled the buffer.
pub(crate) fn write_full(chunk: &mut Chunk) {
    for FullEvents { label, back, original, saved } in std::mem::take(&mut chunk.full_events) {
        chunk.asm.bind(label);
        if saved != 0 {
            chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
            restore(chunk, saved);
        }
        chunk.begin_run(kind::PROBE, original, saves::RAX, [REASON_LEN + STORE_LEN, 0, 0, 0]);
        chunk.asm.store_constant(offset::END_REASON, EndReason::EventsFull as u32);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        let hole = chunk.asm.address_of(Gpr::RAX);
        chunk.asm.use_label(hole, back);
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        chunk.load_original(Gpr::RAX, original);
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(Stub::Exit));
        chunk.statistics.leaving[EndReason::EventsFull as usize] += 1;
    }
}
