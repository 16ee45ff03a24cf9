//! What probes of exact mode do, as instructions.
//!
//! Counting is one instruction that changes memory, so that a signal finds it done or not done, and
//! a handler that counts the same loses nothing. It changes flags, which are saved where they are
//! alive. The path register is the thread's own and comes back with the interrupted code, so that
//! it may be changed in steps, by `lea`.

use flow::liveness::LiveSet;
use wire::exact::CELLS;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::path_metric::write_end_with_misses;
use super::trigger::{self, Visit};
use super::{Metric, hashed, samples, trace};
use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Ended, Original, Owner};
use crate::probe::{self, FLAGS_SAVE_END};
use crate::saving::{begin_saving, saved, write_restore_registers};

/// What a probe does. A cell is the number of its first counter in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Nothing,
    /// The counter goes up.
    Count(u32),
    /// A path starts.
    Start(i32),
    /// The same, in the middle of one that is not known; the counter goes up.
    Lost(u32, i32),
    /// `register += amount`
    Add(i32),
    /// The path `register + id_offset` ends; the next one starts if it stays in the function.
    End {
        paths: Paths,
        id_offset: i32,
        restart: Option<i32>,
    },
    /// The block that control comes to is recorded, or a check is made, in either version.
    Visit(Visit),
    /// After a jump through a table that other jumps share: what to add is in the row that the jump
    /// has left in `saved_rdx`, at this index, and whether the path ends there.
    Row {
        index: u32,
        paths: Paths,
        restart: Option<i32>,
    },
}

/// An entry of a row: what to add to the register, and whether the path ends then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowEntry {
    pub amount: i32,
    pub is_end: bool,
}

impl RowEntry {
    pub fn bytes(self) -> [u8; ROW_ENTRY_BYTES as usize] {
        let [a, b, c, d] = self.amount.to_le_bytes();
        [a, b, c, d, u8::from(self.is_end), 0, 0, 0]
    }
}

/// Bytes of an entry of a row.
const ROW_ENTRY_BYTES: u32 = 8;

/// Where paths are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    /// In cells, from this one on.
    Cells(u32),
    /// The same, and misses on them in others ([`super::path_metric`]).
    CellsWithMisses { first: u32, misses: u32 },
    /// In the path table.
    Table { owner: Owner, metric: Option<Metric> },
    /// In the path table, by this key, if a sample is wanted.
    Samples(u32),
    /// By whoever reads the trace, under this key.
    Trace(u32),
}

impl Code {
    /// Writes the code. The program is about to be at `original`, where `live` is what it needs.
    pub fn write(self, chunk: &mut Chunk, original: Original, live: LiveSet) {
        let keeps_flags = !(live & LiveSet::ARITHMETIC_FLAGS).is_empty();
        match self {
            Code::Nothing => {}
            Code::Count(cell) => write_count(chunk, original, live, cell),
            Code::Start(register) => {
                chunk.begin_clean_probe(original);
                chunk.asm.store_constant(offset::FRAME, register as u32);
            }
            Code::Lost(cell, register) => {
                write_count(chunk, original, live, cell);
                chunk.begin_clean_probe(original);
                chunk.asm.store_constant(offset::FRAME, register as u32);
            }
            Code::Add(amount) if !keeps_flags => {
                chunk.begin_clean_probe(original);
                chunk.asm.add_constant(offset::FRAME, amount as u32);
            }
            Code::Add(amount) => with_register(chunk, original, live, |chunk, register| {
                chunk.asm.load_dword(register, offset::FRAME);
                chunk.asm.advance_dword(register, amount);
                chunk.asm.store_dword(offset::FRAME, register);
            }),
            Code::End { paths: Paths::Cells(cell), id_offset, restart } => {
                if keeps_flags {
                    saving_flags(chunk, original, |chunk| write_end(chunk, Gpr::RCX, cell, id_offset));
                } else {
                    with_register(chunk, original, live, |chunk, register| {
                        write_end(chunk, register, cell, id_offset);
                    });
                }
                write_restart(chunk, original, restart);
            }
            Code::End { paths: Paths::CellsWithMisses { first, misses }, id_offset, restart } => {
                write_end_with_misses(chunk, original, live, [first, misses], id_offset);
                write_restart(chunk, original, restart);
            }
            Code::End { paths: Paths::Table { owner, metric }, id_offset, restart } => {
                hashed::write_end(chunk, Ended { owner, id_offset, original, live }, metric);
                write_restart(chunk, original, restart);
            }
            Code::End { paths: Paths::Samples(key), id_offset, restart } => {
                let owner = Owner::Function(key);
                samples::write_end(chunk, Ended { owner, id_offset, original, live });
                write_restart(chunk, original, restart);
            }
            Code::End { paths: Paths::Trace(key), id_offset, restart } => {
                trace::write_end(chunk, original, live, key, id_offset);
                write_restart(chunk, original, restart);
            }
            Code::Visit(visit) => trigger::write_visit(chunk, original, live, visit),
            Code::Row { index, paths, restart } => {
                let done = chunk.asm.new_label();
                write_row(chunk, original, keeps_flags, index * ROW_ENTRY_BYTES, done);
                Code::End { paths, id_offset: 0, restart }.write(chunk, original, live);
                chunk.begin_clean_probe(original);
                let behind = chunk.asm.new_label();
                chunk.asm.jump_to(behind);
                chunk.asm.bind(done);
                write_restore(chunk, original, keeps_flags);
                chunk.asm.bind(behind);
            }
        }
    }
}

fn write_count(chunk: &mut Chunk, original: Original, live: LiveSet, cell: u32) {
    let count = |chunk: &mut Chunk| {
        let hole = chunk.asm.increment(CELLS);
        chunk.set_cell(hole, cell);
    };
    if (live & LiveSet::ARITHMETIC_FLAGS).is_empty() {
        chunk.begin_clean_probe(original);
        count(chunk);
    } else {
        chunk.statistics.probes_flags_saved += 1;
        let saved = saved(live) & !saves::RCX;
        begin_saving(chunk, original, saved);
        count(chunk);
        // Counting has left them where saving put them.
        probe::restore_packed_flags(&mut chunk.asm);
        write_restore_registers(chunk, saved);
    }
}

/// Counts the path; changes `register` and flags.
pub(super) fn write_end(chunk: &mut Chunk, register: Gpr, cell: u32, id_offset: i32) {
    chunk.asm.load_signed(register, offset::FRAME);
    let hole = chunk.asm.increment_scaled(register, CELLS.wrapping_add((id_offset as u32).wrapping_mul(8)));
    chunk.set_cell(hole, cell);
}

/// Writes code that changes flags and `rcx` where both are needed.
pub(super) fn saving_flags(chunk: &mut Chunk, original: Original, write: impl FnOnce(&mut Chunk)) {
    chunk.statistics.probes_flags_saved += 1;
    chunk.begin_run(kind::PROBE, original, saves::RAX | saves::RCX | saves::FLAGS, FLAGS_SAVE_END);
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    probe::save_flags(&mut chunk.asm);
    write(chunk);
    probe::restore_all(&mut chunk.asm);
}

fn write_restart(chunk: &mut Chunk, original: Original, restart: Option<i32>) {
    if let Some(register) = restart {
        chunk.begin_clean_probe(original);
        chunk.asm.store_constant(offset::FRAME, register as u32);
    }
}

/// Adds what the row says; goes to `done`, where everything is still saved, if the path does not
/// end.
fn write_row(chunk: &mut Chunk, original: Original, keeps_flags: bool, at: u32, done: Label) {
    let saved = saves::RAX | saves::RCX | if keeps_flags { saves::FLAGS } else { 0 };
    chunk.begin_run(kind::PROBE, original, saved, FLAGS_SAVE_END);
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    if keeps_flags {
        probe::save_flags(&mut chunk.asm);
    }
    chunk.asm.load(Gpr::RCX, offset::SAVED_RDX);
    chunk.asm.bytes(&[0x8b, 0x81]); // mov eax, [rcx + at]
    chunk.asm.bytes(&at.to_le_bytes());
    chunk.asm.bytes(&[0x65, 0x01, 0x04, 0x25]); // add gs:[frame], eax
    chunk.asm.bytes(&offset::FRAME.to_le_bytes());
    chunk.asm.bytes(&[0x8b, 0x81]); // mov eax, [rcx + at + 4]
    chunk.asm.bytes(&(at + 4).to_le_bytes());
    chunk.asm.bytes(&[0x85, 0xc0]); // test eax, eax
    chunk.asm.jump_to_if(Condition::Z, done);
    write_restore(chunk, original, keeps_flags);
}

fn write_restore(chunk: &mut Chunk, original: Original, keeps_flags: bool) {
    let saved = saves::RAX | saves::RCX | if keeps_flags { saves::FLAGS } else { 0 };
    chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
    if keeps_flags {
        probe::restore_flags(&mut chunk.asm);
    }
    chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
    chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
}

/// Writes code that needs a register but leaves the flags alone, or need not.
pub(super) fn with_register(chunk: &mut Chunk, original: Original, live: LiveSet, write: impl FnOnce(&mut Chunk, Gpr)) {
    if let Some(dead) = probe::dead_register(live) {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(original);
        write(chunk, dead);
    } else {
        chunk.statistics.probes_spilled += 1;
        chunk.begin_run(kind::PROBE, original, saves::RAX, [9, 0, 0, 0]);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        write(chunk, Gpr::RAX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
    }
}
