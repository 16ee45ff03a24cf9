//! From the counts of bursts to estimates of the whole run.
//!
//! Bursts whose first check is in the same region of the code form a **stratum** `s`, and an event
//! `x` is estimated by the sum over strata of weighted counts, `N(x) = sum of W_s K_s(x)`;
//! [`super::weights`] says what the weights are. Regions beyond `max_strata` share one stratum per
//! module.
//!
//! **Variance.** Bursts that are close in time are alike, so time is cut into blocks of consecutive
//! ticks, and the blocks are taken to be independent. With the durations `D_s` of the bursts of
//! `s`, `r_s = K_s / D_s` and sums over the `B_s` blocks `b` with bursts of `s`,
//!
//! ```text
//! Var N(x) = sum over s of  W_s^2 B_s/(B_s - 1) sum over b of (K_sb - r_s D_sb)^2                   within strata
//!          + T^2/n (sum over s of p_s (r_s^2 - v_s) - (sum over s of p_s r_s)^2),   p_s = W_s D_s / T       the weights are from n ticks
//! ```
//!
//! The first line has the variance `v_s D_s^2` of `K_s`. It must not be counted again in the
//! second: squares of what was found are larger than those of what is true by the variance, which
//! for strata of one burst is all there is.
//!
//! Only sums of `K`, `K^2` and `K D` over blocks are needed for that, kept per stratum and event in
//! a [`Cell`]. A stratum with bursts in one block only has no residual; its error is taken to be
//! that of `n` independent bursts of which each sees the event or not, `K_s^2 / n`.

use rustc_hash::FxHashMap;

use super::cell_index::{CellIndex, NO_CELL};
use super::code_map::{CodeMap, Region};
use super::durations::Ratios;
use super::ids::{EventId, StratumId};
use super::phases::{self, PhaseId};
use super::shrink::Shrink;
use super::time_model::{Slowness, TimeModel, Times};
use crate::estimate::Estimate;
use crate::model::ModuleId;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Strata {
    max_strata: usize,
    by_region: FxHashMap<Region, StratumId>,
    by_module: FxHashMap<ModuleId, StratumId>,
    rows: Vec<Stratum>,
    all_ratios: Ratios,
    cells: Vec<Cell>,
    cell_of: CellIndex,
    /// Cells and strata with something in the open block.
    open_cells: Vec<u32>,
    open_strata: Vec<StratumId>,
    /// Time of ticks with bursts, by the region that the tick was in and the stratum of the burst.
    burst_ns: FxHashMap<(Region, StratumId), f64>,
}

#[derive(Debug)]
struct Stratum {
    place: StratumPlace,
    ratios: Ratios,
    n_bursts: u64,
    /// Events that each burst has seen, added up.
    n_events_seen: f64,
    /// Sums over bursts.
    times: Times,
    closed: DurationSums,
    open_ns: f64,
}

/// Where the first check of the bursts of a stratum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StratumPlace {
    Region(Region),
    RestOfModule(ModuleId),
}

/// Sums of modelled durations over blocks of ticks. Where only ratios matter, they serve for native
/// ones.
#[derive(Clone, Copy, Debug, Default)]
struct DurationSums {
    n_blocks: f64,
    d: f64,
    d2: f64,
}

/// Sums of counts of one event over blocks of ticks, in one stratum.
#[derive(Clone, Copy, Debug)]
struct Cell {
    stratum: StratumId,
    event: EventId,
    k: f64,
    k2: f64,
    kd: f64,
    seen: f64,
    open: f64,
}

/// Standard deviations of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ModelErrors {
    /// Of a factor that all counts can be off by.
    pub scale: f64,
    /// Of factors that the counts of each phase can be off by beside that.
    pub mix: f64,
}

/// The count of an event in a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub event: EventId,
    /// With corrections.
    pub weighted: f64,
    /// As it was seen.
    pub seen: f64,
}

/// Weights of strata, ready to estimate.
#[derive(Debug)]
pub(super) struct Weights {
    rows: Vec<Weight>,
    total_ns: f64,
    n_ticks: f64,
}

/// Weights drawn towards equal ones.
#[derive(Debug)]
pub(super) struct Damped {
    /// `W_s`.
    pub scales: Vec<f64>,
    shrink: Shrink,
    /// What is estimated with the weights as they were.
    undamped: Vec<Estimate>,
}

impl Damped {
    /// Adds what equal weights are wrong by to the variance of estimates that were made with
    /// [`Damped::scales`].
    pub fn add_bias(&self, estimates: &mut [Estimate]) {
        for (estimate, undamped) in estimates.iter_mut().zip(&self.undamped) {
            estimate.variance += self.shrink.squared_bias(estimate.value - undamped.value, undamped.variance);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Weight {
    durations: DurationSums,
    n_bursts: f64,
    n_events_seen: f64,
    /// `W_s`.
    scale: f64,
    slowness: Slowness,
    phase: PhaseId,
    /// `p_s`.
    share: f64,
}

impl Strata {
    pub fn new(max_strata: usize) -> Strata {
        Strata {
            max_strata,
            by_region: FxHashMap::default(),
            by_module: FxHashMap::default(),
            rows: Vec::new(),
            all_ratios: Ratios::EMPTY,
            cells: Vec::new(),
            cell_of: CellIndex::default(),
            open_cells: Vec::new(),
            open_strata: Vec::new(),
            burst_ns: FxHashMap::default(),
        }
    }

    /// The stratum of bursts whose first check is in a region.
    pub fn of_burst(&mut self, region: Region, code: &CodeMap) -> StratumId {
        if let Some(&known) = self.by_region.get(&region) {
            return known;
        }
        let module = code.module_of(region.function);
        let next = StratumId::next(self.rows.len());
        let place = if self.by_region.len() < self.max_strata {
            self.by_region.insert(region, next);
            StratumPlace::Region(region)
        } else if let Some(&known) = self.by_module.get(&module) {
            return known;
        } else {
            self.by_module.insert(module, next);
            StratumPlace::RestOfModule(module)
        };
        let closed = DurationSums::default();
        let (ratios, times) = (Ratios::EMPTY, Times::default());
        self.rows.push(Stratum { place, ratios, n_bursts: 0, n_events_seen: 0.0, times, closed, open_ns: 0.0 });
        next
    }

    /// A tick in a region started a burst of a stratum.
    pub fn add_time(&mut self, region: Region, stratum: StratumId, cpu_ns: f64) {
        *self.burst_ns.entry((region, stratum)).or_default() += cpu_ns;
    }

    /// Time of ticks with bursts, by the region that the tick was in and the stratum of the burst.
    pub fn burst_ns(&self) -> impl Iterator<Item = (Region, StratumId, f64)> {
        self.burst_ns.iter().map(|(&(region, stratum), &ns)| (region, stratum, ns))
    }

    pub fn places(&self) -> impl Iterator<Item = (StratumId, StratumPlace)> {
        self.rows.iter().enumerate().map(|(index, row)| (StratumId::next(index), row.place))
    }

    /// Takes a burst in.
    pub fn record(&mut self, stratum: StratumId, times: Times, counts: impl Iterator<Item = Count>) {
        let row = &mut self.rows[stratum.index()];
        let expected_ns = times.watch_ns + times.model_ns;
        row.ratios.add(times.spent_ns, expected_ns);
        self.all_ratios.add(times.spent_ns, expected_ns);
        row.times.watch_ns += times.watch_ns;
        row.times.model_ns += times.model_ns;
        row.times.doubt += times.doubt;
        if row.open_ns == 0.0 {
            self.open_strata.push(stratum);
        }
        row.open_ns += times.model_ns;
        row.n_bursts += 1;
        let mut n_events = 0_u32;
        for count in counts {
            self.add(stratum, count);
            n_events += 1;
        }
        self.rows[stratum.index()].n_events_seen += f64::from(n_events);
    }

    fn add(&mut self, stratum: StratumId, count: Count) {
        let cells = &mut self.cells;
        let index = self.cell_of.slot(stratum, count.event);
        if *index == NO_CELL {
            *index = cells.len() as u32;
            cells.push(Cell { stratum, event: count.event, k: 0.0, k2: 0.0, kd: 0.0, seen: 0.0, open: 0.0 });
        }
        let cell = &mut cells[*index as usize];
        if cell.open == 0.0 {
            self.open_cells.push(*index);
        }
        cell.open += count.weighted;
        cell.seen += count.seen;
    }

    /// A block of ticks is over.
    pub fn close_block(&mut self) {
        for index in self.open_cells.drain(..) {
            let cell = &mut self.cells[index as usize];
            let duration_ns = self.rows[cell.stratum.index()].open_ns;
            *cell = cell.closed(duration_ns);
        }
        for stratum in self.open_strata.drain(..) {
            let row = &mut self.rows[stratum.index()];
            row.closed = row.all_durations();
            row.open_ns = 0.0;
        }
    }

    pub fn n_bursts(&self) -> u64 {
        self.rows.iter().map(|row| row.n_bursts).sum()
    }

    /// How much slower than modelled each stratum is, which is the same in all of a phase. Where
    /// too little was measured, bursts are taken to be disturbed as all others are.
    pub fn slowness(&self, model: &TimeModel, phases: &[PhaseId]) -> Vec<Slowness> {
        let mut sums = vec![(Ratios::EMPTY, Times::default(), 0.0); phases::count(phases)];
        for (row, phase) in self.rows.iter().zip(phases) {
            let (ratios, times, n_bursts) = &mut sums[phase.index()];
            ratios.join(&row.ratios);
            times.watch_ns += row.times.watch_ns;
            times.model_ns += row.times.model_ns;
            times.doubt += row.times.doubt;
            *n_bursts += row.n_bursts as f64;
        }
        let of_all = self.all_ratios.undisturbed();
        let of_phase = |(ratios, times, n_bursts): &(Ratios, Times, f64)| {
            let ratio = ratios.undisturbed().or(of_all)?;
            let spent_ns = ratio * (times.watch_ns + times.model_ns);
            Some(model.slowness(Times { spent_ns, ..*times }, *n_bursts))
        };
        let found: Vec<Slowness> = sums.iter().map(|sum| of_phase(sum).unwrap_or(model.unmeasured())).collect();
        phases.iter().map(|phase| found[phase.index()]).collect()
    }

    /// What watching bursts has cost, by the model.
    pub fn watch_ns(&self) -> f64 {
        self.rows.iter().map(|row| row.times.watch_ns).sum()
    }

    /// Native durations of the bursts of each stratum.
    pub fn durations_ns(&self, slowness: &[Slowness]) -> Vec<f64> {
        self.rows.iter().zip(slowness).map(|(row, slowness)| row.times.model_ns * slowness.factor).collect()
    }

    /// Variance of durations within strata, in terms of their squared means: how far one burst can
    /// be from the others of its stratum.
    pub fn duration_noise(&self) -> f64 {
        let (mut sum, mut n_all) = (0.0, 0.0);
        for DurationSums { n_blocks, d, d2 } in self.rows.iter().map(Stratum::all_durations) {
            if n_blocks >= 2.0 && d > 0.0 {
                let mean = d / n_blocks;
                sum += n_blocks * (d2 - mean * d).max(0.0) / (n_blocks - 1.0) / (mean * mean);
                n_all += n_blocks;
            }
        }
        if n_all > 0.0 { sum / n_all } else { 0.0 }
    }

    /// The number of bursts of each stratum.
    pub fn burst_counts(&self) -> Vec<f64> {
        self.rows.iter().map(|row| row.n_bursts as f64).collect()
    }

    /// Counts of all events in the bursts of each stratum.
    pub fn counts(&self) -> impl Iterator<Item = (StratumId, EventId, f64)> {
        self.cells.iter().map(|cell| (cell.stratum, cell.event, cell.seen))
    }

    /// The same with corrections.
    pub fn weighted_counts(&self) -> impl Iterator<Item = (StratumId, EventId, f64)> {
        self.cells.iter().map(|cell| (cell.stratum, cell.event, cell.k + cell.open))
    }

    /// Counts with corrections, and the sum of their squares over blocks of ticks.
    pub fn squares(&self) -> impl Iterator<Item = (StratumId, EventId, f64, f64)> {
        let squares = |cell: &Cell| (cell.k + cell.open, cell.k2 + cell.open * cell.open);
        self.cells.iter().map(move |cell| {
            let (k, k2) = squares(cell);
            (cell.stratum, cell.event, k, k2)
        })
    }

    /// Prepares for estimating with these weights, which come from `n_ticks` ticks.
    pub fn weigh(&self, scales: &[f64], slowness: &[Slowness], phases: &[PhaseId], n_ticks: f64) -> Weights {
        let weigh = |(((row, &scale), slowness), &phase): (((&Stratum, &f64), &Slowness), &PhaseId)| {
            let durations = row.all_durations();
            let share = scale * slowness.factor * durations.d;
            let (n_bursts, n_events_seen) = (row.n_bursts as f64, row.n_events_seen);
            Weight { durations, n_bursts, n_events_seen, scale, slowness: *slowness, phase, share }
        };
        let mut rows: Vec<Weight> = self.rows.iter().zip(scales).zip(slowness).zip(phases).map(weigh).collect();
        let total_ns: f64 = rows.iter().map(|row| row.share).sum();
        for row in &mut rows {
            row.share = if total_ns > 0.0 { row.share / total_ns } else { 0.0 };
        }
        Weights { rows, total_ns, n_ticks }
    }

    /// Estimates of all events by number.
    pub fn estimates(&self, weights: &Weights, n_events: usize) -> Vec<Estimate> {
        let mut estimates = vec![Estimate::default(); n_events];
        let mut rates = vec![(0.0, 0.0); n_events];
        let mut seen = vec![0.0; n_events];
        for cell in &self.cells {
            let weight = &weights.rows[cell.stratum.index()];
            let cell = cell.closed(self.rows[cell.stratum.index()].open_ns);
            let index = cell.event.index();
            let rate = if weight.durations.d > 0.0 { cell.k / weight.durations.d } else { 0.0 };
            let within = within(&cell, weight, rate);
            estimates[index].value += weight.scale * cell.k;
            estimates[index].variance += weight.scale * weight.scale * within;
            seen[index] += cell.seen;
            let native_ns = weight.durations.d * weight.slowness.factor;
            let per_ns = rate / weight.slowness.factor;
            rates[index].0 += weight.share * per_ns;
            if native_ns > 0.0 {
                rates[index].1 += weight.share * (per_ns * per_ns - within / (native_ns * native_ns));
            }
        }
        for ((estimate, (mean, mean_square)), seen) in estimates.iter_mut().zip(rates).zip(seen) {
            if weights.n_ticks > 0.0 {
                let between: f64 = mean_square - mean * mean;
                estimate.variance += weights.total_ns * weights.total_ns / weights.n_ticks * between.max(0.0);
            }
            estimate.seen = f64::round(seen) as u64;
        }
        estimates
    }

    /// Weights as far as they say more than chance: see [`super::shrink`]. They are judged by the
    /// events that are asked for.
    pub fn damped(&self, weights: &Weights, n_events: usize, is_judged: impl Fn(EventId) -> bool) -> Damped {
        let mut plain = vec![0.0; n_events];
        for cell in self.cells.iter().filter(|cell| is_judged(cell.event)) {
            plain[cell.event.index()] += cell.k + cell.open;
        }
        let estimates = self.estimates(weights, n_events);
        let judged = estimates.iter().zip(&plain).filter(|&(_, &plain)| plain > 0.0);
        let shrink = Shrink::of(judged.map(|(estimate, &plain)| (*estimate, plain)));
        let scales = weights.rows.iter().map(|row| shrink.apply(row.scale, 1.0)).collect();
        Damped { scales, shrink, undamped: estimates }
    }

    /// How much of an estimate rests on one stratum; see [`concentration`].
    pub fn concentration(&self, weights: &Weights, n_events: usize) -> f64 {
        let part = |cell: &Cell| {
            let weight = &weights.rows[cell.stratum.index()];
            (cell.event.index(), weight.n_bursts, weight.scale * cell.seen)
        };
        concentration(self.cells.iter().map(part), n_events)
    }

    /// Counts as they are, when every event of the run was in a burst.
    pub fn exact(&self, n_events: usize) -> Vec<Estimate> {
        let mut estimates = vec![Estimate::default(); n_events];
        for cell in &self.cells {
            estimates[cell.event.index()] += Estimate::exact(f64::round(cell.seen) as u64);
        }
        estimates
    }
}

/// The sum of the squared shares that strata have in an event, on average over events of enough
/// bursts to be relied on. A part is an event, the bursts of a stratum, and what the stratum
/// contributes.
fn concentration(parts: impl Iterator<Item = (usize, f64, f64)>, n_events: usize) -> f64 {
    const MIN_BURSTS: f64 = 10.0;
    let mut sums = vec![(0.0, 0.0, 0.0); n_events];
    for (event, of_stratum, value) in parts {
        let (n_bursts, sum, squares) = &mut sums[event];
        *n_bursts += of_stratum;
        *sum += value;
        *squares += value * value;
    }
    let relied_on = sums.iter().filter(|&&(n_bursts, sum, _)| n_bursts >= MIN_BURSTS && sum > 0.0);
    let (n, total) =
        relied_on.fold((0.0, 0.0), |(n, total), &(_, sum, squares)| (n + 1.0, total + squares / (sum * sum)));
    if n > 0.0 { total / n } else { 0.0 }
}

/// Variance of `K_s`.
fn within(cell: &Cell, weight: &Weight, rate: f64) -> f64 {
    let sums = weight.durations;
    if sums.n_blocks < 2.0 {
        return cell.k * cell.k / weight.n_bursts.max(1.0);
    }
    let residuals = cell.k2 - 2.0 * rate * cell.kd + rate * rate * sums.d2;
    residuals.max(0.0) * sums.n_blocks / (sums.n_blocks - 1.0)
}

impl Weights {
    /// What the error of the time model makes of counts. With the covariance `P` of the errors of
    /// phases and their shares `q` of all work, the number of all events is off by a factor, and
    /// the share of an event of phase `i` by another:
    ///
    /// ```text
    /// C = q' P q                        variance of the logarithm of the common factor
    /// P_ii - 2 (P q)_i + C              that of the share
    /// ```
    ///
    /// A profile has one figure for the second: the mean over events as bursts see them, each once
    /// in a burst however often it happens. Intervals are read event by event; a mean by executions
    /// would be that of the hottest loop, whose own share is nearly all, and right in any case.
    pub fn model_errors(&self, covariance: &[Vec<f64>]) -> ModelErrors {
        let mut phases = vec![(0.0, 0.0); covariance.len()];
        for row in &self.rows {
            let (work, n_events_seen) = &mut phases[row.phase.index()];
            *work += row.scale * row.durations.d;
            *n_events_seen += row.n_events_seen;
        }
        let work: f64 = phases.iter().map(|&(work, _)| work).sum();
        let n_events_seen: f64 = phases.iter().map(|&(_, n)| n).sum();
        if work <= 0.0 || n_events_seen <= 0.0 {
            return ModelErrors { scale: 0.0, mix: 0.0 };
        }
        let times_shares =
            |row: &Vec<f64>| -> f64 { row.iter().zip(&phases).map(|(p, &(of_phase, _))| p * of_phase / work).sum() };
        let along: Vec<f64> = covariance.iter().map(times_shares).collect();
        let common: f64 = along.iter().zip(&phases).map(|(along, &(of_phase, _))| along * of_phase / work).sum();
        let of_share = |(phase, &(_, n)): (usize, &(f64, f64))| {
            n / n_events_seen * (covariance[phase][phase] - 2.0 * along[phase] + common)
        };
        let mix: f64 = phases.iter().enumerate().map(of_share).sum();
        ModelErrors { scale: common.max(0.0).sqrt(), mix: mix.max(0.0).sqrt() }
    }

    /// The events that one seen event stands for, in strata that hold 95 % of the time that has
    /// bursts.
    pub fn scale_of_most(&self) -> f64 {
        let mut rows: Vec<(f64, f64)> = self.rows.iter().map(|row| (row.scale, row.share)).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted = 0.95 * rows.iter().map(|&(_, share)| share).sum::<f64>();
        let mut covered = 0.0;
        let enough = rows.iter().find(|&&(_, share)| {
            covered += share;
            covered >= wanted
        });
        enough.map_or(0.0, |&(scale, _)| scale)
    }
}

impl Stratum {
    fn all_durations(&self) -> DurationSums {
        let DurationSums { n_blocks, d, d2 } = self.closed;
        let n_open = if self.open_ns > 0.0 { 1.0 } else { 0.0 };
        DurationSums { n_blocks: n_blocks + n_open, d: d + self.open_ns, d2: d2 + self.open_ns * self.open_ns }
    }
}

impl Cell {
    /// With the open block closed.
    fn closed(&self, duration_ns: f64) -> Cell {
        Cell {
            k: self.k + self.open,
            k2: self.k2 + self.open * self.open,
            kd: self.kd + self.open * duration_ns,
            open: 0.0,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spot_fit::Fit;
    use super::*;

    #[test]
    fn events_of_one_stratum_are_concentrated_and_those_of_few_bursts_do_not_count() {
        let alone = (0, 20.0, 7.0);
        let four = [5.0; 4].map(|n_bursts| (1, n_bursts, 2.0));
        let rare = (2, 1.0, 100.0);
        assert_eq!(concentration([alone].into_iter(), 3), 1.0);
        assert_eq!(concentration(four.into_iter(), 3), 0.25);
        assert_eq!(concentration([alone, rare].into_iter().chain(four), 3), 0.625);
        assert_eq!(concentration([rare].into_iter(), 3), 0.0);
    }

    fn weight(phase: PhaseId, work: f64, n_events_seen: f64) -> Weight {
        let durations = DurationSums { n_blocks: 1.0, d: work, d2: work * work };
        let slowness = Slowness { factor: 1.0, log_error: 0.2 };
        Weight { durations, n_bursts: 10.0, n_events_seen, scale: 1.0, slowness, phase, share: 0.0 }
    }

    /// Most work is in one phase, most events are in the other: it is their share that can be
    /// wrong.
    #[test]
    fn the_error_of_shares_is_that_of_events() {
        let phases = phases::find(&[vec![(0, 1.0)], vec![(1, 1.0)]], &[2.0, 1.0]);
        let of = |n_events: [f64; 2]| {
            let rows = vec![weight(phases[0], 99.0, n_events[0]), weight(phases[1], 1.0, n_events[1])];
            let independent = Fit::unmeasured(&[0.2, 0.2]).covariance;
            Weights { rows, total_ns: 100.0, n_ticks: 20.0 }.model_errors(&independent).mix
        };
        assert!((of([0.0, 1.0]) - 0.2 * 2.0_f64.sqrt() * 0.99).abs() < 1e-12);
        assert!(of([1.0, 0.0]) < 0.003);
        assert!(of([1.0, 9.0]) > of([9.0, 1.0]));
    }
}
