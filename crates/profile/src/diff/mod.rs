//! What changed from one profile to another, beyond the error bars.
//!
//! Functions of the same build are matched by address, others by name (see [`matching`]). Each
//! figure of a matched pair becomes a [`Change`] with a z-score,
//! `(after - before) / sqrt(Var before + Var after)`, and the two-sided p-value of a normal
//! distribution.
//!
//! **Zeros.** What a sampled profile has not seen is not surely zero. Its count gets the standard
//! error that puts the profile's `unseen_at_most` at the end of the 95 % interval, and beside that
//! one execution in every nanosecond in which no burst could see any; its time gets that of three
//! ticks, by the rule of three.
//!
//! **Many comparisons.** Of a thousand functions that did not change, fifty have p < 5 %. A change
//! is therefore called significant only if it passes the procedure of Benjamini and Hochberg at
//! [`FALSE_DISCOVERY_RATE`] among all changes of the same figure: of the changes called
//! significant, at most that fraction is expected to be chance.

mod matching;
mod statistics;

use rustc_hash::FxHashMap;

use crate::estimate::Estimate;
use crate::merge::keys::Interner;
use crate::model::{BlockId, FunctionId, LoopId, PathId, Profile};
use crate::query::{Totals, outcomes, ratio, share, totals};
use matching::{Match, Place};
pub use statistics::{Change, FALSE_DISCOVERY_RATE};
use statistics::{Unseen, mark_significant};

/// Changes between two profiles, the largest significant ones first.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// CPU time of the run, user and kernel, in nanoseconds.
    pub cpu_ns: Change,
    /// Functions.
    pub functions: Vec<FunctionChange>,
    /// Paths of functions whose code can be compared.
    pub paths: Vec<PathChange>,
    /// Conditional branches that ran in both.
    pub branches: Vec<BranchChange>,
    /// Loops of functions whose code can be compared.
    pub loops: Vec<LoopChange>,
}

/// A function in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionChange {
    /// Its row in the first profile; the first such row if several functions have the name.
    pub before: Option<FunctionId>,
    /// Its row in the second.
    pub after: Option<FunctionId>,
    /// Share of CPU time in its own code.
    pub share: Change,
    /// How often it was entered.
    pub entries: Change,
}

/// A path in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct PathChange {
    /// Its row in the first.
    pub before: Option<PathId>,
    /// Its row in the second.
    pub after: Option<PathId>,
    /// Share of CPU time.
    pub share: Change,
    /// How often it ran.
    pub count: Change,
}

/// A conditional branch in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchChange {
    /// The block that ends in it in the first profile.
    pub before: BlockId,
    /// The block that ends in it in the second profile.
    pub after: BlockId,
    /// Share of executions that took it.
    pub bias: Change,
}

/// A loop in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopChange {
    /// Its row in the first.
    pub before: Option<LoopId>,
    /// Its row in the second.
    pub after: Option<LoopId>,
    /// Share of CPU time.
    pub share: Change,
    /// Iterations per entry; nothing if one of the two saw no entry.
    pub mean_trips: Option<Change>,
}

/// Compares two profiles, which must satisfy [`Profile`]'s invariants.
#[must_use]
pub fn diff(before: &Profile, after: &Profile) -> Diff {
    let matches = matching::functions(before, after);
    let sides = [Side::of(before, matches.before, after), Side::of(after, matches.after, before)];
    Diff {
        cpu_ns: Change::of(cpu_ns(before), cpu_ns(after)),
        functions: functions(&sides, &matches.rows),
        paths: paths(&sides),
        branches: branches(&sides),
        loops: loops(&sides),
    }
}

/// One of the two profiles.
struct Side<'a> {
    profile: &'a Profile,
    /// By function.
    places: Vec<Place>,
    cpu_ns: Estimate,
    unseen: Unseen,
    /// What its counts can be off by that those of the other cannot.
    scale_error: f64,
}

/// A block of either profile: a pair of functions, and the distance from their starts.
type BlockKey = (u32, u64);

impl<'a> Side<'a> {
    fn of(profile: &'a Profile, places: Vec<Place>, other: &Profile) -> Side<'a> {
        let Totals { cpu_ns, sampled_ns, .. } = totals(profile);
        let scale_variance = profile.scale_error.powi(2) - other.scale_error.powi(2);
        let scale_error = scale_variance.max(0.0).sqrt();
        Side { profile, places, cpu_ns, unseen: Unseen::of(profile, sampled_ns), scale_error }
    }

    /// Nothing if the function's code cannot be compared.
    fn block_key(&self, block: BlockId) -> Option<BlockKey> {
        let row = &self.profile.blocks[block.index()];
        let place = &self.places[row.function.index()];
        let start = self.profile.functions[row.function.index()].address;
        place.is_comparable.then_some((place.number, row.address.wrapping_sub(start)))
    }

    fn share(&self, self_ns: Estimate) -> Estimate {
        share(self.unseen.time(self_ns), self.cpu_ns)
    }

    fn count(&self, count: Estimate) -> Estimate {
        let count = self.unseen.count(count);
        Estimate { variance: count.variance + (self.scale_error * count.value).powi(2), ..count }
    }
}

/// CPU time of a run. The kernel knows it exactly, but no two runs take the same: a change has to
/// be larger than the error that ticks would have.
fn cpu_ns(profile: &Profile) -> Estimate {
    let Totals { cpu_ns, sampled_ns, .. } = totals(profile);
    Estimate { variance: cpu_ns.variance.max(sampled_ns.variance), ..cpu_ns }
}

fn functions(sides: &[Side<'_>; 2], rows: &[Match]) -> Vec<FunctionChange> {
    let changes = rows.iter().map(|row| {
        let ids = [&row.before, &row.after];
        let sum = |side: usize, figure: fn(&Profile, FunctionId) -> Estimate| -> Estimate {
            ids[side].iter().map(|&id| figure(sides[side].profile, id)).sum()
        };
        let share = |side: usize| sides[side].share(sum(side, |profile, id| profile.functions[id.index()].self_ns));
        let entries = |side: usize| sides[side].count(sum(side, |profile, id| profile.functions[id.index()].entries));
        FunctionChange {
            before: row.before.first().copied(),
            after: row.after.first().copied(),
            share: Change::of(share(0), share(1)),
            entries: Change::of(entries(0), entries(1)),
        }
    });
    let mut changes: Vec<FunctionChange> = changes.collect();
    mark_significant(changes.iter_mut().map(|row| &mut row.share).collect());
    mark_significant(changes.iter_mut().map(|row| &mut row.entries).collect());
    changes.sort_by(|a, b| a.share.larger_first(&b.share));
    changes
}

fn paths(sides: &[Side<'_>; 2]) -> Vec<PathChange> {
    let key_of = |side: &Side<'_>, index: usize| {
        let path = &side.profile.paths[index];
        let blocks: Option<Vec<BlockKey>> = path.blocks.iter().map(|&id| side.block_key(id)).collect();
        Some((blocks?, path.back_to.and_then(|id| side.block_key(id))))
    };
    let pairs =
        align([sides[0].profile.paths.len(), sides[1].profile.paths.len()], |side, index| key_of(&sides[side], index));
    let changes = pairs.into_iter().map(|pair| {
        let path = |side: usize| pair[side].map(|index| &sides[side].profile.paths[index as usize]);
        let share = |side: usize| sides[side].share(path(side).map(|path| path.self_ns).unwrap_or_default());
        let count = |side: usize| sides[side].count(path(side).map(|path| path.count).unwrap_or_default());
        PathChange {
            before: pair[0].map(PathId),
            after: pair[1].map(PathId),
            share: Change::of(share(0), share(1)),
            count: Change::of(count(0), count(1)),
        }
    });
    let mut changes: Vec<PathChange> = changes.collect();
    mark_significant(changes.iter_mut().map(|row| &mut row.share).collect());
    mark_significant(changes.iter_mut().map(|row| &mut row.count).collect());
    changes.sort_by(|a, b| a.share.larger_first(&b.share));
    changes
}

fn branches(sides: &[Side<'_>; 2]) -> Vec<BranchChange> {
    let biases = sides.each_ref().map(|side| {
        let rows = outcomes(side.profile).into_iter().filter_map(|row| {
            let (taken, not_taken) = (side.count(row.taken), side.count(row.not_taken));
            Some((side.block_key(row.block)?, row.block, share(taken, taken + not_taken)))
        });
        rows.collect::<Vec<_>>()
    });
    let after: FxHashMap<BlockKey, (BlockId, Estimate)> =
        biases[1].iter().map(|&(key, block, bias)| (key, (block, bias))).collect();
    let changes = biases[0].iter().filter_map(|(key, block, bias)| {
        let (after, bias_after) = after.get(key)?;
        Some(BranchChange { before: *block, after: *after, bias: Change::of(*bias, *bias_after) })
    });
    let mut changes: Vec<BranchChange> = changes.collect();
    mark_significant(changes.iter_mut().map(|row| &mut row.bias).collect());
    changes.sort_by(|a, b| a.bias.larger_first(&b.bias));
    changes
}

fn loops(sides: &[Side<'_>; 2]) -> Vec<LoopChange> {
    let pairs = align([sides[0].profile.loops.len(), sides[1].profile.loops.len()], |side, index| {
        sides[side].block_key(sides[side].profile.loops[index].header)
    });
    let changes = pairs.into_iter().map(|pair| {
        let row = |side: usize| pair[side].map(|index| &sides[side].profile.loops[index as usize]);
        let share = |side: usize| sides[side].share(row(side).map(|row| row.self_ns).unwrap_or_default());
        let trips = |side: usize| row(side).and_then(|row| ratio(row.iterations, row.entries));
        LoopChange {
            before: pair[0].map(LoopId),
            after: pair[1].map(LoopId),
            share: Change::of(share(0), share(1)),
            mean_trips: trips(0).zip(trips(1)).map(|(before, after)| Change::of(before, after)),
        }
    });
    let mut changes: Vec<LoopChange> = changes.collect();
    mark_significant(changes.iter_mut().map(|row| &mut row.share).collect());
    mark_significant(changes.iter_mut().filter_map(|row| row.mean_trips.as_mut()).collect());
    changes.sort_by(|a, b| a.share.larger_first(&b.share));
    changes
}

/// Pairs up the rows of two tables by key; rows without one are left out.
fn align<K: Eq + std::hash::Hash>(
    lengths: [usize; 2],
    key_of: impl Fn(usize, usize) -> Option<K>,
) -> Vec<[Option<u32>; 2]> {
    let mut numbers = Interner::default();
    let mut pairs: Vec<[Option<u32>; 2]> = Vec::new();
    for (side, &length) in lengths.iter().enumerate() {
        for index in 0..length {
            let Some(key) = key_of(side, index) else { continue };
            let number = numbers.index(key);
            if number == pairs.len() {
                pairs.push([None; 2]);
            }
            pairs[number][side] = Some(index as u32);
        }
    }
    pairs
}
