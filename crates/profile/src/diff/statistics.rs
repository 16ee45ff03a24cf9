//! Changes, and which of them are more than chance.

use std::cmp::Ordering;

use crate::estimate::Estimate;
use crate::model::Profile;

/// Expected fraction of chance among the changes called significant.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// Events that an unseen thing has at most, with 95 % confidence, where one could be seen:
/// `exp(-3)` is 5 %.
const UNSEEN_AT_MOST: f64 = 3.0;

/// Nothing that is entered and left again takes less.
const SHORTEST_EXECUTION_NS: f64 = 1.0;

/// A figure in two profiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The figure in the first profile.
    pub before: Estimate,
    /// The figure in the second profile.
    pub after: Estimate,
    /// The difference in standard errors; infinite between exact figures that differ.
    pub z: f64,
    /// How likely so large a difference is if nothing changed.
    pub p_value: f64,
    /// Whether it is beyond the error bars, all other comparisons considered.
    pub is_significant: bool,
}

impl Change {
    /// Compares two independent estimates. Alone, a change is significant if its p-value is; among
    /// others, [`mark_significant`] decides.
    pub(super) fn of(before: Estimate, after: Estimate) -> Change {
        let difference = after.value - before.value;
        let error = (before.variance + after.variance).max(0.0).sqrt();
        let z = if difference == 0.0 { 0.0 } else { difference / error };
        let p_value = libm::erfc(z.abs() / std::f64::consts::SQRT_2);
        Change { before, after, z, p_value, is_significant: p_value <= FALSE_DISCOVERY_RATE }
    }

    /// Returns how much larger the second figure is.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after.value - self.before.value
    }

    /// Significant changes first, and large ones.
    pub(super) fn larger_first(&self, other: &Change) -> Ordering {
        let by_size = other.difference().abs().total_cmp(&self.difference().abs());
        other.is_significant.cmp(&self.is_significant).then(by_size)
    }
}

/// Benjamini and Hochberg: with the `m` p-values in ascending order, those up to the last with
/// `p_k <= k / m * rate` are significant.
pub(super) fn mark_significant(mut changes: Vec<&mut Change>) {
    changes.sort_by(|a, b| a.p_value.total_cmp(&b.p_value));
    let n = changes.len() as f64;
    let passes =
        |(index, change): (usize, &&mut Change)| change.p_value <= (index + 1) as f64 / n * FALSE_DISCOVERY_RATE;
    let n_significant = changes.iter().enumerate().rposition(passes).map_or(0, |last| last + 1);
    for (index, change) in changes.into_iter().enumerate() {
        change.is_significant = index < n_significant;
    }
}

/// How sure a profile is of what it has not seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    count_variance: f64,
    time_variance: f64,
}

impl Unseen {
    pub(super) fn of(profile: &Profile, sampled_ns: Estimate) -> Unseen {
        let is_sampled = 0.0 < sampled_ns.variance && 0 < sampled_ns.seen;
        let tick_ns = if is_sampled { sampled_ns.value / sampled_ns.seen as f64 } else { 0.0 };
        let n_unwatched = if is_sampled { profile.unwatched_ns / SHORTEST_EXECUTION_NS } else { 0.0 };
        let variance_reaching = |bound: f64| {
            let unit = Estimate { variance: 1.0, ..Estimate::default() };
            (bound / unit.margin()).powi(2)
        };
        Unseen {
            count_variance: variance_reaching(profile.unseen_at_most + n_unwatched),
            time_variance: variance_reaching(UNSEEN_AT_MOST * tick_ns),
        }
    }

    pub(super) fn count(&self, count: Estimate) -> Estimate {
        widen(count, self.count_variance)
    }

    pub(super) fn time(&self, time: Estimate) -> Estimate {
        widen(time, self.time_variance)
    }
}

fn widen(estimate: Estimate, unseen_variance: f64) -> Estimate {
    if estimate.value == 0.0 {
        Estimate { variance: estimate.variance.max(unseen_variance), ..estimate }
    } else {
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, variance: f64) -> Estimate {
        Estimate { value, variance, seen: 1 }
    }

    #[test]
    fn z_and_p_of_known_differences() {
        let change = Change::of(estimate(10.0, 9.0), estimate(20.0, 16.0));
        assert_eq!(change.z, 2.0);
        assert!((change.p_value - 0.045_500_263_896).abs() < 1e-9);
        assert!(change.is_significant);
        assert_eq!(Change::of(estimate(20.0, 16.0), estimate(10.0, 9.0)).z, -2.0);
    }

    #[test]
    fn exact_figures_differ_surely_or_not_at_all() {
        let change = Change::of(Estimate::exact(3), Estimate::exact(4));
        assert_eq!((change.z, change.p_value), (f64::INFINITY, 0.0));
        let same = Change::of(Estimate::exact(3), Estimate::exact(3));
        assert_eq!((same.z, same.p_value, same.is_significant), (0.0, 1.0, false));
    }

    #[test]
    fn many_comparisons_raise_the_bar() {
        // 0.01 passes 1/5 of 5 %, 0.02 passes 2/5, 0.04 fails 3/5, 0.041 fails 4/5, and 0.9 fails.
        let mut changes = [0.04, 0.01, 0.9, 0.02, 0.041]
            .map(|p_value| Change { p_value, ..Change::of(Estimate::default(), Estimate::default()) });
        mark_significant(changes.iter_mut().collect());
        assert_eq!(changes.map(|change| change.is_significant), [false, true, false, true, false]);
    }

    #[test]
    fn a_later_pass_takes_the_earlier_ones_with_it() {
        // 0.03 fails 1/2 of 5 %, but 0.04 passes 2/2.
        let mut changes =
            [0.03, 0.04].map(|p_value| Change { p_value, ..Change::of(Estimate::default(), Estimate::default()) });
        mark_significant(changes.iter_mut().collect());
        assert_eq!(changes.map(|change| change.is_significant), [true, true]);
    }

    #[test]
    fn the_unseen_is_not_surely_zero() {
        let profile = Profile { unseen_at_most: 600.0, unwatched_ns: 50.0, ..Profile::default() };
        let unseen = Unseen::of(&profile, Estimate { value: 1000.0, variance: 5.0, seen: 10 });
        assert!((unseen.count(Estimate::default()).margin() - 650.0).abs() < 1e-9);
        assert!((unseen.time(Estimate::default()).margin() - 300.0).abs() < 1e-9);
        assert_eq!(unseen.time(estimate(1.0, 2.0)), estimate(1.0, 2.0));
    }
}
