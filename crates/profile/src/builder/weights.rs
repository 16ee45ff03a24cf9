//! Weights of bursts: how many bursts of the whole run each one stands for.
//!
//! Let the run be divided by its checks into intervals. If a burst were started in every interval,
//! each event would be seen by the `L` bursts that start in the `L` intervals before it, so that
//! counts divided by `L` are exact. Ticks choose intervals by their time. So a burst must be
//! weighted by the number of intervals like the one that its tick fell into over the number of
//! bursts that began in such intervals, and **strata** are made of bursts whose first check is in
//! the same region of the code. With `N_s` the number of intervals that end in a check in `s`, and
//! `L_s` the checks that all bursts of `s` count,
//!
//! ```text
//! W_s = N_s / L_s
//! ```
//!
//! What is the number of intervals? Known are the time `T_s` of all ticks in such intervals, the
//! durations `D_s` of the bursts, and the checks `K_sr` in region `r` that the bursts of `s` saw
//! after their first. If bursts stayed where they began, `N_s` would be `T_s L_s / D_s`. But a
//! burst that begins in fast code and runs on into slow code has a long duration that says nothing
//! about where it began. Two conditions hold on average of the true numbers:
//!
//! ```text
//! N_r = sum over s of  W_s K_sr            checks are events, whose number weighted bursts must give
//! D_s = sum over r of  K_sr T_r / N_r  +  n_s/2 T_s / N_s
//!                                          T_r / N_r is the time of an interval; intervals add up to bursts, the first of which is cut in half
//! ```
//!
//! The first says how often code that bursts run through together is run, whatever its speed; it is
//! a Markov chain that takes bursts for steps. But it says little about code in phases that bursts
//! do not leave, of which the second knows all. They are imposed in turn, the second by the
//! iteration of Richardson (1972) and Lucy (1974), which keeps numbers positive. A few rounds do:
//! what mixes within a burst converges at once, and what does not is not to be decided by the few
//! bursts that cross.
//!
//! **Chance.** The weight of a stratum with one burst is as wrong as the time of one burst. So
//! weights are drawn together, in logarithms, as far as they differ no more than chance would make
//! them differ (empirical Bayes, Efron and Morris 1973): those of strata towards that of their
//! phase, and those of phases towards that of all. With the variance `t` of true weights, which is
//! what the weights found have beyond their noise `e`, a weight keeps all but the square of
//! `e / (t + e)` of its distance. (Without the square the error is least on average, but means of
//! rare events would be off by some percent.)
//!
//! **The model.** Bursts of one phase run through the same code, wherever they began; so if the
//! time model says that strata of a phase differ much, it is often the model that is wrong about
//! the region in which they began. That error, of variance `m`, does not become less with the
//! number of bursts. Of what chance leaves, a stratum keeps `t / (t + m)`.

use super::phases::{self, PhaseId};

/// Times that both conditions are imposed.
const N_ROUNDS: usize = 12;

/// What is known of strata.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    /// `K_sr` by stratum `s`: pairs of `r` and the number of checks.
    pub checks: Vec<Vec<(usize, f64)>>,
    /// `L_s`: of these, the checks at the ends of intervals that count. All, unless a policy skips
    /// some.
    pub n_counted: Vec<f64>,
    /// `n_s`, the number of bursts.
    pub n_bursts: Vec<f64>,
    /// `D_s`.
    pub duration_ns: Vec<f64>,
    /// `T_s`.
    pub time_ns: Vec<f64>,
    /// Variance of the logarithm of a weight that rests on one burst.
    pub burst_noise: f64,
    /// Variance of the logarithm of a weight that rests on many, by the error of the time model.
    pub model_noise: f64,
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
    let weights = weigh(accounts, phases, &n_intervals);
    draw_together(accounts, phases, &weights)
}

/// What is known of a logarithm: its value, how much depends on it, and the noise of chance and of
/// the time model.
#[derive(Clone, Copy, Debug)]
struct Finding {
    value: f64,
    importance: f64,
    chance: f64,
    model: f64,
}

/// Draws weights together as far as they differ by chance. The number of all intervals stays as it
/// is.
fn draw_together(accounts: &Accounts, phases: &[PhaseId], weights: &[f64]) -> Vec<f64> {
    let n_phases = phases::count(phases);
    let mut n_bursts = vec![0.0; n_phases];
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); n_phases];
    let mut findings = Vec::new();
    for (stratum, &weight) in weights.iter().enumerate() {
        let phase = phases[stratum].index();
        n_bursts[phase] += accounts.n_bursts[stratum];
        members[phase].push(stratum);
        // Between what bursts have seen and what they stand for.
        let importance = accounts.n_counted[stratum] * weight.sqrt();
        findings.push(Finding {
            value: weight.ln(),
            importance,
            chance: accounts.burst_noise / accounts.n_bursts[stratum].max(1.0),
            model: accounts.model_noise,
        });
    }
    let is_known = |finding: &&Finding| finding.value.is_finite() && finding.importance > 0.0;
    let of_phase = |(strata, &n): (&Vec<usize>, &f64)| {
        let known: Vec<Finding> = strata.iter().map(|&stratum| &findings[stratum]).filter(is_known).copied().collect();
        let importance = known.iter().map(|finding| finding.importance).sum();
        Finding { value: mean(&known), importance, chance: accounts.burst_noise / n.max(1.0), model: 0.0 }
    };
    let of_phases: Vec<Finding> = members.iter().zip(&n_bursts).map(of_phase).collect();
    let known: Vec<Finding> = of_phases.iter().filter(is_known).copied().collect();
    let common = mean(&known);
    let between = variance(known.iter().map(|&finding| (finding, common)));
    let apart = findings.iter().zip(phases).map(|(&finding, phase)| (finding, of_phases[phase.index()].value));
    let within = variance(apart.filter(|(finding, _)| is_known(&finding)));
    let drawn = |((finding, phase), &weight): ((&Finding, &PhaseId), &f64)| {
        let phase = &of_phases[phase.index()];
        let of_phase = phase.kept(between) * (phase.value - common);
        let value = common + of_phase + finding.kept(within) * (finding.value - phase.value);
        if is_known(&finding) { value.exp() } else { weight }
    };
    let mut drawn: Vec<f64> = findings.iter().zip(phases).zip(weights).map(drawn).collect();
    let n_intervals = |weights: &[f64]| -> f64 { weights.iter().zip(&accounts.n_counted).map(|(w, n)| w * n).sum() };
    let scale = n_intervals(weights) / n_intervals(&drawn);
    if scale.is_finite() {
        drawn.iter_mut().for_each(|weight| *weight *= scale);
    }
    drawn
}

impl Finding {
    /// The share that is kept of a distance, if true values have this variance.
    fn kept(&self, variance: f64) -> f64 {
        let share = |part: f64, whole: f64| if part > 0.0 { part / whole } else { 0.0 };
        let is_chance = share(self.chance, variance + self.model + self.chance);
        let is_model = share(self.model, variance + self.model);
        (1.0 - is_chance * is_chance) * (1.0 - is_model)
    }
}

fn mean(findings: &[Finding]) -> f64 {
    let sum: f64 = findings.iter().map(|finding| finding.importance * finding.value).sum();
    sum / findings.iter().map(|finding| finding.importance).sum::<f64>()
}

/// Variance of values about their means, beyond their noise.
fn variance(findings: impl Iterator<Item = (Finding, f64)>) -> f64 {
    let (sum, importance) = findings.fold((0.0, 0.0), |(sum, importance), (finding, mean)| {
        let excess = (finding.value - mean).powi(2) - finding.chance - finding.model;
        (sum + finding.importance * excess, importance + finding.importance)
    });
    if importance > 0.0 { (sum / importance).max(0.0) } else { 0.0 }
}

/// Bursts that would count for nothing, because no time is known of their stratum, are taken to be
/// like the others of the phase.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Strata with these weights and bursts, of 100 checks each.
    fn accounts(n_bursts: &[f64]) -> Accounts {
        let n_counted = n_bursts.iter().map(|n| 100.0 * n).collect();
        Accounts { n_counted, n_bursts: n_bursts.to_vec(), burst_noise: 1.0, ..Accounts::default() }
    }

    fn one_phase(n_strata: usize) -> Vec<PhaseId> {
        phases::find(&vec![vec![(0, 1.0)]; n_strata], &vec![1.0; n_strata])
    }

    #[test]
    fn weights_that_differ_by_chance_become_one() {
        let accounts = accounts(&[1.0; 4]);
        let drawn = draw_together(&accounts, &one_phase(4), &[0.7, 1.4, 0.9, 1.1]);
        assert!(drawn.iter().all(|weight| (weight - 1.025).abs() < 1e-9), "{drawn:?}");
    }

    #[test]
    fn weights_of_many_bursts_stay() {
        let accounts = accounts(&[1000.0, 1000.0, 1000.0, 1000.0]);
        let weights = [0.5, 4.0, 1.0, 2.0];
        let drawn = draw_together(&accounts, &one_phase(4), &weights);
        assert!(drawn.iter().zip(weights).all(|(drawn, weight)| (drawn / weight - 1.0).abs() < 1e-3), "{drawn:?}");
    }

    #[test]
    fn the_error_of_the_model_does_not_become_less_with_bursts() {
        let accounts = Accounts { model_noise: 0.1, ..accounts(&[1e6, 1e6, 1e6, 1e6]) };
        let weights = [0.8, 1.25, 0.8, 1.25];
        let drawn = draw_together(&accounts, &one_phase(4), &weights);
        assert!(drawn.iter().all(|weight| (weight / drawn[0] - 1.0).abs() < 1e-9), "{drawn:?}");
        let weights = [0.1, 10.0, 0.1, 10.0];
        let drawn = draw_together(&accounts, &one_phase(4), &weights);
        assert!((50.0..100.0).contains(&(drawn[1] / drawn[0])), "{drawn:?}");
    }

    #[test]
    fn one_burst_moves_further_than_many_and_the_sum_stays() {
        let accounts = accounts(&[200.0, 200.0, 1.0]);
        let weights = [1.0, 8.0, 8.0];
        let drawn = draw_together(&accounts, &one_phase(3), &weights);
        assert!(drawn[1] > 7.9 && drawn[2] < 7.5, "{drawn:?}");
        let sum = |weights: &[f64]| weights.iter().zip(&accounts.n_counted).map(|(w, n)| w * n).sum::<f64>();
        assert!((sum(&drawn) / sum(&weights) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bursts_without_counted_checks_keep_their_weight() {
        let mut accounts = accounts(&[1.0, 1.0, 1.0]);
        accounts.n_counted[2] = 0.0;
        assert_eq!(draw_together(&accounts, &one_phase(3), &[2.0, 2.0, 3.0])[2], 3.0);
    }

    #[test]
    fn strata_without_weight_stay_without() {
        let accounts = accounts(&[1.0, 1.0]);
        let drawn = draw_together(&accounts, &one_phase(2), &[0.0, 3.0]);
        assert_eq!(drawn[0], 0.0);
        assert!(drawn[1].is_finite());
    }
}
