//! What probes have noted, out of the target ([`wire::events`]).

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::events::{BURST_EMPTY, EMPTY, EVENT_WORDS, EVENTS_END, Event, MAX_EXPRESSION, N_MESSAGES, RING};
use wire::thread::ThreadHeader;

use crate::area::Area;
use crate::process::Process;

/// What becomes of events in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSettings {
    expression: [u8; MAX_EXPRESSION],
    len: u32,
    seed: u64,
}

impl EventSettings {
    /// They go through a compressor with this seed; an empty expression lets them go as they are. `None` if the expression is too long.
    #[must_use]
    pub fn new(expression: &str, seed: u64) -> Option<EventSettings> {
        let mut bytes = [0; MAX_EXPRESSION];
        bytes.get_mut(..expression.len())?.copy_from_slice(expression.as_bytes());
        Some(EventSettings { expression: bytes, len: expression.len() as u32, seed })
    }

    pub(crate) fn words(&self) -> [u64; MAX_EXPRESSION / 8] {
        let mut words = [0; MAX_EXPRESSION / 8];
        for (word, bytes) in words.iter_mut().zip(self.expression.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

/// How events went, over all threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounters {
    /// Events that the runtime took from buffers.
    pub taken: u64,
    /// Events that it threw away, because they were not wanted any more.
    pub passed_over: u64,
    /// Messages that it sent.
    pub sent: u64,
    /// Times that a full ring had to be waited for.
    pub waits: u64,
    /// Messages that found the ring full for too long.
    pub lost: u64,
    /// Events taken that no message stands for, less those that messages stand for too many.
    pub residue: i64,
}

impl Process {
    /// Reads the messages that have arrived and hands them on, in order for each thread. How many there were.
    pub fn drain_events(&self, sink: &mut dyn FnMut(&[Event])) -> u64 {
        self.areas().map(|area| drain(&area, sink)).sum()
    }

    /// The same for a process that has ended: also what is left in buffers, each as a message that stands for one event.
    pub fn salvage_events(&self, sink: &mut dyn FnMut(&[Event])) -> u64 {
        let n_messages = self.drain_events(sink);
        let empty = if self.is_exact() { EMPTY } else { BURST_EMPTY };
        n_messages + self.areas().map(|area| take_rest(&area, empty, sink)).sum::<u64>()
    }

    /// How events went so far.
    #[must_use]
    pub fn event_counters(&self) -> EventCounters {
        let mut counters = EventCounters::default();
        for area in self.areas() {
            let word = |offset: usize| area.header_word(offset).load(Ordering::Relaxed);
            counters.taken = counters.taken.wrapping_add(word(offset_of!(ThreadHeader, events_taken)));
            counters.passed_over =
                counters.passed_over.wrapping_add(word(offset_of!(ThreadHeader, events_passed_over)));
            counters.sent = counters.sent.wrapping_add(word(offset_of!(ThreadHeader, messages_sent)));
            counters.waits = counters.waits.wrapping_add(word(offset_of!(ThreadHeader, ring_waits)));
            counters.residue = counters.residue.wrapping_add(word(offset_of!(ThreadHeader, residue)) as i64);
            counters.lost = counters.lost.wrapping_add(word(offset_of!(ThreadHeader, messages_lost)));
        }
        counters
    }
}

/// Messages that are handed on at once.
const BATCH: usize = 512;

fn drain(area: &Area<'_>, sink: &mut dyn FnMut(&[Event])) -> u64 {
    let sent = area.header_word(offset_of!(ThreadHeader, messages_sent)).load(Ordering::Acquire);
    let read = area.header_word(offset_of!(ThreadHeader, messages_read));
    let first = read.load(Ordering::Relaxed);
    // A target that writes nonsense there gets its ring read once.
    let n_messages = sent.wrapping_sub(first).min(u64::from(N_MESSAGES));
    let Some(ring) = area.words(words_at(RING, N_MESSAGES)) else { return 0 };
    let start = (sent.wrapping_sub(n_messages) % u64::from(N_MESSAGES)) as usize;
    let slots = ring.as_chunks::<{ EVENT_WORDS as usize }>().0;
    let (before, behind) = slots.split_at(start);
    let n_behind = behind.len().min(n_messages as usize);
    for part in [&behind[..n_behind], &before[..n_messages as usize - n_behind]] {
        hand_on(part, sink);
    }
    read.store(sent, Ordering::Release);
    n_messages
}

/// Takes what is in a buffer for which `next_event` is `empty` when it is.
fn take_rest(area: &Area<'_>, empty: u64, sink: &mut dyn FnMut(&[Event])) -> u64 {
    let next = area.header_word(offset_of!(ThreadHeader, next_event));
    let n_events = (next.load(Ordering::Acquire).wrapping_sub(empty) / EVENT_WORDS) as usize;
    let capacity = (empty.wrapping_neg() / EVENT_WORDS) as u32;
    let start = EVENTS_END - capacity * size_of::<Event>() as u32;
    let Some(buffer) = area.words(words_at(start, capacity)).filter(|_| n_events <= capacity as usize) else {
        return 0;
    };
    let slots = &buffer.as_chunks::<{ EVENT_WORDS as usize }>().0[..n_events];
    let n_void = slots.iter().take_while(|slot| event(slot).site == 0).count();
    hand_on(&slots[n_void..], sink);
    next.store(empty, Ordering::Release);
    (n_events - n_void) as u64
}

fn words_at(start: u32, n: u32) -> std::ops::Range<u64> {
    u64::from(start)..u64::from(start) + u64::from(n) * size_of::<Event>() as u64
}

fn hand_on(slots: &[[AtomicU64; EVENT_WORDS as usize]], sink: &mut dyn FnMut(&[Event])) {
    let mut batch = [Event::default(); BATCH];
    for part in slots.chunks(BATCH) {
        for (event_of_batch, slot) in batch.iter_mut().zip(part) {
            *event_of_batch = event(slot);
        }
        sink(&batch[..part.len()]);
    }
}

/// An event of the buffer stands for one.
fn event(slot: &[AtomicU64; EVENT_WORDS as usize]) -> Event {
    let [value, rest] = [0, 1].map(|word: usize| slot[word].load(Ordering::Relaxed));
    let event = Event { value, site: rest as u32, tag: (rest >> 32) as u32 };
    event.with_weight(event.weight().max(1))
}
