//! Which paths ticks were on.
//!
//! The ticks at one address are shared out among the paths that pass its block and go on as their
//! bursts did. Which of these it was, two things say:
//!
//! * how often each path ran: if its passages of the address take equal times;
//! * what followed ([`Habits`]), whatever they take. With `c` the probability of a way before a
//!   sequel, and `t` what an execution of the address takes on that way, the tick was on it with a
//!   probability in proportion to `c t`. The `t` are those that make the ticks at the address most
//!   likely, by expectation maximization, drawn towards equal ones as by [`PRIOR_TICKS`] ticks.
//!
//! **Error.** Where nothing tells ways apart, one of them can have all the time that the address
//! takes longer than the code there should ([`Shares::doubt`]). Equal times and a single culprit,
//! each path as likely, are taken to be as probable as each other. The error of the count-wise
//! split is then what these two make of it, by the part of it that sequels have not decided.

use rustc_hash::FxHashMap;

use super::flow::FlowRows;
use crate::builder::BlockRef;
use crate::builder::suffix::{Suffix, SuffixEnd};
use crate::builder::tick_places::TickGroup;
use crate::builder::ways::{Habits, Sequel, Way};
use crate::model::Profile;

/// Ticks that equal times on all ways are worth.
const PRIOR_TICKS: f64 = 2.0;

/// Rounds of expectation maximization.
const N_ROUNDS: usize = 30;

/// What is known of paths before their time is.
#[derive(Debug)]
pub(super) struct Paths {
    blocks: Vec<Box<[BlockRef]>>,
    ends: Vec<SuffixEnd>,
    pub counts: Vec<f64>,
    /// Paths through a block, with the place of the block on each.
    through: FxHashMap<BlockRef, Vec<Passage>>,
    /// How often paths that were seen whole went through a block.
    on_paths: FxHashMap<BlockRef, f64>,
    /// Paths that end by a back edge to a block.
    back_to: FxHashMap<BlockRef, Vec<usize>>,
    /// Cycles that the last instruction of a block takes.
    waits: FxHashMap<BlockRef, f64>,
}

/// A path through a block.
#[derive(Clone, Copy, Debug)]
struct Passage {
    path: usize,
    place: usize,
    way: Way,
}

/// What a path has of a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares {
    pub path: usize,
    pub share: f64,
    /// Standard deviation of the share if all of the time at the address can be of one path.
    pub doubt: f64,
}

impl Paths {
    pub fn new(rows: &FlowRows<'_>, profile: &Profile) -> Paths {
        let mut paths = Paths {
            blocks: Vec::with_capacity(profile.paths.len()),
            ends: Vec::with_capacity(profile.paths.len()),
            counts: profile.paths.iter().map(|path| path.count.value.max(0.0)).collect(),
            through: FxHashMap::default(),
            on_paths: FxHashMap::default(),
            back_to: FxHashMap::default(),
            waits: FxHashMap::default(),
        };
        for (index, path) in profile.paths.iter().enumerate() {
            let blocks: Box<[BlockRef]> = path.blocks.iter().map(|&id| rows.number(id)).collect();
            for (place, &block) in blocks.iter().enumerate() {
                let passage = Passage { path: index, place, way: Way::along(&blocks[..=place]) };
                paths.through.entry(block).or_default().push(passage);
                *paths.on_paths.entry(block).or_default() += paths.counts[index];
                paths.waits.entry(block).or_insert_with(|| rows.last_wait(block));
            }
            let back_to = path.back_to.map(|id| rows.number(id));
            if let Some(block) = back_to {
                paths.back_to.entry(block).or_default().push(index);
            }
            paths.blocks.push(blocks);
            paths.ends.push(back_to.map_or(SuffixEnd::Exit, SuffixEnd::Back));
        }
        paths
    }

    /// The blocks of a path.
    pub fn blocks(&self, path: usize) -> &[BlockRef] {
        &self.blocks[path]
    }

    /// What part of the executions of a block is on paths that were seen whole.
    pub fn observed_share(&self, block: BlockRef, count: f64) -> f64 {
        let on_paths = self.on_paths(block);
        if on_paths < count { on_paths / count } else { 1.0 }
    }

    pub fn on_paths(&self, block: BlockRef) -> f64 {
        self.on_paths.get(&block).copied().unwrap_or(0.0)
    }

    /// The paths that ticks at one address of a block can have been on, with their shares of each
    /// group of ticks.
    pub fn of_ticks(
        &self,
        habits: &Habits,
        block: BlockRef,
        groups: &[TickGroup<'_>],
        is_at_start: bool,
    ) -> Vec<Vec<Shares>> {
        let candidates: Vec<Candidates> = groups
            .iter()
            .map(|group| {
                let suffix = group.onward.map(|onward| &onward.suffix);
                let ways = |sequel| habits.ways(block, sequel).unwrap_or_default();
                let told = group.onward.map_or_else(Vec::new, |onward| ways(&onward.sequel));
                self.candidates(block, suffix, is_at_start, [&ways(&Sequel::NOTHING), &told])
            })
            .collect();
        let times = most_likely_times(&candidates, groups);
        let share_out =
            |candidates: &Candidates| self.with_those_before(block, candidates.shares_with_doubt(&times), is_at_start);
        candidates.iter().map(share_out).collect()
    }

    fn candidates(
        &self,
        block: BlockRef,
        suffix: Option<&Suffix>,
        is_at_start: bool,
        ways: [&[(Way, f64)]; 2],
    ) -> Candidates {
        let through = self.through.get(&block).map_or(&[][..], Vec::as_slice);
        let weight = |passage: &Passage| match passage.place.checked_sub(1) {
            // The time before a block's first instruction is that of the last one before it.
            Some(before) if is_at_start => self.counts[passage.path] * self.wait(self.blocks[passage.path][before]),
            _ => self.counts[passage.path],
        };
        let fits = |passage: &&Passage| {
            suffix
                .is_none_or(|suffix| suffix.fits(&self.blocks[passage.path][passage.place..], self.ends[passage.path]))
        };
        let mut fitting: Vec<(Passage, f64)> =
            through.iter().filter(fits).map(|passage| (*passage, weight(passage))).collect();
        if fitting.iter().all(|&(_, weight)| weight <= 0.0) {
            fitting = through.iter().map(|passage| (*passage, weight(passage))).collect();
        }
        Candidates::new(fitting, ways, |path| self.counts[path])
    }

    /// The instruction before the first of a path is the last of the one before it.
    fn with_those_before(&self, block: BlockRef, shares: Vec<(Passage, Shares)>, is_at_start: bool) -> Vec<Shares> {
        let before = self.back_to.get(&block).map_or(&[][..], Vec::as_slice);
        let weight = |path: usize| {
            let last = self.blocks[path].last().map_or(1.0, |&last| self.wait(last));
            self.counts[path] * last
        };
        let all: f64 = before.iter().map(|&path| weight(path)).sum();
        let mut all_shares = Vec::new();
        for (passage, shares) in shares {
            if is_at_start && passage.place == 0 && all > 0.0 {
                all_shares.extend(before.iter().map(|&path| {
                    let part = weight(path) / all;
                    let doubt = if before.len() > 1 { culprit_error(part, before.len()) } else { 0.0 };
                    Shares { path, share: shares.share * part, doubt: shares.share * doubt }
                }));
            } else {
                all_shares.push(shares);
            }
        }
        all_shares
    }

    fn wait(&self, block: BlockRef) -> f64 {
        self.waits.get(&block).copied().unwrap_or(1.0)
    }
}

/// Passages of an address that ticks can have been on.
#[derive(Debug)]
struct Candidates {
    passages: Vec<Passage>,
    /// The share of each if all take equal times, whatever followed,
    base: Vec<f64>,
    /// and by what followed.
    told: Vec<f64>,
}

impl Candidates {
    /// From passages with their weights, and what is known of their ways: of all visits, and of
    /// those that went on as the tick did.
    fn new(fitting: Vec<(Passage, f64)>, ways: [&[(Way, f64)]; 2], count: impl Fn(usize) -> f64) -> Candidates {
        let all: f64 = fitting.iter().map(|&(_, weight)| weight).sum();
        if all <= 0.0 {
            return Candidates { passages: Vec::new(), base: Vec::new(), told: Vec::new() };
        }
        let mut counts: FxHashMap<Way, f64> = FxHashMap::default();
        for (passage, _) in &fitting {
            *counts.entry(passage.way).or_default() += count(passage.path);
        }
        // What is known of a way is shared out among the paths that go on from it; what the last
        // instruction of a block takes counts beside.
        let by_ways = |ways: &[(Way, f64)]| {
            let weight = |&(passage, weight): &(Passage, f64)| {
                let known = ways.iter().find(|(way, _)| *way == passage.way);
                known.filter(|_| weight > 0.0).map_or(0.0, |(_, share)| share * weight / counts[&passage.way])
            };
            normalized(fitting.iter().map(weight).collect())
        };
        let by_count = || fitting.iter().map(|&(_, weight)| weight / all).collect();
        let base = by_ways(ways[0]).unwrap_or_else(by_count);
        let told = by_ways(ways[1]).unwrap_or_else(|| base.clone());
        Candidates { passages: fitting.iter().map(|&(passage, _)| passage).collect(), base, told }
    }

    /// Shares of the passages if their ways take these times.
    fn shares(&self, times: &FxHashMap<Way, f64>) -> Vec<f64> {
        let weight = |(passage, told): (&Passage, &f64)| told * times.get(&passage.way).copied().unwrap_or(1.0);
        normalized(self.passages.iter().zip(&self.told).map(weight).collect()).unwrap_or_else(|| self.told.clone())
    }

    fn shares_with_doubt(&self, times: &FxHashMap<Way, f64>) -> Vec<(Passage, Shares)> {
        let each = self.passages.iter().zip(&self.base).zip(&self.told).zip(self.shares(times));
        each.map(|(((&passage, &base), &told), share)| {
            // How much of the uncertainty is left that there is without sequels. Times are no help:
            // where sequels say little, they come from chance.
            let (open, left) = (base * (1.0 - base), told * (1.0 - told));
            let undecided = if open > 0.0 { (left / open).min(1.0) } else { 0.0 };
            let doubt = undecided * culprit_error(base, self.passages.len());
            (passage, Shares { path: passage.path, share, doubt })
        })
        .collect()
    }
}

fn normalized(weights: Vec<f64>) -> Option<Vec<f64>> {
    let all: f64 = weights.iter().sum();
    (all > 0.0).then(|| weights.iter().map(|weight| weight / all).collect())
}

/// Error of a share by count among `n` paths, if one of these, any, has all of the time, or, as
/// probably, none has more than its share: the root of the mean square. What has more than one
/// chance in twenty is within two such errors.
fn culprit_error(share: f64, n: usize) -> f64 {
    const PROBABILITY: f64 = 0.5;
    const NEGLIGIBLE: f64 = 0.05;
    let one = 1.0 / n.max(1) as f64;
    let outcomes = [(PROBABILITY * one, 1.0 - share), (PROBABILITY * (1.0 - one), share)];
    let square: f64 = outcomes.iter().map(|(probability, error)| probability * error * error).sum();
    let probable = outcomes.iter().filter(|&&(probability, _)| probability > NEGLIGIBLE);
    probable.fold(square.sqrt(), |most, &(_, error)| most.max(error / 2.0))
}

/// What an execution of the address takes on each way, against what all take.
fn most_likely_times(candidates: &[Candidates], groups: &[TickGroup<'_>]) -> FxHashMap<Way, f64> {
    // Ticks on each way: what they would be if all took equal times, and what they are.
    let sums = |shares: &dyn Fn(&Candidates) -> Vec<f64>| {
        let mut sums: FxHashMap<Way, f64> = FxHashMap::default();
        for (candidates, group) in candidates.iter().zip(groups) {
            for (passage, share) in candidates.passages.iter().zip(shares(candidates)) {
                *sums.entry(passage.way).or_default() += group.time.n_ticks as f64 * share;
            }
        }
        sums
    };
    let equal = sums(&|candidates| candidates.base.clone());
    let n_ticks: f64 = equal.values().sum();
    let mut times: FxHashMap<Way, f64> = equal.keys().map(|&way| (way, 1.0)).collect();
    if times.len() < 2 || n_ticks <= 0.0 {
        return times;
    }
    let prior = PRIOR_TICKS / n_ticks;
    for _ in 0..N_ROUNDS {
        let found = sums(&|candidates| candidates.shares(&times));
        for (way, time) in times.iter_mut().filter(|(way, _)| equal[way] > 0.0) {
            *time = (found[way] / equal[way] + prior) / (1.0 + prior);
        }
    }
    times
}
