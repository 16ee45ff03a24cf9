//! Visits of loops: how many iterations there are from entry to exit.
//!
//! The loops around a block are known from the code; what a burst adds is how often their headers
//! ran since they were entered. The visits in progress are a stack: those of a frame are the loops
//! around the frame's present block, outermost first.

use super::Known;
use super::events::Tally;
use super::ids::LoopKey;
use super::nests::{MetLoopId, Nest, Nests};
use super::trie::LoopChange;

/// What is known of visits, by loop.
#[derive(Debug, Default)]
pub(super) struct Loops {
    visits: Vec<Visits>,
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
    of: MetLoopId,
    n_iterations: u64,
    /// Whether it was seen to begin, at the header.
    is_whole: bool,
}

impl Loops {
    /// What is known of a loop of which a visit has ended.
    pub fn get(&self, nests: &Nests, key: LoopKey) -> Option<&Visits> {
        let visits = self.visits.get(nests.find(key)?.index())?;
        (visits.n_partial > 0 || !visits.trips.is_empty()).then_some(visits)
    }

    #[inline]
    fn end(&mut self, visit: Visit) {
        if self.visits.len() <= visit.of.index() {
            self.visits.resize_with(visit.of.index() + 1, Visits::default);
        }
        let visits = &mut self.visits[visit.of.index()];
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

impl VisitStack {
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// Control appears at a block; the loops around it are being visited already.
    pub fn resume(&mut self, nests: &Nests, nest: Nest) {
        let members = nests.members(nest).iter().rev();
        self.stack.extend(members.map(|member| Visit {
            of: member.of,
            n_iterations: u64::from(member.is_header),
            is_whole: false,
        }));
    }

    /// Control enters a function at a block, or so many of the loops around it.
    #[inline]
    pub fn enter(&mut self, known: &mut Known, tally: &mut Tally, nest: Nest, n_entered: usize) {
        let Known { nests, events, .. } = known;
        for index in (0..nests.members(nest).len().min(n_entered)).rev() {
            let member = nests.members(nest)[index];
            self.stack.push(Visit {
                of: member.of,
                n_iterations: u64::from(member.is_header),
                is_whole: member.is_header,
            });
            tally.add(nests.entry(events, member.of), 1.0);
        }
    }

    /// Control leaves loops within a function.
    #[inline]
    pub fn leave(&mut self, loops: &mut Loops, change: LoopChange) {
        for _ in 0..change.n_left {
            if let Some(visit) = self.stack.pop() {
                loops.end(visit);
            }
        }
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
}
