//! The metric of paths: cycles, or misses of a simulated data cache.
//!
//! `charged` is what the metric's counter would have been when the present path started if nothing
//! but it had run since: so a path has the difference to what it is when it ends. What else runs is
//! taken out: a call leaves what the path has so far beside its frame
//! ([`wire::exact::FRAME_METRIC`]), and when it has returned, the path is made to have started that
//! much before.
//!
//! ```text
//!             cycles                                          misses
//!
//! start:                                                      mov r, gs:[misses]; mov gs:[charged], r
//!
//! call:       rdtsc; shl rdx, 32; or rax, rdx                 mov r, gs:[misses]
//!             mov rdx, gs:[charged]; mov gs:[charged], rax
//!             sub rax, rdx                                    sub r, gs:[charged]
//!             mov ecx, esp; and ecx, mask
//!             mov gs:[rcx + FRAME_METRIC], rax                mov gs:[i + FRAME_METRIC], r
//!
//! returned:   mov r, esp; and r, mask
//!             mov r, gs:[r + FRAME_METRIC]; neg r
//!             add r, gs:[charged]                             add r, gs:[misses]
//!             mov gs:[charged], r
//! ```
//!
//! To read the time takes longer than most paths, so that it is read once where one path stops and
//! another one goes on: whoever calls, returns or jumps to another function leaves the time in
//! `charged`, and who is called or comes back starts from there. When a thread comes back from code
//! that has no copy, the runtime does that. What functions without paths take is their callers'.
//!
//! A path starts where control arrives by an address, and where the one before ends. What counts
//! paths in the path table ([`super::hashed`]) adds what a path has to what it had before, and
//! starts the next one. So where cycles are added up, all paths are counted in the path table.
//! Misses are rare: a path that has cells has others for its misses, and mostly nothing is to be
//! done there:
//!
//! ```text
//! end:        count; mov r, gs:[misses]; cmp r, gs:[charged]; jne missed
//! back:
//!
//! missed:     mov rax, gs:[misses]                            behind the function, with rax, rcx and maybe flags saved
//!             sub rax, gs:[charged]
//!             movsxd rcx, gs:[frame]
//!             add gs:[rcx * 8 + cells], rax
//!             mov rax, gs:[misses]; mov gs:[charged], rax
//!             jmp back
//! ```

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use wire::exact::{CELLS, FRAME_MASK, FRAME_METRIC};
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::Metric;
use super::code::{Code, saving_flags, with_register, write_end};
use crate::asm::{Condition, Gpr};
use crate::chunk::{Chunk, MissedEnd, Original};
use crate::function::Function;
use crate::probe;
use crate::saving::{begin_saving, keeps_flags, saved, saved_with_rdx, write_restore};

impl Function<'_, '_> {
    /// The metric of the function's paths, if they have one.
    pub(super) fn path_metric(&self) -> Option<Metric> {
        let probe = self.module.options.probe;
        probe.metric().filter(|_| probe.has_path_metric() && !self.plan_of_probes().edges_arrive)
    }

    /// Control arrives at a block by its address, where a path starts.
    pub fn write_metric_arrival(&mut self, id: BlockId, at: Original, live: LiveSet) {
        let starts = matches!(self.plan_of_probes().arrival(id), Code::Start(_) | Code::Lost(..));
        match self.path_metric().filter(|_| starts) {
            Some(Metric::Misses(_)) => with_register(self.chunk, at, live, |chunk, register| {
                chunk.asm.load(register, offset::MISSES);
                chunk.asm.store(offset::CHARGED, register);
            }),
            Some(Metric::Cycles) | None => {}
        }
    }

    /// Before the call at `at`, if cycles are added up: they are read before anything else is done.
    pub(super) fn leave_cycles(&mut self, at: Original, live: LiveSet) {
        with_metric(self.chunk, Metric::Cycles, at, live, |chunk| {
            write_elapsed(chunk);
            chunk.asm.frame_index(Gpr::RCX, FRAME_MASK);
            chunk.asm.bytes(&[0x65, 0x48, 0x89, 0x81]); // mov gs:[rcx + FRAME_METRIC], rax
            chunk.asm.bytes(&FRAME_METRIC.to_le_bytes());
        });
    }
}

/// Writes code that has the metric's counter in `rax`, and may change `rcx`.
pub(super) fn with_metric(
    chunk: &mut Chunk,
    metric: Metric,
    at: Original,
    live: LiveSet,
    write: impl FnOnce(&mut Chunk),
) {
    let saved = if metric == Metric::Cycles { saved_with_rdx(live) } else { saved(live) };
    with_saved(chunk, at, saved, |chunk| {
        write_counter(chunk, metric);
        write(chunk);
    });
}

/// Writes code that may change what is saved, or is not needed.
fn with_saved(chunk: &mut Chunk, at: Original, saved: u8, write: impl FnOnce(&mut Chunk)) {
    begin_saving(chunk, at, saved);
    write(chunk);
    write_restore(chunk, saved);
    chunk.begin_clean_probe(at);
}

/// Counts a path in its cells; misses, too, if there were any.
pub(super) fn write_end_with_misses(
    chunk: &mut Chunk,
    original: Original,
    live: LiveSet,
    [first, misses]: [u32; 2],
    id_offset: i32,
) {
    let [label, back] = [chunk.asm.new_label(), chunk.asm.new_label()];
    let write = |chunk: &mut Chunk, register: Gpr| {
        write_end(chunk, register, first, id_offset);
        chunk.asm.load(register, offset::MISSES);
        chunk.asm.compare(register, offset::CHARGED);
        chunk.asm.jump_to_if(Condition::NZ, label);
    };
    let saved = if keeps_flags(live) {
        saving_flags(chunk, original, |chunk| write(chunk, Gpr::RCX));
        saves::RAX | saves::RCX | saves::FLAGS
    } else {
        with_register(chunk, original, live, write);
        if probe::dead_register(live).is_some() { 0 } else { saves::RAX }
    };
    chunk.asm.bind(back);
    chunk.missed_ends.push(MissedEnd { label, back, original, live, saved, cell: misses, id_offset });
}

/// Writes where paths of the function go that have missed.
pub(crate) fn write_missed_ends(chunk: &mut Chunk) {
    for MissedEnd { label, back, original, live, saved: before, cell, id_offset } in
        std::mem::take(&mut chunk.missed_ends)
    {
        chunk.asm.bind(label);
        chunk.begin_run(kind::PROBE, original, before, [0; 4]);
        write_restore(chunk, before);
        with_saved(chunk, original, saved(live), |chunk| {
            chunk.asm.load(Gpr::RAX, offset::MISSES);
            chunk.asm.subtract(Gpr::RAX, offset::CHARGED);
            chunk.asm.load_signed(Gpr::RCX, offset::FRAME);
            chunk.asm.bytes(&[0x65, 0x48, 0x01, 0x04, 0xcd]); // add gs:[rcx * 8 + cells], rax
            chunk.asm.bytes(&CELLS.wrapping_add((id_offset as u32).wrapping_mul(8)).to_le_bytes());
            let hole = chunk.position() - 4;
            chunk.set_cell(hole, cell);
            chunk.asm.load(Gpr::RAX, offset::MISSES);
            chunk.asm.store(offset::CHARGED, Gpr::RAX);
        });
        chunk.asm.jump_to(back);
    }
}

/// The counter, which is in `rax`, less what it was when the present path started; from now on it
/// is another one's. Changes `rdx` and flags.
pub(super) fn write_elapsed(chunk: &mut Chunk) {
    chunk.asm.load(Gpr::RDX, offset::CHARGED);
    chunk.asm.store(offset::CHARGED, Gpr::RAX);
    chunk.asm.bytes(&[0x48, 0x29, 0xd0]); // sub rax, rdx
}

/// Loads the metric's counter into `rax`; may change `rdx` and flags.
pub(super) fn write_counter(chunk: &mut Chunk, metric: Metric) {
    match metric {
        Metric::Cycles => {
            chunk.asm.bytes(&[0x0f, 0x31]); // rdtsc
            chunk.asm.bytes(&[0x48, 0xc1, 0xe2, 0x20]); // shl rdx, 32
            chunk.asm.bytes(&[0x48, 0x09, 0xd0]); // or rax, rdx
        }
        Metric::Misses(_) => chunk.asm.load(Gpr::RAX, offset::MISSES),
    }
}
