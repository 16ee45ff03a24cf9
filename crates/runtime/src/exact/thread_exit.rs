//! The record of a thread that ends in exact mode: see [`wire::exact::ThreadExit`].
//!
//! Which functions are active only an unwinder can find out, and the agent has one. The thread
//! keeps the part of its stack that can hold calls: up to the last slot for which there is a frame.
//! Entries of frames are as many as slots that have been called from, so that this is little.

use core::slice;
use core::sync::atomic::Ordering::Relaxed;

use wire::exact::{CallerFrame, FRAME_MASK, FRAME_SCALE, FRAMES, THREAD_EXITS, THREAD_EXITS_BYTES, ThreadExit};

use crate::exact::gate_registers::saved;
use crate::sys::own_memory;
use crate::threads::area::Area;

/// Most words of stack that are looked at when the process ends.
pub const PROCESS_WORDS: usize = 1 << 20;
/// Most words of stack that are looked at when one thread of many ends.
pub const THREAD_WORDS: usize = 1 << 11;

/// Writes the record. The calling thread is in the gate for the system call at `rip`, which ends
/// it, and `area` is its own.
pub fn write_record(area: &Area, rip: u64, max_stack_words: usize) {
    let base = area.raw() as u64;
    // SAFETY: the range is in the thread's area, which is mapped as a whole; the thread is here,
    // and nobody else uses it.
    let log = unsafe {
        let start = (base + u64::from(THREAD_EXITS)) as *mut u64;
        slice::from_raw_parts_mut(start, THREAD_EXITS_BYTES as usize / 8)
    };
    let Some((n_used_bytes, rest)) = log.split_first_mut() else { return };
    let used = (*n_used_bytes as usize / 8).max(1);
    let Some((head, behind)) = rest.get_mut(used - 1..).and_then(|free| free.split_at_mut_checked(ThreadExit::WORDS))
    else {
        return;
    };
    // SAFETY: as above.
    let registers = unsafe { (*area.raw()).gate.registers };
    let (rsp, rbp) = (registers[saved::RSP], registers[saved::RBP]);
    let max_stack_words = max_stack_words.min(behind.len() / WORDS_PER_SLOT);
    let (stack, frames) = behind.split_at_mut(max_stack_words);
    // SAFETY: the same memory, as bytes.
    let bytes = unsafe { slice::from_raw_parts_mut(stack.as_mut_ptr().cast::<u8>(), stack.len() * 8) };
    let n_readable = own_memory::copy(rsp, bytes) / 8;
    let keys = (0..n_readable).map(|slot| rsp.wrapping_add(8 * (slot as u64 + 1)));
    let found = keys.filter_map(|key| frame_at(base, key).map(|frame| (key, frame)));
    let (mut n_frames, mut last_key) = (0, rsp);
    for ((key, frame), entry) in found.zip(frames.as_chunks_mut::<2>().0) {
        *entry = [key, frame];
        n_frames += 1;
        last_key = key;
    }
    let n_stack_words = (last_key.wrapping_sub(rsp) / 8) as usize;
    let n_frame_words = n_frames * (size_of::<CallerFrame>() / 8);
    behind.copy_within(max_stack_words..max_stack_words + n_frame_words, n_stack_words);
    let frame = area.header().exact.frame.load(Relaxed);
    let thread = area.header().stream.owner_tid.load(Relaxed);
    head.copy_from_slice(&[rip, rsp, rbp, frame, n_stack_words as u64, n_frames as u64, thread.into()]);
    *n_used_bytes = ((used + ThreadExit::WORDS + n_stack_words + n_frame_words) * 8) as u64;
}

/// Words that a word of stack can take: itself, and a frame.
const WORDS_PER_SLOT: usize = 1 + size_of::<CallerFrame>() / 8;

/// Returns what the last call with this stack pointer left, if it was the last one to use its
/// entry.
pub fn frame_at(base: u64, key: u64) -> Option<u64> {
    let offset = (key & u64::from(FRAME_MASK)) * u64::from(FRAME_SCALE);
    // SAFETY: the frames are in the thread's area, and the mask keeps the offset inside.
    let entry = unsafe { &*((base + u64::from(FRAMES) + offset) as *const CallerFrame) };
    (entry.key == key).then_some(entry.frame)
}
