//! Visits of loops: how many iterations there are from entry to exit.
//!
//! The loops around a block are known from the code; what a burst adds is how often their headers
//! ran since they were entered. The visits in progress are a stack: those of a frame are the loops
//! around the frame's present block, outermost first.

use rustc_hash::FxHashMap;

use super::code_map::Located;
use super::events::{Event, Events, Tally};
use super::ids::LoopKey;
use super::trie::LoopChange;

/// What is known of visits, by loop.
#[derive(Debug, Default)]
pub(super) struct Loops {
    visits: FxHashMap<LoopKey, Visits>,
}

/// Visits of one loop that are over.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    /// See [`crate::model::Loop::trips`].
    pub trips: Vec<u64>,
    pub n_partial: u64,
}

/// Visits in progress.
#[derive(Debug, Default)]
pub(super) struct VisitStack {
    stack: Vec<Visit>,
}

#[derive(Clone, Copy, Debug)]
struct Visit {
    key: LoopKey,
    n_iterations: u64,
    /// Whether it was seen to begin, at the header.
    is_whole: bool,
}

impl Loops {
    pub fn get(&self, key: LoopKey) -> Option<&Visits> {
        self.visits.get(&key)
    }

    fn end(&mut self, visit: Visit) {
        let visits = self.visits.entry(visit.key).or_default();
        match visit.n_iterations.checked_ilog2() {
            Some(power) if visit.is_whole => {
                let power = power as usize;
                if visits.trips.len() <= power {
                    visits.trips.resize(power + 1, 0);
                }
                visits.trips[power] += 1;
            }
            _ => visits.n_partial += 1,
        }
    }
}

/// Where entries of loops are counted.
#[derive(Debug)]
pub(super) struct EntryCount<'a> {
    pub events: &'a mut Events,
    pub tally: &'a mut Tally,
}

impl VisitStack {
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// Control appears at a block; the loops around it are being visited already.
    pub fn resume(&mut self, block: &Located<'_>) {
        self.push_loops(block, usize::MAX, None);
    }

    /// Control enters a function at a block.
    pub fn enter(&mut self, block: &Located<'_>, count: EntryCount<'_>) {
        self.push_loops(block, usize::MAX, Some(count));
    }

    /// Control moves to a block of the same function.
    pub fn change(&mut self, loops: &mut Loops, change: LoopChange, block: &Located<'_>, count: EntryCount<'_>) {
        for _ in 0..change.n_left {
            if let Some(visit) = self.stack.pop() {
                loops.end(visit);
            }
        }
        self.push_loops(block, usize::from(change.n_entered), Some(count));
    }

    /// Control is back at the header of the innermost loop.
    #[inline]
    pub fn iterate(&mut self) {
        if let Some(visit) = self.stack.last_mut() {
            visit.n_iterations += 1;
        }
    }

    /// All visits but the first `len` end here.
    pub fn end_to(&mut self, loops: &mut Loops, len: usize) {
        while self.stack.len() > len
            && let Some(visit) = self.stack.pop()
        {
            loops.end(visit);
        }
    }

    /// All visits but the first `len` are lost from sight.
    pub fn lose_to(&mut self, loops: &mut Loops, len: usize) {
        for visit in self.stack.iter_mut().skip(len) {
            visit.is_whole = false;
        }
        self.end_to(loops, len);
    }

    fn push_loops(&mut self, block: &Located<'_>, limit: usize, count: Option<EntryCount<'_>>) {
        let bottom = self.stack.len();
        let is_seen = count.is_some();
        self.stack.extend(block.loops().take(limit).map(|(key, is_header)| Visit {
            key,
            n_iterations: u64::from(is_header),
            is_whole: is_seen && is_header,
        }));
        self.stack[bottom..].reverse();
        if let Some(EntryCount { events, tally }) = count {
            for visit in &self.stack[bottom..] {
                tally.add(events.number(Event::LoopEntry(visit.key)), 1.0);
            }
        }
    }
}
