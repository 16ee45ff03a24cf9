//! Cycles of paths.
//!
//! `charged_tsc` is the time at which the present path would have started if nothing but it had run since: so a path has taken the difference to now
//! when it ends. What else runs is taken out: a call leaves the cycles of the path so far beside its frame ([`wire::exact::FRAME_CYCLES`]), and when it has
//! returned, the path is made to have started as long ago as that.
//!
//! ```text
//! every one:  rdtsc; shl rdx, 32; or rax, rdx                 with rax, rcx, rdx and maybe flags saved
//!
//! start:      mov gs:[charged_tsc], rax
//!
//! call:       sub rax, gs:[charged_tsc]
//!             mov ecx, esp; and ecx, mask
//!             mov gs:[rcx + FRAME_CYCLES], rax
//!
//! returned:   mov ecx, esp; and ecx, mask
//!             sub rax, gs:[rcx + FRAME_CYCLES]
//!             mov gs:[charged_tsc], rax
//! ```
//!
//! A path starts where control arrives by an address, and where the one before ends. The stub that counts paths ([`super::code::write_count_stub`]) adds
//! the cycles to those of the path, and starts the next one. So all paths of these copies are counted in the path table.

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use wire::exact::{FRAME_CYCLES, FRAME_MASK};
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::code::{Code, FOUR_SAVES_END};
use super::transfers::{saved, write_restore};
use crate::asm::Gpr;
use crate::chunk::{Chunk, Original};
use crate::function::Function;
use crate::probe;

impl Function<'_, '_> {
    /// Whether the function's paths have cycles.
    pub(super) fn has_path_cycles(&self) -> bool {
        self.module.options.probe.has_path_cycles() && !self.plan_of_probes().edges_arrive
    }

    /// Control arrives at a block by its address, where a path starts.
    pub fn write_clock_arrival(&mut self, id: BlockId, at: Original, live: LiveSet) {
        let starts = matches!(self.plan_of_probes().arrival(id), Code::Start(_) | Code::Lost(..));
        if self.has_path_cycles() && starts {
            with_time(self.chunk, at, !(live & LiveSet::ARITHMETIC_FLAGS).is_empty(), |chunk| {
                chunk.asm.store(offset::CHARGED_TSC, Gpr::RAX);
            });
        }
    }

    /// Before the call at `at`.
    pub(super) fn leave_cycles(&mut self, at: Original, keeps_flags: bool) {
        with_time(self.chunk, at, keeps_flags, |chunk| {
            chunk.asm.subtract(Gpr::RAX, offset::CHARGED_TSC);
            chunk.asm.frame_index(Gpr::RCX, FRAME_MASK);
            chunk.asm.bytes(&[0x65, 0x48, 0x89, 0x81]); // mov gs:[rcx + FRAME_CYCLES], rax
            chunk.asm.bytes(&FRAME_CYCLES.to_le_bytes());
        });
    }

    /// When a call has returned to `next`, and has found its frame.
    pub(super) fn take_cycles(&mut self, next: Original, live: LiveSet) {
        with_time(self.chunk, next, !(live & LiveSet::ARITHMETIC_FLAGS).is_empty(), |chunk| {
            chunk.asm.frame_index(Gpr::RCX, FRAME_MASK);
            chunk.asm.bytes(&[0x65, 0x48, 0x2b, 0x81]); // sub rax, gs:[rcx + FRAME_CYCLES]
            chunk.asm.bytes(&FRAME_CYCLES.to_le_bytes());
            chunk.asm.store(offset::CHARGED_TSC, Gpr::RAX);
        });
    }
}

/// Writes code that has the time in `rax`, and may change `rcx`.
fn with_time(chunk: &mut Chunk, at: Original, keeps_flags: bool, write: impl FnOnce(&mut Chunk)) {
    let saved = saved(keeps_flags) | saves::RDX;
    chunk.begin_run(kind::PROBE, at, saved, FOUR_SAVES_END);
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    chunk.asm.store(offset::SAVED_RDX, Gpr::RDX);
    if keeps_flags {
        probe::save_flags(&mut chunk.asm);
    }
    write_now(chunk);
    write(chunk);
    chunk.asm.load(Gpr::RDX, offset::SAVED_RDX);
    write_restore(chunk, saved);
    chunk.begin_clean_probe(at);
}

/// Loads the time stamp counter into `rax`; changes `rdx` and flags.
pub(super) fn write_now(chunk: &mut Chunk) {
    chunk.asm.bytes(&[0x0f, 0x31]); // rdtsc
    chunk.asm.bytes(&[0x48, 0xc1, 0xe2, 0x20]); // shl rdx, 32
    chunk.asm.bytes(&[0x48, 0x09, 0xd0]); // or rax, rdx
}
