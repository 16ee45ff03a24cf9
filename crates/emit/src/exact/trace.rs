//! A trace of paths ([`wire::path_trace`]): a path that ends appends its key and its number to the
//! buffer of events.
//!
//! ```text
//! flags dead                                          flags alive
//!     mov p, gs:[next_event]                              mov rcx, gs:[next_event]
//!     mov v, gs:[frame]; lea v, [v + id_offset]           mov v, gs:[frame]; lea v, [v + id_offset]
//!     mov gs:[p * 8 + EVENTS_END], v                      mov gs:[rcx * 8 + EVENTS_END], v
//!     mov dword gs:[p * 8 + EVENTS_END + 4], key          mov dword gs:[rcx * 8 + EVENTS_END + 4], key
//!     add p, 1                                            lea rcx, [rcx + 1]
//!     mov gs:[next_event], p                              mov gs:[next_event], rcx
//!     jz full                                             jrcxz over the jump; jmp on; jmp full
//! ```
//!
//! `p` and `v` are registers that are dead, or else `rcx` and `rax`, saved before and restored
//! before the jump, or behind it where flags are alive. What `full` does is what full buffers of
//! events do ([`crate::events`]). A signal that comes in between finds the place not taken: the
//! runtime keeps what is there, and the handler's paths come before this one.

use flow::liveness::LiveSet;
use wire::events::EVENTS_END;
use wire::path_trace::RECORD_WORDS;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use crate::asm::{Condition, Gpr};
use crate::chunk::{Chunk, FullEvents, Original};
use crate::events::{STORE_LEN, jump_if_rcx_is_zero, restore};
use crate::probe;

/// The path with the number `register + id_offset` of the function with this key ends.
pub(super) fn write_end(chunk: &mut Chunk, original: Original, live: LiveSet, key: u32, id_offset: i32) {
    let keeps_flags = !(live & LiveSet::ARITHMETIC_FLAGS).is_empty();
    let is_dead = |register: Gpr| !live.has_register(register.0);
    let place = if keeps_flags { Gpr::RCX } else { probe::dead_registers(live).next().unwrap_or(Gpr::RCX) };
    let other = if place == Gpr::RAX { Gpr::RCX } else { Gpr::RAX };
    let value = probe::dead_registers(live).find(|&dead| dead != place).unwrap_or(other);
    let bits = [(Gpr::RAX, saves::RAX), (Gpr::RCX, saves::RCX)];
    let needed = |register: Gpr| [place, value].contains(&register) && !is_dead(register);
    let saved = bits.into_iter().filter(|&(register, _)| needed(register)).fold(0, |saved, (_, bit)| saved | bit);

    if saved == 0 {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(original);
    } else {
        chunk.statistics.probes_spilled += 1;
        chunk.begin_run(kind::PROBE, original, saved, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
    }
    if saved & saves::RAX != 0 {
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    }
    if saved & saves::RCX != 0 {
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    }
    chunk.asm.load(place, offset::NEXT_EVENT);
    chunk.asm.load_dword(value, offset::FRAME);
    if id_offset != 0 {
        chunk.asm.advance_dword(value, id_offset);
    }
    chunk.asm.store_scaled_dword(place, EVENTS_END, value);
    let hole = chunk.asm.store_scaled_constant(place, EVENTS_END + 4, key);
    chunk.keys.push(hole);
    write_behind_word(chunk, original, place, keeps_flags, saved);
}

/// Goes on behind a word that has been written where `place` says, which is `rcx` if flags are
/// kept: the next one goes behind it, what was saved is restored, and a full buffer goes to the
/// gate.
pub(super) fn write_behind_word(chunk: &mut Chunk, original: Original, place: Gpr, keeps_flags: bool, saved: u8) {
    let [label, back] = [chunk.asm.new_label(), chunk.asm.new_label()];
    if keeps_flags {
        chunk.asm.advance(place, RECORD_WORDS as i32);
        chunk.asm.store(offset::NEXT_EVENT, place);
        jump_if_rcx_is_zero(chunk, label);
        restore(chunk, saved);
    } else {
        chunk.asm.add_immediate(place, RECORD_WORDS as i8);
        chunk.asm.store(offset::NEXT_EVENT, place);
        restore(chunk, saved);
        chunk.asm.jump_to_if(Condition::Z, label);
    }
    chunk.asm.bind(back);
    let saved = if keeps_flags { saved } else { 0 };
    chunk.full_events.push(FullEvents { label, back, original, saved });
}
