//! Probes that note what instructions load, and other values ([`wire::events`]).
//!
//! The probe of a load follows its instruction, at the next twin point, and appends the register
//! that was loaded. It needs a register for the place in the buffer; a full buffer shows by the
//! place becoming 0:
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
//! Behind the function, `full` restores what is saved. In a burst, it ends there, and the next tick
//! empties the buffer. A copy that is never left goes to the gate, which empties the buffer and
//! comes back to `back`:
//!
//! ```text
//!     mov dword gs:[end_reason], EventsFull
//!     mov gs:[saved_rax], rax
//!     lea rax, [rip + back]; mov gs:[twin], rax
//!     lea rax, [rip + original]
//!     jmp exit
//! ```
//!
//! The tag, between site and `add`, is written unless it is 0: places ahead of the last event are
//! empty.
//!
//! **Before an instruction** goes what it would change itself: arguments, addresses, targets and
//! method tables. What is in a register is noted as above; an operand in memory, or its address, is
//! first loaded into `rax`, which is saved, with flags as if alive. If that faults, the
//! instruction, which loads the same, is where the program finds itself.
//!
//! **Conditional jumps.** Where one goes on is an original address, as for computed jumps, and its
//! own condition chooses it, while the flags are the program's:
//!
//! ```text
//!     mov gs:[saved_rax], rax
//!     mov gs:[saved_rcx], rcx
//!     lea rax, [rip + behind]
//!     lea rcx, [rip + taken]
//!     cmovcc rax, rcx
//!     mov rcx, gs:[next_event]                         and so on, with rax as the value
//! ```
//!
//! Jumps that depend on a counter in `rcx` have no such move. They are not noted, but counted
//! ([`crate::Statistics::branches_not_noted`]).
//!
//! **Which loads.** Moves from memory to a whole general register, with or without extension. Loads
//! of parts of registers, of vectors, and operands of arithmetic are not noted, but counted
//! ([`crate::Statistics::loads_not_noted`]). A [`Selection`] leaves places out.

mod selection;
pub(crate) mod sources;

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::{Code, Instruction, OpKind};
use image::Svma;
use wire::events::{EVENT_WORDS, EVENTS_END, Kind, SITE, TAG};
use wire::recovery::{kind, saves};
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::offset;

use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Original};
use crate::classify::{self, Body};
use crate::function::Function;
use crate::{Probe, exits, probe};
pub use selection::{Candidate, Selection};
use sources::{Operand, Outcome, Source};
pub use wire::events::Kinds as Events;

/// A probe that has filled the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullEvents {
    /// Where the probe goes.
    pub label: Label,
    /// Where it goes on.
    pub back: Label,
    pub original: Original,
    /// What it has saved and not restored.
    pub saved: u8,
}

/// Bytes of a store of a register.
pub(crate) const STORE_LEN: u8 = 9;
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

impl Function<'_, '_> {
    /// What is alive behind each instruction of a block; nothing if no event needs to know.
    pub fn alive_in(&self, block: BlockId) -> Vec<LiveSet> {
        let Function { module, flow, .. } = self;
        if module.options.events.is_empty() && module.options.probe.cache().is_none() {
            return Vec::new();
        }
        let mut live =
            module.liveness(self.id).live_behind_each(module.image, &flow.cfg, block, self.needed_behind(block));
        for (insn, live) in flow.cfg.instructions(module.image, block).zip(&mut live) {
            // Behind what is replaced, everything is the program's at once.
            if classify::body(&insn) != Body::Copy {
                *live = LiveSet::ALL_REGISTERS | LiveSet::ALL_FLAGS;
            }
        }
        live
    }

    /// Notes what an instruction has loaded, behind which `live` is needed. Whether it has loaded
    /// something.
    pub fn write_event(&mut self, insn: &Instruction, live: Option<LiveSet>) -> bool {
        if !self.module.events_at(self.original(Svma(insn.ip()))).has(Events::LOADS) {
            return false;
        }
        let Some(value) = loaded_register(insn) else {
            self.chunk.statistics.loads_not_noted += u64::from(sources::reads_memory(insn));
            return false;
        };
        let (site, at) = (self.event_site(insn), self.original(Svma(insn.next_ip())));
        let live = live.unwrap_or(LiveSet::ALL_REGISTERS | LiveSet::ALL_FLAGS);
        write(self.chunk, Noted { value, site, at, tag: Kind::Load.tag() }, live);
        true
    }

    /// Notes what is to be noted before an instruction, where `live` is needed; before the first
    /// one of a block, arguments, too. Whether there was anything.
    pub fn write_events_before(&mut self, block: BlockId, insn: &Instruction, live: LiveSet) -> bool {
        if self.module.options.events.is_empty() {
            return false;
        }
        let events = self.module.events_at(self.original(Svma(insn.ip())));
        let is_first = insn.ip() == self.flow.cfg.block(block).range.start.0;
        let arguments = if is_first && events.has(Events::ARGUMENTS) {
            sources::arguments(self.module.image, self.flow, block)
        } else {
            Vec::new()
        };
        let (site, at) = (self.event_site(insn), self.original(Svma(insn.ip())));
        let mut is_any = false;
        let mut is_branch_noted = false;
        for (kind, source) in arguments.into_iter().chain(sources::before(insn, events)) {
            let tag = kind.tag();
            is_any |= match source {
                Source::Register(value) => {
                    write(self.chunk, Noted { value, site, at, tag }, live);
                    true
                }
                Source::Loaded(operand) => self.write_computed(LOAD, operand, Noted { value: Gpr::RAX, site, at, tag }),
                Source::Address(operand) => self.write_computed(LEA, operand, Noted { value: Gpr::RAX, site, at, tag }),
                Source::Outcome(outcome) => {
                    is_branch_noted = self.write_outcome(outcome, Noted { value: Gpr::RAX, site, at, tag });
                    is_branch_noted
                }
            };
        }
        let is_branch = events.has(Events::BRANCH_TARGETS) && sources::is_branch(insn);
        self.chunk.statistics.branches_not_noted += u64::from(is_branch && !is_branch_noted);
        is_any
    }

    fn event_site(&self, insn: &Instruction) -> u32 {
        self.original(Svma(insn.ip())).0 | (self.module.options.cluster as u32) << RECORD_ADDRESS_BITS
    }

    /// Notes what `opcode` makes of an operand. Whether it is in reach.
    fn write_computed(&mut self, opcode: u8, operand: Operand, noted: Noted) -> bool {
        let target = match operand {
            Operand::At(at) => match self.module.distance(at) {
                Some(target) => Some(target),
                None => return false,
            },
            Operand::Registers(..) => None,
        };
        self.write_made(noted, &|chunk| match target {
            Some(target) => write_address(chunk, opcode, Gpr::RAX, operand, target),
            None => write_with_operand(chunk, opcode, Gpr::RAX, operand),
        });
        true
    }

    /// Notes where a conditional jump goes on. Whether both ways are in reach.
    fn write_outcome(&mut self, outcome: Outcome, noted: Noted) -> bool {
        let Outcome { condition, taken, behind } = outcome;
        let [Some(to_taken), Some(to_behind)] = [taken, behind].map(|way| self.module.distance(way)) else {
            return false;
        };
        self.write_made(noted, &|chunk| {
            write_address(chunk, LEA, Gpr::RAX, Operand::At(behind), to_behind);
            write_address(chunk, LEA, Gpr::RCX, Operand::At(taken), to_taken);
            chunk.asm.bytes(&[0x48, 0x0f, 0x40 | condition.0, 0xc1]); // cmovcc rax, rcx
        });
        true
    }

    /// Notes what `make` makes in `rax`, with `rax` and `rcx` saved.
    fn write_made(&mut self, noted: Noted, make: &dyn Fn(&mut Chunk)) {
        let [full, back] = [self.chunk.asm.new_label(), self.chunk.asm.new_label()];
        let saved = write_keeping_flags(self.chunk, noted, full, Some(make));
        end_probe(self.chunk, FullEvents { label: full, back, original: noted.at, saved });
    }
}

/// What a probe notes: a register, under a site and a tag, when the program is at `at`.
#[derive(Clone, Copy, Debug)]
struct Noted {
    value: Gpr,
    site: u32,
    at: Original,
    tag: u32,
}

/// Opcodes of `mov` and `lea` to a register.
const LOAD: u8 = 0x8b;
pub(crate) const LEA: u8 = 0x8d;

/// Writes `opcode register, operand`, the operand being so far from the start of the image.
fn write_address(chunk: &mut Chunk, opcode: u8, register: Gpr, operand: Operand, target: i64) {
    write_with_operand(chunk, opcode, register, operand);
    chunk.set_address(chunk.position() - 4, chunk.position(), target);
}

/// Writes `opcode register, operand`. What is relative to the instruction pointer ends in 4 bytes
/// that are still to be set.
pub(crate) fn write_with_operand(chunk: &mut Chunk, opcode: u8, register: Gpr, operand: Operand) {
    let (field, rex_w) = ((register.0 & 7) << 3, 0x48 | (register.0 >> 3) << 2);
    let Operand::Registers(base, index, displacement) = operand else {
        chunk.asm.bytes(&[rex_w, opcode, 0x05 | field, 0, 0, 0, 0]);
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
    let rex = rex_w | (index.0 >> 3) << 1 | base.0 >> 3;
    let needs_sib = index.0 != 4 || base.0 & 7 == 4 || (mode == 0 && base.0 == 5);
    if needs_sib {
        let sib = scale << 6 | (index.0 & 7) << 3 | base.0 & 7;
        chunk.asm.bytes(&[rex, opcode, mode | field | 4, sib]);
    } else {
        chunk.asm.bytes(&[rex, opcode, mode | field | base.0 & 7]);
    }
    match (mode, short) {
        (0x00, Some(_)) => {}
        (0x40, Some(short)) => chunk.asm.bytes(&short.to_le_bytes()),
        _ => chunk.asm.bytes(&displacement.to_le_bytes()),
    }
}

/// Notes what is in a register.
fn write(chunk: &mut Chunk, noted: Noted, live: LiveSet) {
    let [label, back] = [chunk.asm.new_label(), chunk.asm.new_label()];
    let saved = if (live & LiveSet::ARITHMETIC_FLAGS).is_empty() {
        write_changing_flags(chunk, noted, live, label);
        0
    } else if noted.value == Gpr::RCX {
        let moved = Noted { value: Gpr::RAX, ..noted };
        write_keeping_flags(chunk, moved, label, Some(&|chunk| chunk.asm.bytes(&[0x48, 0x89, 0xc8]))) // mov rax, rcx
    } else {
        write_keeping_flags(chunk, noted, label, None)
    };
    end_probe(chunk, FullEvents { label, back, original: noted.at, saved });
}

fn end_probe(chunk: &mut Chunk, full: FullEvents) {
    chunk.statistics.events += 1;
    chunk.asm.bind(full.back);
    chunk.full_events.push(full);
}

fn write_changing_flags(chunk: &mut Chunk, noted: Noted, live: LiveSet, full: Label) {
    if let Some(dead) = probe::dead_registers(live).find(|&dead| dead != noted.value) {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(noted.at);
        append(chunk, noted, dead, true);
    } else {
        chunk.statistics.probes_spilled += 1;
        let (spilled, bit, field) = match noted.value {
            Gpr::RCX => (Gpr::RAX, saves::RAX, offset::SAVED_RAX),
            _ => (Gpr::RCX, saves::RCX, offset::SAVED_RCX),
        };
        chunk.begin_run(kind::PROBE, noted.at, bit, [STORE_LEN, 0, 0, 0]);
        chunk.asm.store(field, spilled);
        append(chunk, noted, spilled, true);
        chunk.asm.load(spilled, field);
    }
    chunk.asm.jump_to_if(Condition::Z, full);
}

/// Notes a register, or what `make` makes in `rax`. Returns what is saved when the buffer is full.
fn write_keeping_flags(chunk: &mut Chunk, noted: Noted, full: Label, make: Option<&dyn Fn(&mut Chunk)>) -> u8 {
    chunk.statistics.probes_spilled += 1;
    let is_made = make.is_some();
    let saved = saves::RCX | if is_made { saves::RAX } else { 0 };
    chunk.begin_run(kind::PROBE, noted.at, saved, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
    if is_made {
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    }
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    if let Some(make) = make {
        make(chunk);
    }
    append(chunk, noted, Gpr::RCX, false);
    jump_if_rcx_is_zero(chunk, full);
    restore(chunk, saved);
    saved
}

/// Goes there if the place in the buffer, which is in `rcx`, has become 0; keeps flags.
pub(crate) fn jump_if_rcx_is_zero(chunk: &mut Chunk, full: Label) {
    chunk.asm.jump_over_if_rcx_is_zero(SHORT_JUMP_LEN);
    chunk.asm.jump_over(JUMP_LEN);
    chunk.asm.jump_to(full);
}

pub(crate) fn restore(chunk: &mut Chunk, saved: u8) {
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
    if noted.tag != 0 {
        // mov dword gs:[place * 8 + EVENTS_END + TAG], tag
        asm.bytes(&[GS, 0x40 | place_high << 1, 0xc7, 0x04, scaled]);
        asm.bytes(&(EVENTS_END + TAG).to_le_bytes());
        asm.bytes(&noted.tag.to_le_bytes());
    }
    if changes_flags {
        asm.bytes(&[0x48 | place_high, 0x83, 0xc0 | place_low, EVENT_WORDS as u8]); // add place, 2
    } else {
        asm.advance(place, EVENT_WORDS as i32);
    }
    asm.store(offset::NEXT_EVENT, place);
    chunk.records.push(site);
}

/// Writes where probes of the function go that have filled the buffer: to the gate and back, or out
/// of the burst.
pub(crate) fn write_full(chunk: &mut Chunk, probe: Probe) {
    for FullEvents { label, back, original, saved } in std::mem::take(&mut chunk.full_events) {
        chunk.asm.bind(label);
        if saved != 0 {
            chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
            restore(chunk, saved);
        }
        if probe.stays() {
            exits::write_detour(chunk, original, EndReason::EventsFull, back);
        } else {
            chunk.begin_clean_probe(original);
            chunk.leave(original, EndReason::EventsFull);
        }
    }
}
