//! Reads noted values out of the target ([`wire::events`]).

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use wire::events::{BURST_EMPTY, EMPTY, EVENT_WORDS, Event, N_MESSAGES, RING};
use wire::thread::ThreadHeader;

use crate::process::Process;
use crate::ring::{self, Message};

/// What became of noted values, over all threads of a process.
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
    /// Events that were taken, less those that messages stand for.
    pub residue: i64,
}

impl Process {
    /// Hands on the messages that have arrived, in order for each thread. Returns how many there
    /// were.
    pub fn drain_events(&self, sink: &mut dyn FnMut(&[Event])) -> u64 {
        self.areas().map(|area| ring::drain(&area, sink)).sum()
    }

    /// Hands on the messages of a process that has ended: also what is left in buffers, each as a
    /// message that stands for one event.
    pub fn salvage_events(&self, sink: &mut dyn FnMut(&[Event])) -> u64 {
        let n_messages = self.drain_events(sink);
        let empty = if self.is_exact() { EMPTY } else { BURST_EMPTY };
        n_messages + self.areas().map(|area| ring::take_rest(&area, empty, sink)).sum::<u64>()
    }

    /// Returns what became of noted values so far.
    #[must_use]
    pub fn event_counters(&self) -> EventCounters {
        let mut counters = EventCounters::default();
        for area in self.areas() {
            let word = |offset: usize| area.header_word(offset).load(Ordering::Relaxed);
            counters.taken = counters.taken.wrapping_add(word(offset_of!(ThreadHeader, events.taken)));
            counters.passed_over =
                counters.passed_over.wrapping_add(word(offset_of!(ThreadHeader, events.passed_over)));
            counters.sent = counters.sent.wrapping_add(word(offset_of!(ThreadHeader, events.sent)));
            counters.waits = counters.waits.wrapping_add(word(offset_of!(ThreadHeader, events.waits)));
            counters.residue = counters.residue.wrapping_add(word(offset_of!(ThreadHeader, events.residue)) as i64);
            counters.lost = counters.lost.wrapping_add(word(offset_of!(ThreadHeader, events.lost)));
        }
        counters
    }
}

impl Message<2> for Event {
    const RING: u32 = RING;
    const CAPACITY: u32 = N_MESSAGES;

    /// An event of the buffer stands for one.
    fn from_words(words: [u64; 2]) -> Event {
        let event = event(words);
        event.with_weight(event.weight().max(1))
    }

    fn is_void(words: [u64; 2]) -> bool {
        event(words).site == 0
    }
}

fn event([value, rest]: [u64; 2]) -> Event {
    Event { value, site: rest as u32, tag: (rest >> 32) as u32 }
}

const _: () = assert!(EVENT_WORDS == 2);
