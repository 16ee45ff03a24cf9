//! A branch predictor, to tell which branches cost time.
//!
//! Two-bit counters, found by the branch and the outcomes before it (McFarling's *gshare*). Processors do better, but they meet each
//! branch a thousand times as often as bursts do; the time per miss is fitted to this one ([`super::time_model`]).

use super::histories::BranchRow;

const HISTORY_BITS: u32 = 12;
const TABLE_BITS: u32 = 18;
/// Spreads consecutive numbers of branches over the table.
const SPREAD: u32 = 40503;
const WEAKLY_TAKEN: u8 = 2;
const STRONGLY_TAKEN: u8 = 3;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Predictor {
    counters: Vec<u8>,
    history: u32,
    n_surprises: u32,
}

impl Predictor {
    pub fn new() -> Predictor {
        Predictor { counters: vec![WEAKLY_TAKEN; 1 << TABLE_BITS], history: 0, n_surprises: 0 }
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
        let index = (branch.number().wrapping_mul(SPREAD) ^ self.history) % (1 << TABLE_BITS);
        let counter = &mut self.counters[index as usize];
        self.n_surprises += u32::from((*counter >= WEAKLY_TAKEN) != is_taken);
        *counter = if is_taken { (*counter + 1).min(STRONGLY_TAKEN) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | u32::from(is_taken)) % (1 << HISTORY_BITS);
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
}
