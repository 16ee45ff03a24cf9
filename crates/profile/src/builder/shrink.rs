//! Whether weights say more than chance.
//!
//! Weighted counts are right on average, but a program with a thousand regions has few bursts of
//! each, and what their weights add is mostly noise; plain counts of bursts have less of it, and a
//! bias. Between an estimate that is right on average and one that is steady, the combination of
//! James and Stein (1961) has the least error: with the variances `v` of the first and its
//! distances `d` to the second, scaled to the same sum,
//!
//! ```text
//! share of the second = sum of v / sum of d^2, 1 at most
//! ```
//!
//! Distances that are no larger than their noise mean nothing, and then the second is taken as it
//! is. As in [`super::weights`], the square of the share is used: where weights do say something,
//! they stay. `docs/lab/accuracy.md` has what it is worth.
//!
//! **Error.** What is steady need not be right. The square of a distance is that of the bias and
//! `v`, on average; so a combination that has moved an estimate by `m`, with the share `s` of the
//! second, has a squared bias of about `m^2 - s^2 v` beside its variance.

use crate::estimate::Estimate;

/// How to combine weighted and plain counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shrink {
    /// Of plain counts.
    share: f64,
    /// What a plain count stands for.
    scale: f64,
}

impl Shrink {
    /// Judges by pairs of an estimate and a plain count.
    pub fn of(pairs: impl Iterator<Item = (Estimate, f64)> + Clone) -> Shrink {
        let (sum, plain) = pairs.clone().fold((0.0, 0.0), |(a, b), (estimate, plain)| (a + estimate.value, b + plain));
        if sum <= 0.0 || plain <= 0.0 {
            return Shrink { share: 0.0, scale: 0.0 };
        }
        let scale = sum / plain;
        let (variance, distance) = pairs.fold((0.0, 0.0), |(variance, distance), (estimate, plain)| {
            (variance + estimate.variance, distance + (estimate.value - scale * plain).powi(2))
        });
        let share = if distance > 0.0 { (variance / distance).min(1.0) } else { 0.0 };
        Shrink { share: share * share, scale }
    }

    /// The combination of a weighted count and a plain one.
    pub fn apply(self, weighted: f64, plain: f64) -> f64 {
        weighted + self.share * (self.scale * plain - weighted)
    }

    /// The square of what a combination is wrong by that is so far from a weighted count of this
    /// variance.
    pub fn squared_bias(self, moved: f64, variance: f64) -> f64 {
        (moved * moved - self.share * self.share * variance).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shrink(pairs: &[(f64, f64, f64)]) -> Shrink {
        let pairs = pairs.iter().map(|&(value, variance, plain)| (Estimate { value, variance, seen: 0 }, plain));
        Shrink::of(pairs)
    }

    #[test]
    fn what_is_no_more_than_noise_is_taken_for_noise() {
        let noise = shrink(&[(60.0, 900.0, 4.0), (20.0, 900.0, 4.0)]);
        assert_eq!(noise, Shrink { share: 1.0, scale: 10.0 });
        assert_eq!((noise.apply(60.0, 4.0), noise.apply(20.0, 4.0)), (40.0, 40.0));
    }

    #[test]
    fn what_is_more_than_noise_stays() {
        let known = shrink(&[(60.0, 4.0, 4.0), (20.0, 4.0, 4.0)]);
        assert!((known.apply(60.0, 4.0) - 60.0).abs() < 0.01, "{known:?}");
        assert_eq!(shrink(&[(60.0, 0.0, 4.0), (20.0, 0.0, 4.0)]).apply(60.0, 4.0), 60.0);
    }

    #[test]
    fn sums_stay() {
        let half = shrink(&[(60.0, 300.0, 1.0), (20.0, 100.0, 3.0)]);
        assert!((half.apply(60.0, 1.0) + half.apply(20.0, 3.0) - 80.0).abs() < 1e-12);
        assert!((0.0..1.0).contains(&half.share), "{half:?}");
    }

    #[test]
    fn only_what_moves_further_than_chance_would_is_biased() {
        let noise = shrink(&[(60.0, 900.0, 4.0), (20.0, 900.0, 4.0)]);
        assert_eq!((noise.squared_bias(-20.0, 900.0), noise.squared_bias(50.0, 900.0)), (0.0, 1600.0));
        let known = Shrink { share: 0.5, scale: 1.0 };
        assert_eq!(known.squared_bias(20.0, 400.0), 300.0);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(shrink(&[]).apply(3.0, 1.0), 3.0);
        assert_eq!(shrink(&[(0.0, 0.0, 5.0)]).apply(0.0, 5.0), 0.0);
    }
}
