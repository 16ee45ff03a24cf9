//! How long bursts would have taken without being watched, robustly.
//!
//! The caller measures every burst, but a measurement can be off by orders of magnitude: the thread was preempted, a page had to be
//! fetched, the correction for the probes came out larger than the time. One such burst must not drown the others of its stratum. So the time
//! per instruction is kept within a factor of the median of the bursts before it: the stratum's own when it has
//! [`MIN_BURSTS`], that of all strata otherwise, with more room because functions differ. Time per instruction is steadier than time per
//! check, since it does not depend on what lies between checks.
//!
//! The limits are wide on purpose. Only sums of durations are used, where honest noise averages out, while cutting off an honest tail is a bias.

/// Bursts that make a median.
const MIN_BURSTS: u32 = 8;
/// Outliers are farther than this factor from the median of their stratum,
const FACTOR_IN_STRATUM: f64 = 16.0;
/// or than this one from the median of all.
const FACTOR_IN_ALL: f64 = 256.0;
/// Bins of half an octave, from 2^-16 to 2^16 ns per instruction.
const N_BINS: usize = 64;

/// Times per instruction, as a histogram over logarithms.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    bins: [u32; N_BINS],
    n: u32,
}

impl Rates {
    pub const EMPTY: Rates = Rates { bins: [0; N_BINS], n: 0 };

    fn add(&mut self, ns_per_insn: f64) {
        let bin = ((ns_per_insn.log2() + 16.0) * 2.0).clamp(0.0, (N_BINS - 1) as f64);
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
        Some(((bin as f64 + 0.5) / 2.0 - 16.0).exp2())
    }
}

/// The duration of a burst, from a measurement and the bursts before it.
pub(super) fn robust_ns(stratum: &mut Rates, all: &mut Rates, native_ns: f64, n_insns: f64) -> f64 {
    let n_insns = n_insns.max(1.0);
    let limits = match (stratum.median(), all.median()) {
        (Some(median), _) => Some((median / FACTOR_IN_STRATUM, median * FACTOR_IN_STRATUM)),
        (None, Some(median)) => Some((median / FACTOR_IN_ALL, median * FACTOR_IN_ALL)),
        (None, None) => None,
    };
    let measured = if native_ns.is_finite() { native_ns.max(0.0) / n_insns } else { 0.0 };
    if measured > 0.0 {
        stratum.add(measured);
        all.add(measured);
    }
    limits.map_or(measured, |(low, high)| measured.clamp(low, high)) * n_insns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_honest_times_and_clips_outliers() {
        let (mut stratum, mut all) = (Rates::EMPTY, Rates::EMPTY);
        for _ in 0..20 {
            assert_eq!(robust_ns(&mut stratum, &mut all, 1000.0, 500.0), 1000.0);
        }
        assert_eq!(robust_ns(&mut stratum, &mut all, 9000.0, 500.0), 9000.0);
        let preempted = robust_ns(&mut stratum, &mut all, 4e6, 500.0);
        assert!((8_000.0..32_000.0).contains(&preempted), "{preempted}");
        let negative = robust_ns(&mut stratum, &mut all, -50.0, 500.0);
        assert!((30.0..200.0).contains(&negative), "{negative}");
        assert!(robust_ns(&mut stratum, &mut all, f64::NAN, 0.0).is_finite());
    }

    #[test]
    fn a_new_stratum_borrows_the_median_of_all() {
        let (mut known, mut new, mut all) = (Rates::EMPTY, Rates::EMPTY, Rates::EMPTY);
        for _ in 0..MIN_BURSTS {
            robust_ns(&mut known, &mut all, 500.0, 500.0);
        }
        assert_eq!(robust_ns(&mut new, &mut all, 50_000.0, 500.0), 50_000.0);
        assert!(robust_ns(&mut new, &mut all, 1e9, 500.0) < 200_000.0);
    }
}
