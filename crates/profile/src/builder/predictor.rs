//! A branch predictor, to tell which branches cost time.
//!
//! Two-bit counters, found by the branch and the outcomes before it: many outcomes, some, few,
//! none, each in a table of its own, as in predictors of the TAGE family. The one with the longest
//! history that has been met before decides. A branch that was never met is taken to be predicted:
//! processors meet each branch a thousand times as often as bursts do, and are surprised by what is
//! hard to predict, not by what is new. The time per miss is fitted to this predictor
//! ([`super::time_model`]).

use super::histories::BranchRow;

/// Outcomes that find a counter, by table.
const HISTORY_BITS: [u32; 4] = [24, 12, 5, 0];
const TABLE_BITS: u32 = 18;
/// Of a counter that was never used; others are from strongly not taken to strongly taken.
const UNUSED: u8 = 0;
const STRONGLY_NOT_TAKEN: u8 = 1;
const WEAKLY_NOT_TAKEN: u8 = 2;
const WEAKLY_TAKEN: u8 = 3;
const STRONGLY_TAKEN: u8 = 4;
/// What a counter becomes when its branch is not taken, and taken. A table, because what branches
/// do is what the processor that runs this cannot predict either.
const AFTERWARDS: [[u8; 8]; 2] = [
    [WEAKLY_NOT_TAKEN, STRONGLY_NOT_TAKEN, STRONGLY_NOT_TAKEN, WEAKLY_NOT_TAKEN, WEAKLY_TAKEN, 0, 0, 0],
    [WEAKLY_TAKEN, WEAKLY_NOT_TAKEN, WEAKLY_TAKEN, STRONGLY_TAKEN, STRONGLY_TAKEN, 0, 0, 0],
];

/// See the module's header.
#[derive(Debug)]
pub(super) struct Predictor {
    /// One table after the other.
    counters: Vec<u8>,
    history: u64,
    n_surprises: u32,
}

impl Predictor {
    pub fn new() -> Predictor {
        Predictor { counters: vec![UNUSED; HISTORY_BITS.len() << TABLE_BITS], history: 0, n_surprises: 0 }
    }

    /// A burst begins.
    pub fn start(&mut self) {
        (self.history, self.n_surprises) = (0, 0);
    }

    /// Mispredictions since the burst began.
    pub fn n_surprises(&self) -> u32 {
        self.n_surprises
    }

    #[inline]
    pub fn learn(&mut self, branch: BranchRow, is_taken: bool) {
        let mut decides = UNUSED;
        for (table, bits) in HISTORY_BITS.into_iter().enumerate() {
            let outcomes = self.history % (1 << bits);
            let key = (u64::from(branch.number()) << 32 ^ outcomes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let counter = &mut self.counters[table << TABLE_BITS | (key >> (u64::BITS - TABLE_BITS)) as usize];
            decides = if decides == UNUSED { *counter } else { decides };
            *counter = AFTERWARDS[usize::from(is_taken)][usize::from(*counter % 8)];
        }
        let is_surprise = decides != UNUSED && (decides >= WEAKLY_TAKEN) != is_taken;
        self.n_surprises += u32::from(is_surprise);
        self.history = self.history << 1 | u64::from(is_taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surprises(outcomes: impl Iterator<Item = bool>) -> u32 {
        let mut predictor = Predictor::new();
        outcomes.for_each(|is_taken| predictor.learn(BranchRow::NONE, is_taken));
        predictor.n_surprises()
    }

    #[test]
    fn patterns_are_learned_and_chance_is_not() {
        assert!(surprises((0..10_000).map(|_| true)) < 5);
        assert!(surprises((0..10_000).map(|n| n % 5 == 0)) < 50);
        let mut state = 1u64;
        let chance = (0..100_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 63 == 1
        });
        assert!((40_000..60_000).contains(&surprises(chance)));
    }

    #[test]
    fn what_was_never_seen_does_not_surprise() {
        let mut predictor = Predictor::new();
        predictor.learn(BranchRow::NONE, false);
        assert_eq!(predictor.n_surprises(), 0);
        predictor.start();
        predictor.learn(BranchRow::NONE, true);
        assert_eq!(predictor.n_surprises(), 1);
    }
}
