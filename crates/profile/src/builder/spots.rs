//! Spots: blocks that are counted in native code, for a moment at a time.
//!
//! How often code runs follows from bursts and from how fast it is, and bursts are no measure of
//! that ([`super::time_model`]). Where the recorder can have the kernel count how often a thread
//! begins an instruction, for a thousandth of a second at random moments, the mean rate of many
//! such moments times the CPU time of the program is the count, with no model in between. That is
//! affordable for a few blocks that run some thousand times a second. They tell the factor by which
//! the counts of their phase are off ([`super::spot_fit`]), and so all counts.
//!
//! **Clumps.** A block that runs a thousand times in a row and then not for long is met in few
//! moments, and what some of them say may be far from the mean although they agree. How clumped a
//! block is, bursts know: with counts `k` in each of `n` bursts, the excess of pairs
//! `n sum of k (k - 1) / (sum of k)^2 - 1` is 0 for a block that runs at random, and otherwise the
//! relative variance of its rate between times as short as a burst. Moments are longer, so that it
//! is an upper bound.
//!
//! Spots are chosen when there are enough bursts to know the rates of blocks, and again when there
//! are twice as many: some for each phase that takes a share of the time, and of these the ones
//! that most bursts have seen. What bursts saw before a block became a spot does not count in the
//! comparison.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::assemble::accounting::Accounting;
use super::assemble::unwatched_share;
use super::code_map::Region;
use super::events::Event;
use super::ids::{EventId, StratumId};
use super::phases::PhaseId;
use super::spot_fit::{Comparison, Fit};
use super::time_model::Slowness;
use super::{BlockRef, Builder, Coverage, phases, weights};

/// Bursts before spots are chosen for the first time.
const FIRST_CHOICE: u64 = 24;
/// Spots at a time.
const MOST_SPOTS: usize = 20;
/// Rates of blocks that become spots, per second of CPU time.
const RATES: std::ops::RangeInclusive<f64> = 100.0..=5_000.0;
/// The rate that is best: often enough for many hits, and not so often that they cost much.
const BEST_RATE: f64 = 1_500.0;
/// Highest rate in the phase that a block is of.
const MOST_RATE_IN_PHASE: f64 = 20_000.0;
/// Least number of bursts like equal ones that have seen a spot,
const LEAST_BURSTS: f64 = 5.0;
/// and from which on more are no better.
const ENOUGH_BURSTS: f64 = 30.0;
/// Phases with less of the time have no spots of their own.
const LEAST_PHASE: f64 = 0.03;
/// Moments, and hits that are expected or were counted in them, before a spot says something.
const LEAST_MOMENTS: f64 = 4.0;
const LEAST_HITS: f64 = 8.0;
/// Excess of pairs that makes a block worth half of one that runs at random.
const MUCH_EXCESS: f64 = 4.0;
/// Variance of the logarithm of counts that all spots together must leave at most, to be used.
const MOST_VARIANCE: f64 = 0.09;

/// What was counted of a block in a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpotCount {
    /// The block.
    pub block: BlockRef,
    /// How often it was begun.
    pub hits: f64,
    /// CPU time of the thread meanwhile, without what counting cost.
    pub native_ns: f64,
}

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Spots {
    all: Vec<Spot>,
    n_bursts_at_choice: u64,
}

#[derive(Debug)]
struct Spot {
    block: BlockRef,
    event: EventId,
    /// Times per second, as it was expected when it was chosen.
    expected_hz: f64,
    /// CPU time of the ticks before it was chosen,
    before_ns: f64,
    /// and what bursts had seen of it by then.
    seen_before: FxHashMap<StratumId, f64>,
    moments: Moments,
}

/// Rates in moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    n: f64,
    /// Sums of rates, per nanosecond, and of their squares.
    rate: f64,
    rate2: f64,
    hits: f64,
    native_ns: f64,
}

impl Moments {
    fn add(&mut self, count: &SpotCount) {
        let rate = count.hits / count.native_ns;
        self.n += 1.0;
        self.rate += rate;
        self.rate2 += rate * rate;
        self.hits += count.hits;
        self.native_ns += count.native_ns;
    }

    /// The mean rate, and its relative variance, given that of clumps. Half a hit more keeps the
    /// logarithm finite.
    fn mean(&self, of_clumps: f64) -> (f64, f64) {
        let rate = self.rate / self.n + 0.5 / self.native_ns;
        let between = (self.rate2 - self.rate * self.rate / self.n).max(0.0) / (self.n - 1.0) / self.n;
        let of_hits = 1.0 / (self.hits + 0.5);
        (rate, (between / (rate * rate)).max(of_hits + of_clumps))
    }
}

/// What bursts say of a block.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    block: BlockRef,
    event: EventId,
    region: Option<Region>,
    rate_hz: f64,
    n_bursts: f64,
    excess: f64,
}

impl Candidate {
    fn worth(&self) -> f64 {
        let clumps = 1.0 + self.excess / MUCH_EXCESS;
        self.n_bursts.min(ENOUGH_BURSTS) / (1.0 + (self.rate_hz / BEST_RATE).ln().abs()) / clumps
    }
}

/// The excess of pairs: see the module's header.
fn excess(n_bursts: f64, k: f64, k2: f64) -> f64 {
    (n_bursts * (k2 - k) / (k * k) - 1.0).max(0.0)
}

/// Weights of strata, as they would be without spots, and whose they are.
struct Scales<'a> {
    of_strata: &'a [f64],
    phases: &'a [PhaseId],
}

impl Builder {
    /// Chooses spots, if it is time to. Most calls do nothing.
    pub fn choose_spots(&mut self) {
        let n_bursts = self.strata.n_bursts();
        let is_modelled = self.options.coverage == Coverage::Sampled && self.options.times.is_modelled();
        if is_modelled && n_bursts >= FIRST_CHOICE.max(2 * self.spots.n_bursts_at_choice) {
            self.spots.n_bursts_at_choice = n_bursts;
            self.choose_spots_now();
        }
    }

    /// The spots, those first that were counted least, and how often they are expected to run in a
    /// second of CPU time.
    #[must_use]
    pub fn spots(&self) -> Vec<(BlockRef, f64)> {
        let mut spots: Vec<&Spot> = self.spots.all.iter().collect();
        spots.sort_by(|a, b| a.moments.n.total_cmp(&b.moments.n));
        spots.iter().map(|spot| (spot.block, spot.expected_hz)).collect()
    }

    /// Takes in what was counted at a random moment of the program's CPU time.
    pub fn count_spot(&mut self, count: &SpotCount) {
        let is_sound = count.native_ns > 0.0 && count.hits >= 0.0;
        if let Some(spot) = self.spots.all.iter_mut().find(|spot| spot.block == count.block && is_sound) {
            spot.moments.add(count);
        }
    }

    /// Gives up a spot: it runs much more often than was expected.
    pub fn drop_spot(&mut self, block: BlockRef) {
        self.spots.all.retain(|spot| spot.block != block);
    }

    /// Whether spots were counted often enough to say how often code runs.
    #[must_use]
    pub fn has_spot_counts(&self) -> bool {
        self.spots.all.iter().any(|spot| spot.moments.n >= LEAST_MOMENTS && spot.moments.hits >= LEAST_HITS)
    }

    fn choose_spots_now(&mut self) {
        let Accounting { accounts, phases, .. } = Accounting::new(self);
        let scales = weights::solve(&accounts, &phases);
        let total_ns = self.total.ns;
        let mut phase_shares = vec![0.0; phases::count(&phases)];
        for (phase, time_ns) in phases.iter().zip(&accounts.time_ns) {
            phase_shares[phase.index()] += time_ns / total_ns;
        }
        let mut order: Vec<usize> = (0..phase_shares.len()).filter(|&p| phase_shares[p] >= LEAST_PHASE).collect();
        order.sort_by(|&a, &b| phase_shares[b].total_cmp(&phase_shares[a]));
        let by_phase = self.candidates(&Scales { of_strata: &scales, phases: &phases }, &phase_shares);
        let known: FxHashSet<BlockRef> = self.spots.all.iter().map(|spot| spot.block).collect();
        for phase in order {
            let wanted = (MOST_SPOTS as f64 * phase_shares[phase]).round().max(2.0) as usize;
            let Some(candidates) = by_phase.get(&phase) else { continue };
            let mut regions = FxHashSet::default();
            let mut n_chosen = candidates.iter().filter(|candidate| known.contains(&candidate.block)).count();
            for candidate in candidates {
                let is_full = n_chosen >= wanted || self.spots.all.len() >= MOST_SPOTS;
                if !is_full && !known.contains(&candidate.block) && regions.insert(candidate.region) {
                    self.add_spot(candidate);
                    n_chosen += 1;
                }
            }
        }
    }

    fn add_spot(&mut self, candidate: &Candidate) {
        let of_event = |(stratum, event, seen)| (event == candidate.event).then_some((stratum, seen));
        let seen_before = self.strata.weighted_counts().filter_map(of_event).collect();
        self.spots.all.push(Spot {
            block: candidate.block,
            event: candidate.event,
            expected_hz: candidate.rate_hz,
            before_ns: self.total.ns,
            seen_before,
            moments: Moments::default(),
        });
    }

    /// Blocks that can be spots, by the phase that has most of their count; the best first.
    fn candidates(&self, scales: &Scales<'_>, phase_shares: &[f64]) -> FxHashMap<usize, Vec<Candidate>> {
        let known = &self.tables.known;
        let mut sums: FxHashMap<EventId, (f64, f64, f64)> = FxHashMap::default();
        for (stratum, event, k, k2) in self.strata.squares() {
            if matches!(known.events.get(event), Event::Block(_)) {
                let (value, all_k, all_k2) = sums.entry(event).or_default();
                *value += scales.of_strata[stratum.index()] * k;
                *all_k += k;
                *all_k2 += k2;
            }
        }
        let seconds = self.total.ns / 1e9;
        let n_all_bursts = self.strata.n_bursts() as f64;
        sums.retain(|_, (value, k, k2)| RATES.contains(&(*value / seconds)) && *k * *k >= LEAST_BURSTS * *k2);
        let mut parts: FxHashMap<EventId, BTreeMap<usize, f64>> = FxHashMap::default();
        for (stratum, event, k) in self.strata.weighted_counts().filter(|(_, event, _)| sums.contains_key(event)) {
            let phase = scales.phases[stratum.index()].index();
            *parts.entry(event).or_default().entry(phase).or_default() += scales.of_strata[stratum.index()] * k;
        }
        let mut by_phase: FxHashMap<usize, Vec<Candidate>> = FxHashMap::default();
        for (event, (value, k, k2)) in sums {
            let Event::Block(block) = known.events.get(event) else { continue };
            let of_event = parts.get(&event).into_iter().flatten();
            let Some((&phase, part)) = of_event.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0))) else { continue };
            let rate_in_phase = part / seconds / phase_shares[phase].max(f64::MIN_POSITIVE);
            if 2.0 * part >= value && rate_in_phase <= MOST_RATE_IN_PHASE {
                let region = known.code.block(block).and_then(|located| located.region());
                by_phase.entry(phase).or_default().push(Candidate {
                    block,
                    event,
                    region,
                    rate_hz: value / seconds,
                    n_bursts: k * k / k2,
                    excess: excess(n_all_bursts, k, k2),
                });
            }
        }
        for candidates in by_phase.values_mut() {
            // Of equal worth, the first: choices must not depend on how tables are laid out.
            let order = |a: &Candidate, b: &Candidate| match b.worth().total_cmp(&a.worth()) {
                Ordering::Equal => a.block.cmp(&b.block),
                unequal => unequal,
            };
            candidates.sort_by(order);
        }
        by_phase
    }

    /// Corrects how much slower than modelled strata are by what spots have counted, given weights
    /// that rest on it. Returns how far off counts of phases can still be, if there were enough
    /// counts.
    pub(super) fn correct_by_spots(
        &self,
        scales: &[f64],
        phases: &[PhaseId],
        log_errors: &[f64],
        slowness: &mut [Slowness],
    ) -> Option<Fit> {
        let comparisons = self.spot_comparisons(&Scales { of_strata: scales, phases });
        let precision: f64 = comparisons.iter().map(|comparison| 1.0 / comparison.variance).sum();
        if precision * MOST_VARIANCE < 1.0 {
            return None;
        }
        let fit = Fit::of(log_errors, &comparisons);
        for (phase, slowness) in phases.iter().zip(slowness) {
            // What runs more often in the same time is faster.
            slowness.factor *= (-fit.logs[phase.index()]).exp();
            slowness.log_error = fit.covariance[phase.index()][phase.index()].max(0.0).sqrt();
        }
        Some(fit)
    }

    /// Spots that were counted often enough, beside what bursts say of them.
    fn spot_comparisons(&self, scales: &Scales<'_>) -> Vec<Comparison> {
        let by_event: FxHashMap<EventId, usize> =
            self.spots.all.iter().enumerate().map(|(index, spot)| (spot.event, index)).collect();
        let mut seen = vec![Seen::default(); self.spots.all.len()];
        for (stratum, event, k, k2) in self.strata.squares() {
            let Some(&index) = by_event.get(&event) else { continue };
            let before = self.spots.all[index].seen_before.get(&stratum).copied().unwrap_or(0.0);
            let phase = scales.phases[stratum.index()].index();
            seen[index].add(phase, scales.of_strata[stratum.index()], (k - before).max(0.0), k, k2);
        }
        self.spots.all.iter().zip(&seen).filter_map(|(spot, seen)| self.compare(spot, seen)).collect()
    }

    fn compare(&self, spot: &Spot, seen: &Seen) -> Option<Comparison> {
        let time_ns = (self.total.ns - spot.before_ns) * unwatched_share(self);
        let estimated: f64 = seen.by_phase.values().sum();
        let expected_hits = estimated / time_ns * spot.moments.native_ns;
        let n_bursts = seen.k * seen.since / seen.k2;
        let is_known = spot.moments.n >= LEAST_MOMENTS
            && spot.moments.hits.max(expected_hits) >= LEAST_HITS
            && estimated > 0.0
            && n_bursts >= LEAST_BURSTS;
        is_known.then(|| {
            let of_clumps = excess(self.strata.n_bursts() as f64, seen.k, seen.k2) / spot.moments.n;
            let (rate, variance) = spot.moments.mean(of_clumps);
            Comparison {
                log_ratio: (rate * time_ns / estimated).ln(),
                variance: variance + 1.0 / n_bursts,
                shares: seen.by_phase.iter().map(|(&phase, part)| (phase, part / estimated)).collect(),
            }
        })
    }
}

/// What bursts have seen of a spot.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Estimated counts since it became one.
    by_phase: BTreeMap<usize, f64>,
    /// Sums over bursts since then,
    since: f64,
    /// and over all, with their squares.
    k: f64,
    k2: f64,
}

impl Seen {
    fn add(&mut self, phase: usize, scale: f64, since: f64, k: f64, k2: f64) {
        *self.by_phase.entry(phase).or_default() += scale * since;
        self.since += since;
        self.k += k;
        self.k2 += k2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_run_in_clumps_have_more_pairs() {
        // Once in every tenth burst, and ten times in every hundredth.
        assert_eq!(excess(1000.0, 100.0, 100.0), 0.0);
        assert_eq!(excess(1000.0, 100.0, 1000.0), 89.0);
    }

    #[test]
    fn rates_of_moments_have_the_variance_of_hits_or_what_is_seen_if_that_is_more() {
        let count = |hits: f64| SpotCount { block: BlockRef(0), hits, native_ns: 1e6 };
        let mut steady = Moments::default();
        (0..10).for_each(|_| steady.add(&count(4.0)));
        let (rate, variance) = steady.mean(0.0);
        assert!((rate - 4.05e-6).abs() < 1e-9, "{rate}");
        assert!((variance - 1.0 / 40.5).abs() < 1e-12, "{variance}");
        let mut phased = Moments::default();
        (0..5).for_each(|_| phased.add(&count(0.0)));
        (0..5).for_each(|_| phased.add(&count(8.0)));
        assert!((steady.mean(0.5).1 - variance - 0.5).abs() < 1e-12);
        let (rate, variance) = phased.mean(0.0);
        assert!((rate - 4.05e-6).abs() < 1e-9, "{rate}");
        assert!((variance - 160.0 / 90.0 / (4.05 * 4.05)).abs() < 1e-3, "{variance}");
    }
}
