//! Probes that note what instructions load, and other values ([`wire::events`]).
//!
//! The probe of a move to a whole register follows its instruction, at the next twin point, and
//! appends the register that was loaded. It needs a register for the place in the buffer; a full
//! buffer shows by the place becoming 0:
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
//! **Before an instruction** goes what it would change itself, and what it leaves in no register:
//! arguments, addresses, targets, method tables, and most of what is loaded. What is in a register
//! is noted as above. The address of an operand is first made in `rax`, which is saved, with flags
//! as if alive. What lies in memory is first loaded into a dead register, or a saved one, extended
//! by zeros:
//!
//! ```text
//!     mov gs:[saved_rax], rax                          unless two registers are dead
//!     mov v, operand                                   fs and all; movzx for one byte or two
//!     mov r, gs:[next_event]                           and so on, with v as the value
//! ```
//!
//! Nothing is read that the instruction would not read. If that faults, the instruction, which
//! loads the same, is where the program finds itself, and the fault is of a write if it would write
//! there. In a program with races, and in memory of a device, the instruction may find something
//! else there than was noted.
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
//! **Which loads.** Every instruction that reads memory, once for each execution:
//! * Moves to a whole general register, with or without extension: that register, behind them.
//! * All others: what they read, before them, extended by zeros, and of more than eight bytes the
//!   lowest eight. A vector has no other value that fits, and these are an element of it, or more,
//!   which a hash would not be.
//! * What the stack gives to pops, `leave` and returns is loaded, too: where registers and return
//!   addresses are saved in memory by plain stores, plain loads bring them back.
//!
//! Not noted, but counted ([`crate::Statistics::loads_not_noted`]), are instructions of which only
//! their execution shows what they read, or whether: repeated string instructions, gathers and what
//! masks choose, bits of bit strings; those that read at two places (`cmps`) or no value (the state
//! of the processor); and those with operands that a copy cannot name, or that it does not execute
//! (`gs`). A [`Selection`] leaves places out.

mod selection;
pub(crate) mod sources;

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::events::{EVENT_WORDS, EVENTS_END, Kind, SITE, TAG};
use wire::recovery::{kind, saves};
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::offset;

use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, FullEvents, Original};
use crate::classify::{self, Body};
use crate::function::Function;
use crate::memory::{LEA, Operand, write_form, write_with_operand};
use crate::saving::{REGISTERS, begin_saving, keeps_flags, write_restore_registers};
use crate::{Probe, exits, probe};
pub use selection::{Candidate, Selection};
use sources::{Outcome, Read, Source, Width};
pub use wire::events::Kinds as Events;

/// Bytes of a store of a register.
pub(crate) const STORE_LEN: u8 = 9;
/// Bytes of `jmp rel8` and `jmp rel32`.
const SHORT_JUMP_LEN: u8 = 2;
const JUMP_LEN: u8 = 5;

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
        let Some(value) = sources::loaded_register(insn) else { return false };
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
        let mut is_load_noted = sources::loaded_register(insn).is_some();
        let mut is_branch_noted = false;
        for (kind, source) in arguments.into_iter().chain(sources::before(insn, events)) {
            let tag = kind.tag();
            is_any |= match source {
                Source::Register(value) => {
                    write(self.chunk, Noted { value, site, at, tag }, live);
                    true
                }
                Source::Loaded(read) => {
                    let is_noted = self.write_read(read, Noted { value: Gpr::RAX, site, at, tag }, live);
                    is_load_noted |= is_noted && kind == Kind::Load;
                    is_noted
                }
                Source::Address(operand) => {
                    self.write_operand_address(operand, Noted { value: Gpr::RAX, site, at, tag })
                }
                Source::Outcome(outcome) => {
                    is_branch_noted = self.write_outcome(outcome, Noted { value: Gpr::RAX, site, at, tag });
                    is_branch_noted
                }
            };
        }
        if events.has(Events::LOADS) {
            let (n_reads, _) = sources::places_read(insn);
            self.chunk.statistics.loads_not_noted += u64::from(n_reads.saturating_sub(is_load_noted.into()));
        }
        let is_branch = events.has(Events::BRANCH_TARGETS) && sources::is_branch(insn);
        self.chunk.statistics.branches_not_noted += u64::from(is_branch && !is_branch_noted);
        is_any
    }

    fn event_site(&self, insn: &Instruction) -> u32 {
        self.original(Svma(insn.ip())).0 | (self.module.options.cluster as u32) << RECORD_ADDRESS_BITS
    }

    /// Notes the address of an operand. Whether it is in reach.
    fn write_operand_address(&mut self, operand: Operand, noted: Noted) -> bool {
        let Some(target) = self.target_of(operand) else { return false };
        self.write_made(noted, &|chunk| {
            write_with_operand(&mut chunk.asm, LEA, Gpr::RAX, operand);
            set_target(chunk, target);
        });
        true
    }

    /// Notes what an instruction is about to read, where `live` is needed. Whether it is in reach.
    fn write_read(&mut self, read: Read, noted: Noted, live: LiveSet) -> bool {
        let Some(target) = self.target_of(read.operand) else { return false };
        let [label, back] = [self.chunk.asm.new_label(), self.chunk.asm.new_label()];
        let (value, place, saved) = registers_for_read(live);
        if saved == 0 {
            self.chunk.statistics.probes_dead_register += 1;
        } else {
            self.chunk.statistics.probes_spilled += 1;
        }
        begin_saving(self.chunk, noted.at, saved);
        if let Some(run) = self.chunk.runs.last_mut() {
            run.writes = read.is_written.into();
        }
        write_read(self.chunk, value, read);
        set_target(self.chunk, target);
        let changes_flags = !keeps_flags(live);
        append(self.chunk, Noted { value, ..noted }, place, changes_flags);
        if changes_flags {
            write_restore_registers(self.chunk, saved);
            self.chunk.asm.jump_to_if(Condition::Z, label);
        } else {
            jump_if_rcx_is_zero(self.chunk, label);
            write_restore_registers(self.chunk, saved);
        }
        let saved = if changes_flags { 0 } else { saved };
        end_probe(self.chunk, FullEvents { label, back, original: noted.at, saved });
        true
    }

    /// How far from the start of the image an operand is that is relative to the instruction
    /// pointer: `None` if it is out of reach, and nothing for any other operand.
    fn target_of(&self, operand: Operand) -> Option<Option<i64>> {
        match operand {
            Operand::At(at) => self.module.distance(at).map(Some),
            Operand::Registers(..) => Some(None),
        }
    }

    /// Notes where a conditional jump goes on. Whether both ways are in reach.
    fn write_outcome(&mut self, outcome: Outcome, noted: Noted) -> bool {
        let Outcome { condition, taken, behind } = outcome;
        let [Some(to_taken), Some(to_behind)] = [taken, behind].map(|way| self.module.distance(way)) else {
            return false;
        };
        self.write_made(noted, &|chunk| {
            write_with_operand(&mut chunk.asm, LEA, Gpr::RAX, Operand::At(behind));
            set_target(chunk, Some(to_behind));
            write_with_operand(&mut chunk.asm, LEA, Gpr::RCX, Operand::At(taken));
            set_target(chunk, Some(to_taken));
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

/// Makes the operand that the last instruction ends with lead to its target, if that is so far from
/// the start of the image.
fn set_target(chunk: &mut Chunk, target: Option<i64>) {
    if let Some(target) = target {
        chunk.set_address(chunk.position() - 4, chunk.position(), target);
    }
}

/// The registers for what is read, and for the place in the buffer: dead ones, or others that are
/// saved, and what is saved.
fn registers_for_read(live: LiveSet) -> (Gpr, Gpr, u8) {
    let mut saved = 0;
    let mut take = |dead: Option<Gpr>, not: Option<Gpr>| {
        dead.unwrap_or_else(|| {
            let is_free = |&&(bit, register, _): &&(u8, Gpr, u32)| {
                live.has_register(register.0) && Some(register) != not && saved & bit == 0
            };
            let (bit, register, _) = REGISTERS.iter().find(is_free).expect("of three, two are free or dead");
            saved |= bit;
            *register
        })
    };
    // Whether the buffer is full shows by `rcx` where flags are alive.
    let must_be_rcx = keeps_flags(live);
    let mut dead = probe::dead_registers(live).filter(|&dead| !must_be_rcx || dead != Gpr::RCX);
    let value = take(dead.next(), must_be_rcx.then_some(Gpr::RCX));
    let place = if must_be_rcx {
        let is_dead = !live.has_register(Gpr::RCX.0);
        saved |= if is_dead { 0 } else { saves::RCX };
        Gpr::RCX
    } else {
        take(dead.next(), None)
    };
    (value, place, saved)
}

/// Loads what is read into a register, extended by zeros.
fn write_read(chunk: &mut Chunk, register: Gpr, read: Read) {
    let Read { operand, has_fs, is_short, width, .. } = read;
    chunk.asm.bytes(if has_fs { &[0x64] } else { &[] });
    chunk.asm.bytes(if is_short { &[0x67] } else { &[] });
    let (rex, opcode): (u8, &[u8]) = match width {
        Width::Byte => (0x40, &[0x0f, 0xb6]),
        Width::Word => (0x40, &[0x0f, 0xb7]),
        Width::Dword => (0x40, &[0x8b]),
        Width::Qword => (0x48, &[0x8b]),
    };
    write_form(&mut chunk.asm, rex, opcode, register, operand);
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
