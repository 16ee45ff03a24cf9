//! What probes save that use registers and flags of the program.
//!
//! What nobody needs is not saved. The rest goes to fields of the thread's header, in the order of
//! [`wire::recovery::saves`], so that the rule of recovery for the probe is right after each of its
//! first instructions.

use flow::liveness::LiveSet;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use crate::asm::Gpr;
use crate::chunk::{Chunk, Original};
use crate::probe;

/// Registers that can be saved, with the bit and the field of each.
pub(crate) const REGISTERS: [(u8, Gpr, u32); 3] = [
    (saves::RAX, Gpr::RAX, offset::SAVED_RAX),
    (saves::RCX, Gpr::RCX, offset::SAVED_RCX),
    (saves::RDX, Gpr::RDX, offset::SAVED_RDX),
];

pub(crate) fn keeps_flags(live: LiveSet) -> bool {
    !(live & LiveSet::ARITHMETIC_FLAGS).is_empty()
}

/// What code that uses `rax`, `rcx` and flags has to save.
pub(crate) fn saved(live: LiveSet) -> u8 {
    saved_with_rdx(live) & !saves::RDX
}

/// The same if it uses `rdx`, too.
pub(crate) fn saved_with_rdx(live: LiveSet) -> u8 {
    let flags = if keeps_flags(live) { saves::FLAGS } else { 0 };
    let needed = REGISTERS.iter().filter(|(_, register, _)| live.has_register(register.0));
    needed.fold(flags, |saved, (bit, _, _)| saved | bit)
}

/// Begins a probe that saves these.
pub(crate) fn begin_saving(chunk: &mut Chunk, at: Original, saved: u8) {
    chunk.begin_run(kind::PROBE, at, saved, [0; 4]);
    let (start, mut n_saves) = (chunk.position(), 0);
    let mut end_save = |chunk: &mut Chunk| {
        let end = (chunk.position() - start) as u8;
        if let Some(run) = chunk.runs.last_mut() {
            run.save_end[n_saves] = end;
        }
        n_saves += 1;
    };
    for (_, register, field) in REGISTERS.into_iter().filter(|(bit, _, _)| saved & bit != 0) {
        chunk.asm.store(field, register);
        end_save(chunk);
    }
    if saved & saves::FLAGS != 0 {
        probe::save_flags(&mut chunk.asm);
        end_save(chunk);
    }
}

/// Restores them.
pub(crate) fn write_restore(chunk: &mut Chunk, saved: u8) {
    if saved & saves::FLAGS != 0 {
        probe::restore_flags(&mut chunk.asm);
    }
    write_restore_registers(chunk, saved);
}

/// Restores those that are registers.
pub(crate) fn write_restore_registers(chunk: &mut Chunk, saved: u8) {
    for (_, register, field) in REGISTERS.into_iter().rev().filter(|(bit, _, _)| saved & bit != 0) {
        chunk.asm.load(register, field);
    }
}

/// Writes code that needs two registers and changes flags: dead ones, or `rcx` and `rax`, saved.
/// Returns what is saved.
pub(crate) fn with_two_registers(
    chunk: &mut Chunk,
    at: Original,
    live: LiveSet,
    write: impl FnOnce(&mut Chunk, [Gpr; 2]),
) -> u8 {
    let mut dead = probe::dead_registers(live).filter(|_| !keeps_flags(live));
    let (registers, saved) = match (dead.next(), dead.next()) {
        (Some(first), Some(second)) => ([first, second], 0),
        (Some(first), None) if first != Gpr::RAX => ([first, Gpr::RAX], saves::RAX),
        _ => ([Gpr::RCX, Gpr::RAX], saved(live)),
    };
    begin_saving(chunk, at, saved);
    write(chunk, registers);
    write_restore(chunk, saved);
    saved
}
