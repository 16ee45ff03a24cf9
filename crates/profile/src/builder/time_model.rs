//! How long bursts would have taken without being watched.
//!
//! The time that a burst took says little about that. Its copy of the code is in no cache, its
//! branches in no predictor, its pages are touched for the first time: where the program takes 0.5
//! ns per block by itself, a burst takes 5 to 20. To take the cost of watching off what was
//! measured is to take the difference of two large numbers. So there are two sources, and their
//! errors are known from programs whose every block was counted:
//!
//! * **The model.** Native time is taken to be what a simple processor takes that waits for nothing
//!   but the inputs of its instructions ([`super::pipeline`]), so much per branch that is hard to
//!   predict, by a simulated predictor ([`super::predictor`]), and so much per return or computed
//!   jump. This is right within a factor of some 1.4, except for code that waits for memory.
//! * **The measurement**, less the cost of watching: so much per burst, per record, per distinct
//!   block and page, per return or computed jump. It errs by a share of the whole,
//!   [`TimeModel::watch_error`]; only where the program is slow is that less than the difference.
//!
//! They are combined per phase of the program ([`super::phases`]). Let `x` be the logarithm of true
//! over modelled time, `z` that of measured over modelled time, with the error `s` that follows
//! from the share. Before anything is measured, `x` is normal with the deviation of the model, or,
//! rarely, with one that is large enough for memory; what it is afterwards follows by Bayes' rule:
//!
//! ```text
//! weight of each kind   proportional to   P(kind) N(z; 0, d_kind^2 + s^2)
//! x of a kind                             z d_kind^2 / (d_kind^2 + s^2), with the variance d_kind^2 s^2 / (d_kind^2 + s^2)
//! ```
//!
//! What is left of the variance is an error that all counts of the phase share: they can be off by
//! a factor, their ratios not.

use super::doubt::Doubt;

/// How long code takes, watched and not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeModel {
    /// Native time of a cycle of the modelled processor ([`super::pipeline`]).
    pub cycle_ns: f64,
    /// Native time that a mispredicted branch adds.
    pub surprise_ns: f64,
    /// Native time that a return, indirect call or indirect jump adds.
    pub transfer_ns: f64,
    /// Standard deviation of the logarithm of native time over the model's.
    pub log_error: f64,
    /// What watching costs per burst.
    pub watch_burst_ns: f64,
    /// What watching costs per block record.
    pub watch_record_ns: f64,
    /// What watching costs per distinct block.
    pub watch_block_ns: f64,
    /// What watching costs per distinct page of code.
    pub watch_page_ns: f64,
    /// What watching costs per return, indirect call or indirect jump.
    pub watch_transfer_ns: f64,
    /// Error of a measured duration less the cost of watching, as a share of the duration. If it is
    /// 0, measurements are all that counts.
    pub watch_error: f64,
    /// What a tick costs besides its burst.
    pub tick_ns: f64,
}

/// The kinds of code: the share of phases of each, and the deviation in terms of
/// [`TimeModel::log_error`].
const KINDS: [(f64, f64); 2] = [(0.95, 1.0), (0.05, 5.0)];
/// Bursts whose common error is twice that of many.
const FEW_BURSTS: f64 = 8.0;

/// What a burst did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub n_records: f64,
    pub n_cycles: f64,
    pub n_surprises: f64,
    pub n_blocks: f64,
    pub n_pages: f64,
    pub n_transfers: f64,
    pub n_system_calls: u32,
    /// Cycles if words that were stored are loaded at once, where that was simulated.
    pub n_cycles_at_least: Option<f64>,
}

/// Times of bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Measured duration.
    pub spent_ns: f64,
    /// What watching cost, by the model.
    pub watch_ns: f64,
    /// Native duration, by the model.
    pub model_ns: f64,
    /// How far the model can be off.
    pub doubt: Doubt,
}

/// Native time over the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slowness {
    pub factor: f64,
    /// Standard deviation of its logarithm.
    pub log_error: f64,
}

impl TimeModel {
    /// The model of recordings, fitted to programs of the corpus whose blocks were counted, and to
    /// their phases (`docs/lab/recording.md`).
    pub const RECORDED: TimeModel = TimeModel {
        cycle_ns: 0.34,
        surprise_ns: 8.0,
        transfer_ns: 1.15,
        log_error: 0.25,
        watch_burst_ns: 1300.0,
        watch_record_ns: 1.9,
        watch_block_ns: 32.0,
        watch_page_ns: 1300.0,
        watch_transfer_ns: 8.4,
        watch_error: 0.5,
        tick_ns: 15_000.0,
    };

    /// Measured durations are native: what replays of complete traces have.
    pub const EXACT: TimeModel = TimeModel {
        cycle_ns: 1.0,
        surprise_ns: 0.0,
        transfer_ns: 0.0,
        log_error: 1.0,
        watch_burst_ns: 0.0,
        watch_record_ns: 0.0,
        watch_block_ns: 0.0,
        watch_page_ns: 0.0,
        watch_transfer_ns: 0.0,
        watch_error: 0.0,
        tick_ns: 0.0,
    };

    /// Variance of the logarithm of native time over the model's, of strata of one phase among each
    /// other. Between phases none is assumed: to draw them together by it made shares worse
    /// (`docs/lab/accuracy.md`).
    pub(super) fn stratum_noise(&self) -> f64 {
        const OF_REGIONS: f64 = 0.1;
        if self.is_modelled() { OF_REGIONS } else { 0.0 }
    }

    /// Whether durations are modelled, and not measured.
    pub(super) fn is_modelled(&self) -> bool {
        self.watch_error > 0.0
    }

    pub(super) fn times(&self, spent_ns: f64, work: &Work) -> Times {
        let watch_ns = self.watch_burst_ns
            + self.watch_record_ns * work.n_records
            + self.watch_block_ns * work.n_blocks
            + self.watch_page_ns * work.n_pages
            + self.watch_transfer_ns * work.n_transfers;
        let spent_ns = if spent_ns.is_finite() { spent_ns.max(0.0) } else { 0.0 };
        if !self.is_modelled() {
            let model_ns = (spent_ns - watch_ns).max(0.0);
            return Times { spent_ns, watch_ns, model_ns, doubt: Doubt::default() };
        }
        let others_ns = self.surprise_ns * work.n_surprises + self.transfer_ns * work.n_transfers;
        let model_ns = self.cycle_ns * work.n_cycles + others_ns;
        let doubt = Doubt::new(model_ns, work.n_system_calls);
        let fast_ns = work.n_cycles_at_least.map(|n_cycles| self.cycle_ns * n_cycles + others_ns);
        Times { spent_ns, watch_ns, model_ns, doubt: fast_ns.map_or(doubt, |fast_ns| doubt.with_fast(fast_ns)) }
    }

    /// What is known before anything is measured.
    pub(super) fn unmeasured(&self) -> Slowness {
        Slowness { factor: 1.0, log_error: if self.watch_error > 0.0 { self.log_error } else { 0.0 } }
    }

    /// What the sums of the times of some bursts say, of undisturbed ones.
    pub(super) fn slowness(&self, sums: Times, n_bursts: f64) -> Slowness {
        let native_ns = sums.spent_ns - sums.watch_ns;
        if sums.model_ns <= 0.0 || native_ns <= 0.0 || self.watch_error <= 0.0 {
            let Slowness { factor, log_error } = self.unmeasured();
            return Slowness { factor, log_error: (log_error * log_error + sums.doubt.variance()).sqrt() };
        }
        let measured = (native_ns / sums.model_ns).ln();
        let share = self.watch_error * sums.spent_ns / native_ns;
        let measured_variance = share * share * (1.0 + FEW_BURSTS / n_bursts.max(1.0));
        let (mut likelihood, mut mean, mut square) = (0.0, 0.0, 0.0);
        for (share, deviations) in KINDS {
            let variance = (deviations * self.log_error).powi(2);
            let total = variance + measured_variance;
            let weight = share * (-0.5 * measured * measured / total).exp() / total.sqrt();
            let x = measured * variance / total;
            likelihood += weight;
            mean += weight * x;
            square += weight * (x * x + variance * measured_variance / total);
        }
        let doubt = sums.doubt.variance();
        if likelihood <= 0.0 {
            return Slowness { factor: measured.exp(), log_error: (measured_variance + doubt).sqrt() };
        }
        let (mean, square) = (mean / likelihood, square / likelihood);
        Slowness { factor: mean.exp(), log_error: ((square - mean * mean).max(0.0) + doubt).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: TimeModel = TimeModel {
        cycle_ns: 0.1,
        surprise_ns: 10.0,
        transfer_ns: 1.0,
        log_error: 0.3,
        watch_burst_ns: 1000.0,
        watch_record_ns: 2.0,
        watch_block_ns: 30.0,
        watch_page_ns: 1000.0,
        watch_transfer_ns: 10.0,
        watch_error: 0.3,
        tick_ns: 0.0,
    };

    fn sums(native_ns: f64, watch_ns: f64, model_ns: f64) -> Times {
        Times { spent_ns: native_ns + watch_ns, watch_ns, model_ns, doubt: Doubt::default() }
    }

    #[test]
    fn flat_code_is_believed_to_be_as_the_model_says() {
        let lost_in_the_cost = MODEL.slowness(sums(3.0, 20.0, 1.0), 100.0);
        assert!((1.0..1.5).contains(&lost_in_the_cost.factor), "{lost_in_the_cost:?}");
        assert!((0.25..0.6).contains(&lost_in_the_cost.log_error), "{lost_in_the_cost:?}");
        assert_eq!(MODEL.slowness(sums(-3.0, 20.0, 1.0), 100.0), Slowness { factor: 1.0, log_error: 0.3 });
    }

    #[test]
    fn code_that_waits_is_believed_to_be_as_measured() {
        let waiting = MODEL.slowness(sums(40.0, 4.0, 1.0), 100.0);
        assert!((25.0..40.0).contains(&waiting.factor), "{waiting:?}");
        assert!(waiting.log_error < 0.4, "{waiting:?}");
        let once = MODEL.slowness(sums(40.0, 4.0, 1.0), 1.0);
        assert!(once.factor < waiting.factor && once.log_error > waiting.log_error, "{once:?}");
    }

    #[test]
    fn measurements_without_error_are_the_result() {
        let times = TimeModel::EXACT.times(123.0, &Work { n_cycles: 50.0, ..Work::default() });
        assert_eq!(times.model_ns, 123.0);
        assert_eq!(TimeModel::EXACT.slowness(times, 3.0), Slowness { factor: 1.0, log_error: 0.0 });
    }

    #[test]
    fn times_add_up() {
        let work = Work {
            n_records: 100.0,
            n_cycles: 500.0,
            n_surprises: 2.0,
            n_blocks: 10.0,
            n_pages: 1.0,
            n_transfers: 5.0,
            ..Work::default()
        };
        let times = MODEL.times(9000.0, &work);
        assert_eq!((times.spent_ns, times.watch_ns, times.model_ns), (9000.0, 2550.0, 75.0));
        assert_eq!(MODEL.times(f64::NAN, &work).spent_ns, 0.0);
    }
}
