//! Words of the trace, out of the target ([`wire::trace`]).

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::events::{EMPTY, EVENTS_END};
use wire::thread::ThreadHeader;
use wire::trace::{N_WORDS, RING};

use crate::area::Area;
use crate::process::Process;

/// Words that are handed on at once.
const BATCH: usize = 4096;

impl Process {
    /// Reads the words that have arrived and hands them on with the number of their area, in order for each area. How many there were.
    pub fn drain_words(&self, sink: &mut dyn FnMut(usize, &[u64])) -> u64 {
        self.areas().enumerate().map(|(index, area)| drain(&area, &mut |words| sink(index, words))).sum()
    }

    /// The same for a process that has ended: also what is left in buffers.
    pub fn salvage_words(&self, sink: &mut dyn FnMut(usize, &[u64])) -> u64 {
        let areas = self.areas().enumerate();
        areas
            .map(|(index, area)| {
                let mut sink = |words: &[u64]| sink(index, words);
                drain(&area, &mut sink) + take_rest(&area, &mut sink)
            })
            .sum()
    }
}

fn drain(area: &Area<'_>, sink: &mut dyn FnMut(&[u64])) -> u64 {
    let sent = area.header_word(offset_of!(ThreadHeader, messages_sent)).load(Ordering::Acquire);
    let read = area.header_word(offset_of!(ThreadHeader, messages_read));
    // A target that writes nonsense there gets its ring read once.
    let n_words = sent.wrapping_sub(read.load(Ordering::Relaxed)).min(u64::from(N_WORDS));
    let Some(ring) = area.words(u64::from(RING)..u64::from(RING) + u64::from(N_WORDS) * 8) else { return 0 };
    let mut next = sent.wrapping_sub(n_words);
    while next != sent {
        let at = (next % u64::from(N_WORDS)) as usize;
        let n_now = (sent.wrapping_sub(next) as usize).min(BATCH).min(ring.len() - at);
        hand_on(&ring[at..at + n_now], sink);
        next = next.wrapping_add(n_now as u64);
        // At once, so that the thread need not wait.
        read.store(next, Ordering::Release);
    }
    n_words
}

/// Takes what is in the buffer.
fn take_rest(area: &Area<'_>, sink: &mut dyn FnMut(&[u64])) -> u64 {
    let next = area.header_word(offset_of!(ThreadHeader, next_event));
    let capacity = EMPTY.wrapping_neg();
    let n_words = next.load(Ordering::Acquire).wrapping_sub(EMPTY);
    let range = u64::from(EVENTS_END) - capacity * 8..u64::from(EVENTS_END);
    let Some(buffer) = area.words(range).filter(|_| n_words <= capacity) else { return 0 };
    let words = &buffer[..n_words as usize];
    let n_void = words.iter().take_while(|word| word.load(Ordering::Relaxed) == 0).count();
    hand_on(&words[n_void..], sink);
    next.store(EMPTY, Ordering::Release);
    n_words - n_void as u64
}

fn hand_on(words: &[AtomicU64], sink: &mut dyn FnMut(&[u64])) {
    let mut batch = [0; BATCH];
    for part in words.chunks(BATCH) {
        for (copied, word) in batch.iter_mut().zip(part) {
            *copied = word.load(Ordering::Relaxed);
        }
        sink(&batch[..part.len()]);
    }
}
