//! Probes: what a copy executes at the start of a block, beyond the original.
//!
//! A probe does up to three things: it appends the block's record, compares the cursor with the
//! limit, and counts down the checks of the burst. The record needs a register but no flags (`mov`
//! and `lea` only); the others change flags. What it uses, by what the block needs at its start:
//!
//! | flags | dead register | template |
//! |---|---|---|
//! | untouched, or dead | yes | uses it |
//! | untouched, or dead | no | `rax`, saved in `saved_rax` |
//! | touched and live | any | `rcx`, saved; flags saved through `rax`, saved |
//!
//! ```text
//!                        mov gs:[saved_rax], rax            mov gs:[saved_rax], rax
//!                                                           mov gs:[saved_rcx], rcx
//!                                                           lahf; seto al; mov gs:[saved_flags], rax
//! mov r, gs:[cursor]     mov rax, gs:[cursor]               mov rcx, gs:[cursor]
//! mov dword [r], record  mov dword [rax], record            mov dword [rcx], record
//! lea r, [r+4]           lea rax, [rax+4]                   lea rcx, [rcx+4]
//! mov gs:[cursor], r     mov gs:[cursor], rax               mov gs:[cursor], rcx
//! cmp r, gs:[limit]      cmp rax, gs:[limit]                cmp rcx, gs:[limit]
//!                        mov rax, gs:[saved_rax]
//! jae full               jae full                           jae full, where flags are restored first
//! dec dword gs:[checks]  dec dword gs:[checks]              dec dword gs:[checks]
//! jz ended               jz ended                           jz ended, where flags are restored first
//!                                                           mov rax, gs:[saved_flags]; add al, 0x7f; sahf
//!                                                           mov rcx, gs:[saved_rcx]; mov rax, gs:[saved_rax]
//! ```
//!
//! `add al, 0x7f` overflows exactly if `al` is 1, and `sahf` sets the other flags without touching
//! overflow.
//!
//! A probe is one run of recovery: the thread is about to be at the block's original address. Dead
//! registers may hold anything there.

use flow::liveness::LiveSet;
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use crate::Probe;
use crate::asm::{Asm, Condition, Gpr};
use crate::chunk::{Chunk, ExitState, Original};

/// What a probe does; each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// Appends the block's record.
    Record,
    /// Leaves if the buffer is full.
    Limit,
    /// Leaves if the burst's checks are used up.
    Check,
}

/// Registers in the order in which probes prefer them: those with the shortest encodings first.
/// Never the stack pointer.
const PREFERENCE: [u8; 15] = [0, 1, 2, 6, 7, 3, 8, 9, 10, 11, 14, 15, 5, 12, 13];

/// Ends of the three saves of the template for live flags: two stores of 9 bytes; `lahf`, `seto al`
/// and a store.
pub(crate) const FLAGS_SAVE_END: [u8; 4] = [9, 18, 18 + 1 + 3 + 9, 0];

/// A block's start, as a probe sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub block: Original,
    /// What the block needs.
    pub live: LiveSet,
    /// High bits of the block's record.
    pub cluster: u32,
    pub probe: Probe,
}

/// Writes a probe.
pub(crate) fn write(chunk: &mut Chunk, site: &Site, depth: Depth) {
    let records = site.probe == Probe::Trace;
    if depth == Depth::Check {
        chunk.statistics.checks += 1;
    } else if !records {
        return;
    }
    let flags_are_live = !(site.live & LiveSet::ARITHMETIC_FLAGS).is_empty();
    if depth > Depth::Record && flags_are_live {
        chunk.statistics.probes_flags_saved += 1;
        write_saving_flags(chunk, site, depth);
    } else if !records {
        chunk.begin_clean_probe(site.block);
        write_check(chunk, site, ExitState::Clean);
    } else if let Some(dead) = dead_register(site.live) {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(site.block);
        write_record(chunk, site, dead);
        write_checks(chunk, site, depth, dead, false);
    } else {
        chunk.statistics.probes_spilled += 1;
        chunk.begin_run(kind::PROBE, site.block, saves::RAX, [9, 0, 0, 0]);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        write_record(chunk, site, Gpr::RAX);
        write_checks(chunk, site, depth, Gpr::RAX, true);
    }
}

pub(crate) fn dead_register(live: LiveSet) -> Option<Gpr> {
    dead_registers(live).next()
}

/// Registers that nobody needs, the best first.
pub(crate) fn dead_registers(live: LiveSet) -> impl Iterator<Item = Gpr> {
    PREFERENCE.into_iter().filter(move |&number| !live.has_register(number)).map(Gpr)
}

fn write_record(chunk: &mut Chunk, site: &Site, register: Gpr) {
    chunk.asm.load(register, offset::CURSOR);
    let value = chunk.asm.store_constant_at(register, site.cluster | site.block.0);
    chunk.records.push(value);
    chunk.asm.advance(register, 4);
    chunk.asm.store(offset::CURSOR, register);
}

/// What follows the record where flags are dead or the probe ends with it. `rax` is restored if it
/// is spilled.
fn write_checks(chunk: &mut Chunk, site: &Site, depth: Depth, cursor: Gpr, is_spilled: bool) {
    if depth > Depth::Record {
        chunk.asm.compare(cursor, offset::LIMIT);
    }
    if is_spilled {
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
    }
    if depth > Depth::Record {
        let full = chunk.exit(site.block, EndReason::BufferFull, ExitState::Clean);
        chunk.asm.jump_to_if(Condition::AE, full);
    }
    if depth == Depth::Check {
        write_check(chunk, site, ExitState::Clean);
    }
}

fn write_check(chunk: &mut Chunk, site: &Site, state: ExitState) {
    chunk.asm.decrement(offset::CHECKS);
    let ended = chunk.exit(site.block, EndReason::Full, state);
    chunk.asm.jump_to_if(Condition::Z, ended);
}

fn write_saving_flags(chunk: &mut Chunk, site: &Site, depth: Depth) {
    chunk.begin_run(kind::PROBE, site.block, saves::RAX | saves::RCX | saves::FLAGS, FLAGS_SAVE_END);
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    save_flags(&mut chunk.asm);
    if site.probe == Probe::Trace {
        write_record(chunk, site, Gpr::RCX);
        chunk.asm.compare(Gpr::RCX, offset::LIMIT);
        let full = chunk.exit(site.block, EndReason::BufferFull, ExitState::FlagsSaved);
        chunk.asm.jump_to_if(Condition::AE, full);
    }
    if depth == Depth::Check {
        write_check(chunk, site, ExitState::FlagsSaved);
    }
    restore_all(&mut chunk.asm);
}

/// Saves the arithmetic flags; takes `rax`.
pub(crate) fn save_flags(asm: &mut Asm) {
    asm.bytes(&[0x9f]); // lahf
    asm.bytes(&[0x0f, 0x90, 0xc0]); // seto al
    asm.store(offset::SAVED_FLAGS, Gpr::RAX);
}

/// Undoes what code that saves flags has done to the program's registers and flags.
pub(crate) fn restore_all(asm: &mut Asm) {
    restore_flags(asm);
    asm.load(Gpr::RCX, offset::SAVED_RCX);
    asm.load(Gpr::RAX, offset::SAVED_RAX);
}

/// Restores the arithmetic flags; takes `rax`.
pub(crate) fn restore_flags(asm: &mut Asm) {
    asm.load(Gpr::RAX, offset::SAVED_FLAGS);
    restore_packed_flags(asm);
}

/// The same if `rax` still holds them.
pub(crate) fn restore_packed_flags(asm: &mut Asm) {
    asm.bytes(&[0x04, 0x7f]); // add al, 0x7f
    asm.bytes(&[0x9e]); // sahf
}
