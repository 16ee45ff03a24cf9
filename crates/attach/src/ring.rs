//! Rings in which messages of threads cross to the agent, and the buffers behind them
//! ([`wire::events`]).
//!
//! The thread counts up what it has sent, the agent what it has read; the difference lies in the
//! ring. When a process has ended, what is left in the buffer is still there. Neither counter can
//! be believed: whatever they say, no more is read than the ring or the buffer holds.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::events::EVENTS_END;
use wire::thread::ThreadHeader;

use crate::area::Area;

/// What a ring carries: `N` words each.
pub(crate) trait Message<const N: usize>: Copy + Default {
    /// Offset of the ring in the thread area.
    const RING: u32;
    /// Messages that the ring holds, a power of two.
    const CAPACITY: u32;

    /// Returns the message that these words are.
    fn from_words(words: [u64; N]) -> Self;

    /// Returns whether a place in the buffer was never written to, or has been taken from.
    fn is_void(words: [u64; N]) -> bool;
}

/// Messages that are handed on at once.
const BATCH: usize = 512;

/// Hands on the messages that have arrived, in their order. Returns how many there were.
pub(crate) fn drain<M: Message<N>, const N: usize>(area: &Area<'_>, sink: &mut dyn FnMut(&[M])) -> u64 {
    let sent = area.header_word(offset_of!(ThreadHeader, events.sent)).load(Ordering::Acquire);
    let read = area.header_word(offset_of!(ThreadHeader, events.read));
    // A target that writes nonsense there gets its ring read once.
    let n_messages = sent.wrapping_sub(read.load(Ordering::Relaxed)).min(u64::from(M::CAPACITY));
    let Some(ring) = area.words(range::<N>(M::RING, M::CAPACITY)) else { return 0 };
    let slots = ring.as_chunks::<N>().0;
    let mut next = sent.wrapping_sub(n_messages);
    while next != sent {
        let at = (next % u64::from(M::CAPACITY)) as usize;
        let n_now = (sent.wrapping_sub(next) as usize).min(BATCH).min(slots.len() - at);
        hand_over(&slots[at..at + n_now], sink);
        next = next.wrapping_add(n_now as u64);
        // At once, so that the thread need not wait.
        read.store(next, Ordering::Release);
    }
    n_messages
}

/// Hands on what is left in the buffer of an area whose process has ended, and empties it. `empty`
/// is the place of the next message in an empty buffer. Returns how many there were.
pub(crate) fn take_rest<M: Message<N>, const N: usize>(area: &Area<'_>, empty: u64, sink: &mut dyn FnMut(&[M])) -> u64 {
    let next = area.header_word(offset_of!(ThreadHeader, events.next));
    let n_messages = next.load(Ordering::Acquire).wrapping_sub(empty) / N as u64;
    let capacity = (empty.wrapping_neg() / N as u64) as u32;
    let start = EVENTS_END - capacity * (N * size_of::<u64>()) as u32;
    let Some(buffer) = area.words(range::<N>(start, capacity)).filter(|_| n_messages <= u64::from(capacity)) else {
        return 0;
    };
    let slots = &buffer.as_chunks::<N>().0[..n_messages as usize];
    // Before the place of a probe that a handler interrupted, there is nothing any more.
    let n_void = slots.iter().take_while(|slot| M::is_void(load(slot))).count();
    hand_over(&slots[n_void..], sink);
    next.store(empty, Ordering::Release);
    n_messages - n_void as u64
}

fn range<const N: usize>(start: u32, n_messages: u32) -> Range<u64> {
    let start = u64::from(start);
    start..start + u64::from(n_messages) * (N * size_of::<u64>()) as u64
}

fn hand_over<M: Message<N>, const N: usize>(slots: &[[AtomicU64; N]], sink: &mut dyn FnMut(&[M])) {
    let mut batch = [M::default(); BATCH];
    for part in slots.chunks(BATCH) {
        for (copied, slot) in batch.iter_mut().zip(part) {
            *copied = M::from_words(load(slot));
        }
        sink(&batch[..part.len()]);
    }
}

fn load<const N: usize>(slot: &[AtomicU64; N]) -> [u64; N] {
    slot.each_ref().map(|word| word.load(Ordering::Relaxed))
}
