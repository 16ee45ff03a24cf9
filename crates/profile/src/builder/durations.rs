//! Durations of bursts, robustly.
//!
//! A measurement can be off by orders of magnitude: the thread was preempted, or a page had to be fetched. On a busy machine that happens
//! to many bursts, and always makes them longer. So a burst whose time, in terms of the expected one, is farther than a factor from the
//! median of the bursts before it counts as if it had that median: the stratum's own when it has [`MIN_BURSTS`], that of all strata
//! otherwise, with more room because functions differ.

/// Bursts that make a median.
const MIN_BURSTS: u32 = 8;
/// Outliers are farther than this factor from the median of their stratum,
const FACTOR_IN_STRATUM: f64 = 2.0;
/// or than this one from the median of all.
const FACTOR_IN_ALL: f64 = 8.0;
/// Ratios are kept from 2^-16 to 2^16.
const BINS_PER_OCTAVE: usize = 4;
const N_BINS: usize = 32 * BINS_PER_OCTAVE;

/// Measured times over expected ones, as a histogram over logarithms.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    bins: [u32; N_BINS],
    n: u32,
}

impl Ratios {
    pub const EMPTY: Ratios = Ratios { bins: [0; N_BINS], n: 0 };

    fn add(&mut self, ratio: f64) {
        let bin = ((ratio.log2() + 16.0) * BINS_PER_OCTAVE as f64).clamp(0.0, (N_BINS - 1) as f64);
        self.bins[bin as usize] = self.bins[bin as usize].saturating_add(1);
        self.n = self.n.saturating_add(1);
    }

    /// The middle of the bin with the median.
    fn median(&self) -> Option<f64> {
        let mut n_below = 0u64;
        let holds_median = |&count: &u32| {
            n_below += u64::from(count);
            n_below * 2 >= u64::from(self.n)
        };
        let bin = self.bins.iter().position(holds_median).filter(|_| self.n >= MIN_BURSTS)?;
        Some(((bin as f64 + 0.5) / BINS_PER_OCTAVE as f64 - 16.0).exp2())
    }
}

/// The duration of a burst, from a measurement, what was expected, and the bursts before it.
pub(super) fn robust_ns(stratum: &mut Ratios, all: &mut Ratios, measured_ns: f64, expected_ns: f64) -> f64 {
    if expected_ns <= 0.0 {
        return measured_ns;
    }
    let usual = match (stratum.median(), all.median()) {
        (Some(median), _) => Some((median, FACTOR_IN_STRATUM)),
        (None, Some(median)) => Some((median, FACTOR_IN_ALL)),
        (None, None) => None,
    };
    let ratio = measured_ns / expected_ns;
    if ratio > 0.0 {
        stratum.add(ratio);
        all.add(ratio);
    }
    match usual {
        Some((median, factor)) if !(median / factor..=median * factor).contains(&ratio) => median * expected_ns,
        _ => measured_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_honest_times_and_replaces_outliers() {
        let (mut stratum, mut all) = (Ratios::EMPTY, Ratios::EMPTY);
        for _ in 0..20 {
            assert_eq!(robust_ns(&mut stratum, &mut all, 1000.0, 500.0), 1000.0);
        }
        assert_eq!(robust_ns(&mut stratum, &mut all, 1500.0, 500.0), 1500.0);
        for outlier in [4e6, 0.0] {
            let replaced = robust_ns(&mut stratum, &mut all, outlier, 500.0);
            assert!((800.0..1250.0).contains(&replaced), "{replaced}");
        }
        assert!(robust_ns(&mut stratum, &mut all, 1.0, 0.0).is_finite());
    }

    #[test]
    fn a_new_stratum_borrows_the_median_of_all() {
        let (mut known, mut new, mut all) = (Ratios::EMPTY, Ratios::EMPTY, Ratios::EMPTY);
        for _ in 0..MIN_BURSTS {
            robust_ns(&mut known, &mut all, 500.0, 500.0);
        }
        assert_eq!(robust_ns(&mut new, &mut all, 3000.0, 500.0), 3000.0);
        assert!(robust_ns(&mut new, &mut all, 1e9, 500.0) < 1000.0);
    }
}
