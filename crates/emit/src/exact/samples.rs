//! Samples of paths (PEP: Bond and McKinley 2005; Arnold and Grove 2005).
//!
//! A path that ends looks whether a sample is wanted, which nearly always it is not: one comparison
//! of memory and a jump that is not taken. Nothing is stored but the path register. A tick makes
//! samples wanted; then the end goes to code behind the function, and has the stub count the path,
//! which first counts down:
//!
//! ```text
//! end:        cmp dword gs:[samples_wanted], 0    with rax, rcx and flags saved where flags are alive
//!             jne sample
//!
//! stub:       sub dword gs:[ends_to_skip], 1
//!             jae back                            not yet
//!             mov edx, gs:[ends_between]
//!             mov gs:[ends_to_skip], edx
//!             sub dword gs:[samples_wanted], 1
//!             jae take
//!             mov dword gs:[samples_wanted], 0    a signal handler has taken the last one in between
//!     back:   jmp gs:[twin]
//!     take:   ... look for the entry
//!             mov rax, gs:[rdx + SQUARES + 8]     the last tick that sampled it, and how the sum of squares grows
//!             cmp rax, gs:[sampling_tick]
//!             jae same
//!             mov rax, gs:[sampling_tick]
//!     same:   add gs:[rdx + SQUARES], eax
//!             adc dword gs:[rdx + SQUARES + 4], 0
//!             add rax, 2
//!             mov gs:[rdx + SQUARES + 8], rax
//!             ... count
//! ```
//!
//! A tick may come between any two of these, and so may a handler of the program that takes samples
//! itself: then one sample more or less is taken, and what one of them adds to the squares may be
//! that of the other. The path that is counted is the right one all the same.

use wire::exact::PATH_METRIC;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use crate::asm::{Asm, Condition, Gpr};
use crate::chunk::{Chunk, Ended, OtherEnd};
use crate::probe::{self, FLAGS_SAVE_END};
use crate::saving::keeps_flags;

const SAVED: u8 = saves::RAX | saves::RCX | saves::FLAGS;

/// Looks whether a sample is wanted of the path that ends.
pub(super) fn write_end(chunk: &mut Chunk, ended: Ended) {
    let Ended { original, live, .. } = ended;
    let keeps_flags = keeps_flags(live);
    let [label, back] = [chunk.asm.new_label(), chunk.asm.new_label()];
    if keeps_flags {
        chunk.statistics.probes_flags_saved += 1;
        chunk.begin_run(kind::PROBE, original, SAVED, FLAGS_SAVE_END);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        probe::save_flags(&mut chunk.asm);
    } else {
        chunk.begin_clean_probe(original);
    }
    chunk.asm.compare_with_zero(offset::SAMPLES_WANTED);
    chunk.asm.jump_to_if(Condition::NZ, label);
    if keeps_flags {
        probe::restore_all(&mut chunk.asm);
    }
    chunk.begin_clean_probe(original);
    chunk.asm.bind(back);
    let saved = if keeps_flags { SAVED } else { 0 };
    chunk.other_ends.push(OtherEnd { label, back, ended, saved, has_metric: false });
}

/// In the stub: goes back unless this path is one to take. Changes `rdx`.
pub(super) fn write_countdown(asm: &mut Asm) {
    let [back, take] = [asm.new_label(), asm.new_label()];
    asm.subtract_one(offset::ENDS_TO_SKIP);
    asm.jump_to_if(Condition::AE, back);
    asm.load_dword(Gpr::RDX, offset::ENDS_BETWEEN);
    asm.store_dword(offset::ENDS_TO_SKIP, Gpr::RDX);
    asm.subtract_one(offset::SAMPLES_WANTED);
    asm.jump_to_if(Condition::AE, take);
    asm.store_constant(offset::SAMPLES_WANTED, 0);
    asm.bind(back);
    asm.jump_through(offset::TWIN);
    asm.bind(take);
}

/// In the stub, with the path's entry at `rdx`: adds to its sum of squares. Changes `rax`.
pub(super) fn write_squares(asm: &mut Asm) {
    let same = asm.new_label();
    asm.bytes(&[0x65, 0x48, 0x8b, 0x82]); // mov rax, gs:[rdx + SQUARES + 8]
    asm.bytes(&(PATH_METRIC + 8).to_le_bytes());
    asm.compare(Gpr::RAX, offset::SAMPLING_TICK);
    asm.jump_to_if(Condition::AE, same);
    asm.load(Gpr::RAX, offset::SAMPLING_TICK);
    asm.bind(same);
    asm.bytes(&[0x65, 0x01, 0x82]); // add gs:[rdx + SQUARES], eax
    asm.bytes(&PATH_METRIC.to_le_bytes());
    asm.bytes(&[0x65, 0x83, 0x92]); // adc dword gs:[rdx + SQUARES + 4], 0
    asm.bytes(&(PATH_METRIC + 4).to_le_bytes());
    asm.bytes(&[0]);
    asm.bytes(&[0x48, 0x83, 0xc0, 0x02]); // add rax, 2
    asm.bytes(&[0x65, 0x48, 0x89, 0x82]); // mov gs:[rdx + SQUARES + 8], rax
    asm.bytes(&(PATH_METRIC + 8).to_le_bytes());
}
