//! What only recording in bursts has: ticks, bursts, and what they took.

use std::time::Duration;

use wire::control::TickSource;
use wire::sample::{EndReason, Outcome};

use super::{Ending, RunFacts};
use crate::bursts::check::Findings;
use crate::bursts::shares::Shares;
use crate::bursts::spots::{SpotCounter, SpotTotals};
use crate::bursts::tally::{Cost, Tally, Yields};
use crate::rows::{Fact, seconds};
use crate::session::Session;

/// Ticks and bursts of a run.
#[derive(Debug)]
pub struct BurstFacts {
    /// Share of CPU time that recording was allowed to cost, if there was a limit.
    pub budget: Option<f64>,
    /// Where ticks came from.
    pub tick_source: TickSource,
    /// Ticks per second of CPU time at first.
    pub asked_rate_hz: f64,
    /// Ticks and bursts.
    pub tally: Tally,
    /// What checking bursts has found.
    pub findings: Findings,
    /// The cost in the program.
    pub cost: Cost,
    /// What it took to deliver the signal of a tick.
    pub delivery_seconds: f64,
    /// How ticks were used once everything was translated.
    pub warm: Yields,
    /// Time from the first join until nine of ten ticks started bursts.
    pub warm_after: Option<Duration>,
    /// Blocks that were counted in native code, if the kernel let it.
    pub spots: Option<SpotTotals>,
}

impl BurstFacts {
    pub(super) fn new(session: &Session, ending: &Ending) -> BurstFacts {
        let tally = session.sums.tally.clone();
        let warm = session.pace.until_translated.map_or(Yields::default(), |until| tally.yields().since(until));
        BurstFacts {
            budget: session.plan.mode.wishes().budget,
            tick_source: session.tick_source,
            asked_rate_hz: ending.asked_rate_hz,
            tally,
            findings: session.sums.findings.clone(),
            cost: session.cost(),
            delivery_seconds: session.delivery_seconds,
            warm,
            warm_after: session.pace.warm_after,
            spots: session.spots.as_ref().map(SpotCounter::totals),
        }
    }

    /// Returns what recording took of the program's CPU time.
    #[must_use]
    pub fn shares(&self, run: &RunFacts) -> Shares {
        Shares::of(&self.cost, run.cpu_seconds())
    }

    /// Returns ticks per second of CPU time.
    #[must_use]
    pub fn attained_rate_hz(&self, run: &RunFacts) -> f64 {
        let cpu_seconds = run.cpu_seconds();
        let ticks = self.tally.n_samples + run.counters.lost_ticks + run.counters.ticks_in_burst;
        if cpu_seconds > 0.0 { ticks as f64 / cpu_seconds } else { 0.0 }
    }

    pub(super) fn rows(&self, run: &RunFacts) -> Vec<Fact> {
        let tally = &self.tally;
        let source = match self.tick_source {
            TickSource::PosixTimer => "POSIX timers",
            TickSource::Perf => "perf events",
            TickSource::Off => "off",
        };
        let mut rows = vec![
            ("cpu_s", format!("{:.3}", run.cpu_seconds())),
            ("ticks", tally.n_samples.to_string()),
            ("bursts", tally.n_bursts.to_string()),
            ("tick_source", source.to_owned()),
            ("asked_rate_hz", format!("{:.1}", self.asked_rate_hz)),
            ("attained_rate_hz", format!("{:.2}", self.attained_rate_hz(run))),
            ("overruns", tally.n_overruns.to_string()),
            ("lost_ticks", run.counters.lost_ticks.to_string()),
            ("ticks_in_burst", run.counters.ticks_in_burst.to_string()),
            ("records", tally.n_records.to_string()),
            ("checks", tally.n_checks.to_string()),
            ("full_percent", share_of(tally.n_full_bursts, tally.n_bursts)),
            ("hit_percent", percent(tally.yields().hit_rate())),
            ("hit_warm_percent", percent(self.warm.hit_rate())),
            ("full_warm_percent", percent(self.warm.full_rate())),
            ("warm_after_s", self.warm_after.map_or("-".to_owned(), seconds)),
            ("tick_delivery_us", format!("{:.2}", 1e6 * self.delivery_seconds)),
            ("start_up_s", format!("{:.4}", run.start_up.as_secs_f64())),
            ("processes_left_alone", run.left_alone.n_processes().to_string()),
            ("untold_bursts", run.counters.unknown_bursts.to_string()),
            ("threads_blind", run.counters.threads_blind.to_string()),
            ("functions_translated", run.modules.n_functions.to_string()),
            ("instructions_translated", run.modules.n_instructions.to_string()),
        ];
        rows.extend(self.shares(run).rows());
        rows.extend(self.spots.iter().flat_map(|spots| {
            [("spot_moments", spots.n_moments.to_string()), ("spot_hits", spots.n_hits.to_string())]
        }));
        rows.extend(tally.outcomes.iter().map(|(&outcome, n)| (outcome_fact(outcome), n.to_string())));
        rows.extend(tally.end_reasons.iter().map(|(&reason, n)| (end_fact(reason), n.to_string())));
        if self.findings.n_bursts > 0 {
            rows.extend([
                ("checked_bursts", self.findings.n_bursts.to_string()),
                ("checked_blocks", self.findings.n_blocks.to_string()),
                ("checked_instructions", self.findings.n_instructions.to_string()),
                ("false_steps", self.findings.n_false.to_string()),
                ("unknown_steps", self.findings.n_unknown.to_string()),
            ]);
        }
        rows
    }
}

fn outcome_fact(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Burst => "ticks_burst",
        Outcome::NoCopy => "ticks_no_copy",
        Outcome::Outside => "ticks_outside",
        Outcome::SystemCall => "ticks_kernel",
        Outcome::Paused => "ticks_paused",
        Outcome::Unloading => "ticks_unloading",
        Outcome::Skipped => "ticks_skipped",
    }
}

fn end_fact(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Full => "end_full",
        EndReason::BufferFull => "end_buffer_full",
        EndReason::EventsFull => "end_events_full",
        EndReason::NoCopy => "end_no_copy",
        EndReason::Outside => "end_outside",
        EndReason::SystemCall => "end_system_call",
        EndReason::Instruction => "end_instruction",
        EndReason::Signal => "end_signal",
        EndReason::Unloading => "end_unloading",
        EndReason::Asked => "end_told",
        EndReason::Died => "end_died",
        EndReason::None | EndReason::NewContext => "end_unknown",
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

fn share_of(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}
