//! Ways out of a copy, behind the code of each function.
//!
//! ```text
//!     mov dword gs:[end_reason], BufferFull       two reasons to leave at the same address share what follows
//!     jmp tail
//!     mov dword gs:[end_reason], Full
//! tail:
//!     mov gs:[saved_rax], rax
//!     lea rax, [rip + original]
//!     jmp exit                                    the module's stub
//! ```
//!
//! A probe that needs the gate and goes on afterwards leaves by a *detour*, which also stores in
//! `twin` where to come back to.
//!
//! All of it is one run of recovery: the thread is about to be at `original`, and `rax` is saved
//! from `lea` on. Where the probe that leaves has not restored everything, a prelude does that
//! first.

use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use crate::asm::{Gpr, Label};
use crate::chunk::{Chunk, Destination, Exit, ExitState, Original, Stub};
use crate::probe;

/// Bytes of `mov dword gs:[end_reason], reason`.
const REASON_LEN: u8 = 12;
/// Bytes of `jmp tail`.
const SKIP_LEN: u8 = 2;
/// Bytes of `mov gs:[saved_rax], rax`.
const SAVE_LEN: u8 = 9;

/// Goes to the gate from a probe before `original` that has restored everything, and comes back to
/// `back`.
pub(crate) fn write_detour(chunk: &mut Chunk, original: Original, reason: EndReason, back: Label) {
    chunk.begin_run(kind::PROBE, original, saves::RAX, [REASON_LEN + SAVE_LEN, 0, 0, 0]);
    chunk.asm.store_constant(offset::END_REASON, reason as u32);
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    let hole = chunk.asm.address_of(Gpr::RAX);
    chunk.asm.use_label(hole, back);
    chunk.asm.store(offset::TWIN, Gpr::RAX);
    chunk.load_original(Gpr::RAX, original);
    let hole = chunk.asm.jump();
    chunk.refer(hole, Destination::Stub(Stub::Exit));
    chunk.statistics.leaving[reason as usize] += 1;
}

/// Writes all exits of the function.
pub(crate) fn write(chunk: &mut Chunk) {
    write_preludes(chunk);
    let mut exits = std::mem::take(&mut chunk.exits);
    exits.sort_unstable_by_key(|exit| (exit.original, exit.reason));
    for group in exits.chunk_by(|a, b| a.original == b.original) {
        write_group(chunk, group);
    }
    exits.clear();
    chunk.exits = exits;
}

/// Turns exits from states that are not clean into a prelude and a clean exit.
fn write_preludes(chunk: &mut Chunk) {
    for index in 0..chunk.exits.len() {
        let Exit { original, reason, state, label } = chunk.exits[index];
        match state {
            ExitState::Clean => continue,
            ExitState::FlagsSaved => {
                chunk.asm.bind(label);
                chunk.begin_run(kind::PROBE, original, saves::RAX | saves::RCX | saves::FLAGS, [0; 4]);
                probe::restore_all(&mut chunk.asm);
            }
            ExitState::AfterSystemCall => {
                chunk.asm.bind(label);
                chunk.begin_run(kind::AFTER_SYSTEM_CALL, original, 0, [0; 4]);
                chunk.load_original(Gpr::RCX, original);
            }
        }
        let clean = chunk.asm.new_label();
        chunk.asm.jump_to(clean);
        chunk.exits[index] = Exit { original, reason, state: ExitState::Clean, label: clean };
    }
}

/// Writes the exits to one address, sorted by reason.
fn write_group(chunk: &mut Chunk, group: &[Exit]) {
    let Some(original) = group.first().map(|exit| exit.original) else { return };
    let n_reasons = group.chunk_by(|a, b| a.reason == b.reason).count() as u8;
    let tail = n_reasons * REASON_LEN + (n_reasons - 1) * SKIP_LEN;
    chunk.begin_run(kind::PROBE, original, saves::RAX, [tail + SAVE_LEN, 0, 0, 0]);
    for (index, same) in group.chunk_by(|a, b| a.reason == b.reason).enumerate() {
        same.iter().for_each(|exit| chunk.asm.bind(exit.label));
        write_reason(chunk, same[0].reason);
        let n_left = n_reasons - 1 - index as u8;
        if n_left > 0 {
            chunk.asm.jump_over(n_left * REASON_LEN + (n_left - 1) * SKIP_LEN);
        }
    }
    write_tail(chunk, original);
}

fn write_reason(chunk: &mut Chunk, reason: EndReason) {
    chunk.asm.store_constant(offset::END_REASON, reason as u32);
}

fn write_tail(chunk: &mut Chunk, original: Original) {
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.load_original(Gpr::RAX, original);
    let hole = chunk.asm.jump();
    chunk.refer(hole, Destination::Stub(Stub::Exit));
}
