//! Sums over a recording: ticks by outcome, bursts by the reason of their end, and the time that
//! they took.
//!
//! Times come from the time-stamp counter, which goes on while a thread does not run. A burst that
//! was preempted looks longer than it was, so each is cut at [`OUTLIER`] times the usual time per
//! record before it is summed, and each handler at [`HANDLER_LIMIT`]; what that cuts off is kept
//! too.

use std::collections::BTreeMap;

use wire::sample::{EndReason, Outcome, SampleHeader};

/// A burst that takes this many times longer per record than the running mean was interrupted.
const OUTLIER: f64 = 8.0;
/// Bursts before the running mean is trusted; until then it is taken to be [`USUAL_CYCLES`] per
/// record, which is a slow burst.
const WARM_UP: u64 = 16;
const USUAL_CYCLES: f64 = 40.0;
/// Records that the fixed part of a burst is worth.
const FIXED_RECORDS: f64 = 256.0;
/// Cycles that a handler can take without having been interrupted.
const HANDLER_LIMIT: u64 = 400_000;

/// Sums over samples.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub n_samples: u64,
    /// Ticks that the kernel merged into others.
    pub n_overruns: u64,
    pub outcomes: BTreeMap<Outcome, u64>,
    pub end_reasons: BTreeMap<EndReason, u64>,
    pub n_bursts: u64,
    pub n_full_bursts: u64,
    pub n_records: u64,
    pub n_checks: u64,
    pub n_system_calls: u64,
    pub n_stack_bytes: u64,
    /// Cycles in tick handlers, from entry to return.
    pub handler_cycles: u64,
    /// Cycles in bursts, without system calls and without what is taken for interruptions.
    pub burst_cycles: f64,
    /// Cycles that are taken for interruptions of bursts.
    pub interrupted_cycles: f64,
    pub n_interrupted: u64,
}

/// Outcomes of ticks in file-backed code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Yields {
    /// Ticks in file-backed code.
    pub n_tries: u64,
    /// Of these, those that started a burst.
    pub n_bursts: u64,
    /// Of these, those of full length.
    pub n_full: u64,
}

impl Yields {
    pub fn since(self, earlier: Yields) -> Yields {
        Yields {
            n_tries: self.n_tries - earlier.n_tries,
            n_bursts: self.n_bursts - earlier.n_bursts,
            n_full: self.n_full.saturating_sub(earlier.n_full),
        }
    }

    pub fn hit_rate(self) -> Option<f64> {
        (self.n_tries > 0).then(|| self.n_bursts as f64 / self.n_tries as f64)
    }

    pub fn full_rate(self) -> Option<f64> {
        (self.n_bursts > 0).then(|| self.n_full as f64 / self.n_bursts as f64)
    }
}

/// The cost in the program, as totals since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub n_ticks: f64,
    pub n_bursts: f64,
    pub n_checks: f64,
    /// Seconds in handlers and of delivering the signals.
    pub tick_seconds: f64,
    /// Seconds in bursts.
    pub burst_seconds: f64,
    /// Seconds of starting processes, which no setting changes.
    pub start_seconds: f64,
    /// Seconds of counting blocks in native code.
    pub spot_seconds: f64,
}

impl Cost {
    /// Returns the seconds that the budget limits.
    pub fn seconds(&self) -> f64 {
        self.tick_seconds + self.burst_seconds + self.spot_seconds
    }
}

impl Tally {
    pub fn add(&mut self, sample: &SampleHeader) {
        self.n_samples += 1;
        self.n_overruns += u64::from(sample.overrun);
        self.n_stack_bytes += u64::from(sample.stack_bytes);
        self.handler_cycles += sample.resume_tsc.saturating_sub(sample.tick_tsc).min(HANDLER_LIMIT);
        let Some(outcome) = Outcome::from_u8(sample.outcome) else { return };
        *self.outcomes.entry(outcome).or_default() += 1;
        if outcome == Outcome::Burst {
            self.add_burst(sample);
        }
    }

    fn add_burst(&mut self, sample: &SampleHeader) {
        let reason = EndReason::from_u8(sample.end_reason).unwrap_or(EndReason::None);
        *self.end_reasons.entry(reason).or_default() += 1;
        self.n_bursts += 1;
        self.n_full_bursts += u64::from(reason == EndReason::Full);
        self.n_records += u64::from(sample.n_records);
        self.n_checks += u64::from(sample.checks_planned.saturating_sub(sample.checks_left));
        self.n_system_calls += u64::from(sample.n_system_calls);
        if reason == EndReason::Died {
            return;
        }
        let cycles = sample.end_tsc.saturating_sub(sample.resume_tsc).saturating_sub(sample.system_call_cycles) as f64;
        let known = self.burst_cycles / self.n_records.max(1) as f64;
        let usual = if self.n_bursts > WARM_UP { known } else { USUAL_CYCLES };
        let counted = cycles.min(OUTLIER * usual * (f64::from(sample.n_records) + FIXED_RECORDS));
        self.burst_cycles += counted;
        self.interrupted_cycles += cycles - counted;
        self.n_interrupted += u64::from(counted < cycles);
    }

    /// Returns the cost of all ticks that were delivered.
    pub fn cost(&self, cycles_per_second: f64, delivery_seconds: f64) -> Cost {
        Cost {
            n_ticks: self.n_samples as f64,
            n_bursts: self.yields().n_bursts as f64,
            n_checks: self.n_checks as f64,
            tick_seconds: self.handler_cycles as f64 / cycles_per_second + self.n_samples as f64 * delivery_seconds,
            burst_seconds: self.burst_cycles / cycles_per_second,
            start_seconds: 0.0,
            spot_seconds: 0.0,
        }
    }

    /// Returns the outcomes of ticks so far.
    pub fn yields(&self) -> Yields {
        let of = |outcome| self.outcomes.get(&outcome).copied().unwrap_or(0);
        Yields {
            n_tries: of(Outcome::Burst) + of(Outcome::NoCopy),
            n_bursts: of(Outcome::Burst),
            n_full: self.n_full_bursts,
        }
    }
}

pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Burst => "burst",
        Outcome::NoCopy => "no copy yet",
        Outcome::Outside => "outside known code",
        Outcome::SystemCall => "in the kernel",
        Outcome::Paused => "paused",
        Outcome::Unloading => "library unloading",
        Outcome::Skipped => "skipped",
    }
}

pub fn end_reason_name(reason: EndReason) -> &'static str {
    match reason {
        EndReason::None => "not ended",
        EndReason::Full => "full length",
        EndReason::BufferFull => "buffer full",
        EndReason::NoCopy => "into code without a copy",
        EndReason::Outside => "out of known code",
        EndReason::SystemCall => "system call that changes control",
        EndReason::Instruction => "instruction not copied",
        EndReason::Signal => "signal",
        EndReason::Unloading => "library unloading",
        EndReason::Asked => "told to leave",
        EndReason::NewContext => "new calling context",
        EndReason::Died => "died in it",
        EndReason::EventsFull => "buffer of events full",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(n_records: u32, cycles: u64) -> SampleHeader {
        SampleHeader {
            outcome: Outcome::Burst as u8,
            end_reason: EndReason::Full as u8,
            n_records,
            checks_planned: 10,
            tick_tsc: 1000,
            resume_tsc: 1500,
            end_tsc: 1500 + cycles,
            ..SampleHeader::default()
        }
    }

    #[test]
    fn bursts_and_misses_are_told_apart() {
        let mut tally = Tally::default();
        tally.add(&burst(20, 100));
        tally.add(&SampleHeader { outcome: Outcome::NoCopy as u8, ..SampleHeader::default() });
        assert_eq!((tally.n_samples, tally.n_bursts, tally.n_full_bursts, tally.n_checks), (2, 1, 1, 10));
        assert_eq!(tally.yields().hit_rate(), Some(0.5));
    }

    #[test]
    fn an_interrupted_burst_does_not_count_in_full() {
        let mut tally = Tally::default();
        (0..100).for_each(|_| tally.add(&burst(1000, 2000)));
        tally.add(&burst(1000, 10_000_000));
        assert_eq!(tally.n_interrupted, 1);
        assert!(tally.burst_cycles < 300_000.0, "{}", tally.burst_cycles);
        assert!(tally.interrupted_cycles > 9_000_000.0);
    }
}
