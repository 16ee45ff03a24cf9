//! When a profile is known well enough to stop sampling, and when to look again.
//!
//! At the end of each interval the caller measures how much the profile changed ([`change`]) and
//! asks the [`Convergence`] what to do. A profile that changed little several times in a row is
//! stable: sampling rests, for twice as many intervals each time, and then looks for one interval.
//! If that one agrees with what is known, it rests again; if not, it learns anew.
//!
//! [`Watch`] does that for profiles of values, and tells which places are known already, so that
//! their events can be left out (instruction filtering).

mod watch;

pub use watch::{Finding, Watch};

use core::cmp::Ordering;

/// When a profile counts as stable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Largest change of a stable profile, from 0 (same shares) to 1 (nothing in common).
    pub tolerance: f64,
    /// Intervals in a row that must have changed no more than that.
    pub n_stable: u32,
    /// Most intervals to rest.
    pub max_rest: u32,
}

/// What to do in the next interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Sample, and tell the change.
    Sample,
    /// Let the program run alone.
    Rest,
}

/// The state machine of one profile.
#[derive(Clone, Debug)]
pub struct Convergence {
    settings: Settings,
    state: State,
    next_rest: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Learning { n_stable: u32 },
    Resting { n_left: u32 },
    Checking,
}

impl Convergence {
    /// Starts by learning.
    #[must_use]
    pub fn new(settings: Settings) -> Convergence {
        Convergence { settings, state: State::Learning { n_stable: 0 }, next_rest: 1 }
    }

    /// What to do in the interval that begins.
    #[must_use]
    pub fn advice(&self) -> Advice {
        if matches!(self.state, State::Resting { .. }) { Advice::Rest } else { Advice::Sample }
    }

    /// Whether the profile has been found stable, and not been found different since.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        !matches!(self.state, State::Learning { .. })
    }

    /// An interval has ended, in which the profile changed so much; the change of an interval of
    /// rest is ignored.
    pub fn interval(&mut self, change: f64) -> Advice {
        let is_small = change <= self.settings.tolerance;
        self.state = match self.state {
            State::Resting { n_left: 0 | 1 } => State::Checking,
            State::Resting { n_left } => State::Resting { n_left: n_left - 1 },
            State::Checking if is_small => self.rest(),
            State::Learning { n_stable } if is_small && n_stable + 1 >= self.settings.n_stable => self.rest(),
            State::Learning { n_stable } if is_small => State::Learning { n_stable: n_stable + 1 },
            State::Learning { .. } | State::Checking => {
                self.next_rest = 1;
                State::Learning { n_stable: 0 }
            }
        };
        self.advice()
    }

    fn rest(&mut self) -> State {
        let n_left = self.next_rest.min(self.settings.max_rest).max(1);
        self.next_rest = n_left.saturating_mul(2);
        State::Resting { n_left }
    }
}

/// How different two profiles are, each sorted by tuple: 1 less the overlap of their shares.
#[must_use]
pub fn change<T: Ord>(before: &[(T, u64)], after: &[(T, u64)]) -> f64 {
    let total = |profile: &[(T, u64)]| profile.iter().map(|entry| entry.1 as f64).sum::<f64>();
    let totals = (total(before), total(after));
    if totals.0 == 0.0 || totals.1 == 0.0 {
        return if totals.0 == totals.1 { 0.0 } else { 1.0 };
    }
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut overlap = 0.0;
    while let (Some((left, left_count)), Some((right, right_count))) = (before.peek(), after.peek()) {
        match left.cmp(right) {
            Ordering::Less => _ = before.next(),
            Ordering::Greater => _ = after.next(),
            Ordering::Equal => {
                overlap += (*left_count as f64 / totals.0).min(*right_count as f64 / totals.1);
                before.next();
                after.next();
            }
        }
    }
    (1.0 - overlap).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SETTINGS: Settings = Settings { tolerance: 0.05, n_stable: 2, max_rest: 4 };

    fn advices(changes: &[f64]) -> Vec<Advice> {
        let mut convergence = Convergence::new(SETTINGS);
        changes.iter().map(|&change| convergence.interval(change)).collect()
    }

    #[test]
    fn a_stable_profile_rests_longer_and_longer() {
        use Advice::{Rest, Sample};
        let expected = [Sample, Rest, Sample, Rest, Rest, Sample, Rest, Rest, Rest, Rest, Sample, Rest];
        assert_eq!(advices(&[0.01; 12]), expected);
    }

    #[test]
    fn a_change_starts_over() {
        use Advice::{Rest, Sample};
        // Unstable in between, then stable, then different after the rest, then stable again with a
        // short rest.
        let changes = [0.01, 0.5, 0.01, 0.01, 0.0, 0.9, 0.01, 0.01, 0.0];
        assert_eq!(advices(&changes), [Sample, Sample, Sample, Rest, Sample, Sample, Sample, Rest, Sample]);
    }

    #[test]
    fn a_change_that_is_no_number_is_no_agreement() {
        let mut convergence = Convergence::new(SETTINGS);
        (0..5).for_each(|_| _ = convergence.interval(f64::NAN));
        assert!(!convergence.is_stable());
    }

    #[test]
    fn change_is_one_less_overlap() {
        assert_eq!(change(&[(1, 10), (2, 30)], &[(1, 1), (2, 3)]), 0.0);
        assert_eq!(change(&[(1, 10)], &[(2, 10)]), 1.0);
        assert_eq!(change(&[(1, 1), (2, 1)], &[(2, 1), (3, 1)]), 0.5);
        assert_eq!((change::<u8>(&[], &[]), change(&[], &[(1, 1)])), (0.0, 1.0));
    }
}
