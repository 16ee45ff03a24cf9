//! Words of the path trace, from the buffer of a thread to the ring that the agent reads
//! ([`wire::path_trace`]).
//!
//! What [`crate::events`] is for events, with one word for each and no compressor: all words go, in
//! their order. Everything happens with all signals blocked, or before the thread runs copies, and
//! only the thread itself writes to its ring: what a thread has in its buffer when another one ends
//! the process the agent finds there.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use wire::events::{EMPTY, EVENTS_END};
use wire::path_trace::{Mark, N_WORDS, RECORD_WORDS, RING};

use crate::exact;
use crate::threads::area::Area;

const _: () = assert!(RECORD_WORDS == 1);

/// Takes what is in the buffer.
///
/// # Safety
/// The area must be the calling thread's, with all signals blocked or before it runs copies.
pub unsafe fn take(area: &Area) {
    let next = area.header().events.next.load(Relaxed);
    let n_words = next.wrapping_sub(EMPTY).min(EMPTY.wrapping_neg());
    let start = (area.address() + u64::from(EVENTS_END)).wrapping_add(EMPTY.wrapping_mul(8)) as *mut u64;
    // SAFETY: lies in the area; only the thread writes there, and it is here.
    let words = unsafe { core::slice::from_raw_parts_mut(start, n_words as usize) };
    // Before the place of a probe that a handler interrupted, there is nothing any more.
    let n_void = words.iter().take_while(|&&word| word == 0).count();
    send(area, &words[n_void..]);
    area.header().events.taken.fetch_add((words.len() - n_void) as u64, Relaxed);
    words.fill(0);
    area.header().events.next.store(EMPTY, Relaxed);
}

/// Notes a mark behind all that the thread has done so far.
///
/// # Safety
/// As for [`take`].
pub unsafe fn note(area: &Area, mark: Mark) {
    // SAFETY: the caller's promise.
    unsafe { take(area) };
    send(area, &[mark.word()]);
}

/// Sends words, in parts if there is not enough room; what finds no room for too long is lost, and
/// counted.
fn send(area: &Area, mut words: &[u64]) {
    let header = area.header();
    let mut sent = header.events.sent.load(Relaxed);
    let room = |sent: u64| {
        let in_ring = sent.wrapping_sub(header.events.read.load(Acquire));
        u64::from(N_WORDS).saturating_sub(in_ring) as usize
    };
    while !words.is_empty() {
        let at = (sent % u64::from(N_WORDS)) as usize;
        let n_now = room(sent).min(words.len()).min(N_WORDS as usize - at);
        if n_now == 0 {
            header.events.waits.fetch_add(1, Relaxed);
            // A good part of the ring, so that this does not happen again at once.
            exact::wait_until(area.session.control, || room(sent) >= N_WORDS as usize / 4);
            if room(sent) == 0 {
                header.events.lost.fetch_add(words.len() as u64, Relaxed);
                return;
            }
            continue;
        }
        let (now, later) = words.split_at(n_now);
        let ring = (area.address() + u64::from(RING)) as *mut u64;
        // SAFETY: the slots lie in the ring, and the reader is done with them.
        unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), ring.add(at), n_now) };
        sent = sent.wrapping_add(n_now as u64);
        header.events.sent.store(sent, Release);
        words = later;
    }
}
