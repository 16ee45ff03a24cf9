//! Weights of bursts: how many bursts of the whole run each one stands for.
//!
//! Let the run be divided by its checks into intervals. If a burst were started in every interval, each event would be seen by the `L` bursts
//! that start in the `L` intervals before it, so that counts divided by `L` are exact. Ticks choose intervals by their time. So a burst must
//! be weighted by the number of intervals like the one that its tick fell into over the number of bursts that began in such
//! intervals, and **strata** are made of bursts whose first check is in the same region of the code. With `N_s` the number of intervals that end
//! in a check in `s`, and `L_s` the checks that all bursts of `s` count,
//!
//! ```text
//! W_s = N_s / L_s
//! ```
//!
//! What is the number of intervals? Known are the time `T_s` of all ticks in such intervals, the durations `D_s` of the bursts, and the checks `K_sr`
//! in region `r` that the bursts of `s` saw after their first. If bursts stayed where they began, `N_s` would be `T_s L_s / D_s`. But a burst that begins in fast code and runs
//! on into slow code has a long duration that says nothing about where it began. Two conditions hold on average of the true numbers:
//!
//! ```text
//! N_r = sum over s of  W_s K_sr            checks are events, whose number weighted bursts must give
//! D_s = sum over r of  K_sr T_r / N_r  +  n_s/2 T_s / N_s
//!                                          T_r / N_r is the time of an interval; intervals add up to bursts, the first of which is cut in half
//! ```
//!
//! The first says how often code that bursts run through together is run, whatever its speed; it is a Markov chain that
//! takes bursts for steps. But it says little about code in phases that bursts do not leave, of which the second knows all. They
//! are imposed in turn, the second by the iteration of Richardson (1972) and Lucy (1974), which keeps numbers positive.
//! A few rounds do: what mixes within a burst converges at once, and what does not is not to be decided by the few bursts that cross.

use super::phases::{self, PhaseId};

/// Times that both conditions are imposed.
const N_ROUNDS: usize = 12;

/// What is known of strata.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    /// `K_sr` by stratum `s`: pairs of `r` and the number of checks.
    pub checks: Vec<Vec<(usize, f64)>>,
    /// `L_s`: of these, the checks at the ends of intervals that count. All, unless a policy skips some.
    pub n_counted: Vec<f64>,
    /// `n_s`, the number of bursts.
    pub n_bursts: Vec<f64>,
    /// `D_s`.
    pub duration_ns: Vec<f64>,
    /// `T_s`.
    pub time_ns: Vec<f64>,
}

/// The weights of strata.
pub(super) fn solve(accounts: &Accounts, phases: &[PhaseId]) -> Vec<f64> {
    let n_checks: Vec<f64> = accounts.checks.iter().map(|row| row.iter().map(|&(_, n)| n).sum()).collect();
    let start = |((&t, &d), &n): ((&f64, &f64), &f64)| if d > 0.0 { t * n / d } else { 0.0 };
    let mut n_intervals: Vec<f64> =
        accounts.time_ns.iter().zip(&accounts.duration_ns).zip(&n_checks).map(start).collect();
    for _ in 0..N_ROUNDS {
        n_intervals = follow_bursts(accounts, &n_checks, &n_intervals);
        fit_durations(accounts, &mut n_intervals);
    }
    weigh(accounts, phases, &n_intervals)
}

/// Bursts that would count for nothing, because no time is known of their stratum, are taken to be like the others of the phase.
fn weigh(accounts: &Accounts, phases: &[PhaseId], n_intervals: &[f64]) -> Vec<f64> {
    let mut sums = vec![Ratio::default(); phases::count(phases)];
    let mut all = Ratio::default();
    for ((phase, &n), &seen) in phases.iter().zip(n_intervals).zip(&accounts.n_counted) {
        sums[phase.index()].add(n, seen);
        all.add(n, seen);
    }
    let weight = |((phase, &n), &seen): ((&PhaseId, &f64), &f64)| {
        let alone = Ratio { n, seen }.value();
        alone.or(sums[phase.index()].value()).or(all.value()).unwrap_or(0.0)
    };
    phases.iter().zip(n_intervals).zip(&accounts.n_counted).map(weight).collect()
}

/// Intervals, and the checks that stand for them.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    n: f64,
    seen: f64,
}

impl Ratio {
    fn add(&mut self, n: f64, seen: f64) {
        self.n += n;
        self.seen += seen;
    }

    fn value(self) -> Option<f64> {
        (self.n > 0.0 && self.seen > 0.0).then(|| self.n / self.seen)
    }
}

/// The first condition: where bursts from these intervals find checks.
fn follow_bursts(accounts: &Accounts, n_checks: &[f64], n_intervals: &[f64]) -> Vec<f64> {
    let mut found = vec![0.0; n_intervals.len()];
    for ((row, &seen), &n) in accounts.checks.iter().zip(n_checks).zip(n_intervals) {
        for &(region, count) in row {
            found[region] += n * count / seen;
        }
    }
    found
}

/// One step towards the second condition.
fn fit_durations(accounts: &Accounts, n_intervals: &mut [f64]) {
    let per_interval = |(&t, &n): (&f64, &f64)| if n > 0.0 { t / n } else { 0.0 };
    let interval_ns: Vec<f64> = accounts.time_ns.iter().zip(&*n_intervals).map(per_interval).collect();
    let mut ratios = vec![(0.0, 0.0); n_intervals.len()];
    for (stratum, row) in accounts.checks.iter().enumerate() {
        let first_half = (stratum, 0.5 * accounts.n_bursts[stratum]);
        let row = row.iter().copied().chain([first_half]);
        let duration_ns = accounts.duration_ns[stratum];
        let expected: f64 = row.clone().map(|(region, count)| count * interval_ns[region]).sum();
        if expected > 0.0 && duration_ns > 0.0 {
            for (region, count) in row {
                ratios[region].0 += count * duration_ns / expected;
                ratios[region].1 += count;
            }
        }
    }
    for (n, (ratio, count)) in n_intervals.iter_mut().zip(ratios) {
        if ratio > 0.0 {
            *n *= count / ratio;
        }
    }
}
