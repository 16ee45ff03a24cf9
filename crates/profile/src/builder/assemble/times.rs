//! Time of blocks, paths and loops, from the addresses of ticks.
//!
//! A tick is a sample of where time goes, and the only one. What it says, step by step:
//!
//! 1. **Instruction.** An interrupt is taken behind the instruction that the processor was waiting
//!    for, so that the tick's address is that of the next one. The time belongs to the block of the
//!    instruction before: another block if the address is the first of its own. Which one, edges
//!    into it say, by how often they were taken. At the entry of a function and behind a call, the
//!    instruction before is in another function; such ticks stay where they are.
//! 2. **Path.** The tick's time goes to the paths that have its block and go on as its burst did
//!    ([`Suffix`]), by how often each ran. Executions of the block that are on no path that was
//!    seen whole have their part, which is nobody's.
//! 3. **Shrinkage.** Where ticks are few, shares within a function are drawn towards executed
//!    instructions, as far as the ticks of the whole program say that these can be trusted
//!    ([`Precision`]).
//!
//! What step 2 cannot see is code that is slow on one path and fast on another that shares the
//! block. [`SPLIT_ERROR`] allows for that in the error of a path.

use rustc_hash::FxHashMap;

use super::flow::FlowRows;
use crate::builder::BlockRef;
use crate::builder::precision::{Parts, Precision, Share};
use crate::builder::suffix::{Suffix, SuffixEnd};
use crate::builder::tick_places::TickGroup;
use crate::estimate::Estimate;
use crate::model::{BlockId, EdgeKind, FunctionId, Profile};

/// Share of the model that every block of a function has in equal parts: any of them can be slow.
const UNIFORM_SHARE: f64 = 0.1;

/// Standard deviation of the logarithm of what an execution of a block takes on one path against
/// another.
const SPLIT_ERROR: f64 = 0.5;

/// Time within functions.
#[derive(Debug)]
pub(super) struct Times {
    /// By block: ticks, and share of its function by the model.
    blocks: Vec<(f64, f64)>,
    /// By function.
    precisions: Vec<Option<Precision>>,
}

/// What is known of paths before their time is.
#[derive(Debug)]
struct Paths {
    blocks: Vec<Box<[BlockRef]>>,
    ends: Vec<SuffixEnd>,
    counts: Vec<f64>,
    /// Paths through a block, with the place of the block on each.
    through: FxHashMap<BlockRef, Vec<(usize, usize)>>,
    /// How often paths that were seen whole went through a block.
    on_paths: FxHashMap<BlockRef, f64>,
    /// Paths that end by a back edge to a block.
    back_to: FxHashMap<BlockRef, Vec<usize>>,
}

/// Ticks of a path, as shares of whole ones.
#[derive(Clone, Copy, Debug, Default)]
struct PathTicks {
    n: f64,
    /// Of these, what could as well be another path's.
    n_unsure: f64,
}

/// Gives blocks and paths their times; rows of functions, blocks, edges and paths are there.
pub(super) fn fill(rows: &FlowRows<'_>, profile: &mut Profile) -> Times {
    let paths = Paths::new(rows, profile);
    let arrivals = Arrivals::new(profile);
    let mut block_ticks = vec![0.0; profile.blocks.len()];
    let mut path_ticks = vec![PathTicks::default(); profile.paths.len()];
    let ticks_per_ns = rows.builder.total.ticks_per_ns();
    for group in rows.builder.tick_places.groups() {
        let Some(block) = rows.builder.tables.known.code.block_containing(group.module, group.address) else {
            continue;
        };
        let Some(id) = rows.find(block.number()) else { continue };
        let n = group.time.ns * ticks_per_ns;
        let is_at_start = block.block.address == group.address;
        let shares = if is_at_start { arrivals.before(id) } else { vec![(id, 1.0)] };
        for &(block, share) in &shares {
            block_ticks[block.index()] += n * share;
        }
        let observed = paths.observed_share(block.number(), profile.blocks[id.index()].count.value);
        for (path, share) in paths.of_tick(block.number(), &group, is_at_start) {
            let share = share * observed;
            path_ticks[path].n += n * share;
            path_ticks[path].n_unsure += n * share * (1.0 - share);
        }
    }
    let times = Times::new(profile, &block_ticks);
    let of_blocks: Vec<Estimate> = (0..profile.blocks.len() as u32)
        .map(BlockId)
        .map(|id| times.of_blocks(profile, profile.blocks[id.index()].function, &[id]))
        .collect();
    let of_paths: Vec<Estimate> = path_ticks
        .iter()
        .enumerate()
        .map(|(index, ticks)| {
            times.of_path(profile, profile.paths[index].function, paths.model(index, rows, profile, &times), ticks)
        })
        .collect();
    profile.blocks.iter_mut().zip(of_blocks).for_each(|(row, time)| row.self_ns = time);
    profile.paths.iter_mut().zip(of_paths).for_each(|(row, time)| row.self_ns = time);
    times
}

impl Times {
    fn new(profile: &Profile, block_ticks: &[f64]) -> Times {
        let n_functions = profile.functions.len();
        let work: Vec<f64> =
            profile.blocks.iter().map(|row| row.count.value.max(0.0) * f64::from(row.n_insns)).collect();
        let mut sums = vec![(0.0, 0.0); n_functions];
        for (block, work) in profile.blocks.iter().zip(&work) {
            let (all_work, n_blocks) = &mut sums[block.function.index()];
            *all_work += work;
            *n_blocks += 1.0;
        }
        let model = |(block, work): (&crate::model::Block, &f64)| match sums[block.function.index()] {
            (all_work, n_blocks) if all_work > 0.0 => {
                (1.0 - UNIFORM_SHARE) * work / all_work + UNIFORM_SHARE / n_blocks
            }
            (_, n_blocks) => 1.0 / n_blocks,
        };
        let models = profile.blocks.iter().zip(&work).map(model);
        let blocks: Vec<(f64, f64)> = block_ticks.iter().copied().zip(models).collect();
        let mut parts: Vec<Parts> = vec![Vec::new(); n_functions];
        for (block, &part) in profile.blocks.iter().zip(&blocks) {
            parts[block.function.index()].push(part);
        }
        let is_hit = |parts: &Parts| parts.iter().any(|&(n, _)| n > 0.0);
        let hit: Vec<usize> = (0..n_functions).filter(|&index| is_hit(&parts[index])).collect();
        let fitted = Precision::fit(&hit.iter().map(|&index| std::mem::take(&mut parts[index])).collect::<Vec<_>>());
        let mut precisions = vec![None; n_functions];
        for (index, precision) in hit.into_iter().zip(fitted) {
            precisions[index] = Some(precision);
        }
        Times { blocks, precisions }
    }

    /// How much slower functions can be than the time model says, as the logarithm of a factor.
    ///
    /// That model knows no waiting for memory. Where a function waits, the blocks that do have more
    /// of its ticks than of its instructions, and the others less. If it is these that run at the
    /// model's speed, the function takes as many times longer as they lack ticks; those with half
    /// of the instructions are looked at. The mean over functions is by their time.
    pub fn slowness(&self, profile: &Profile) -> f64 {
        let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new(); profile.functions.len()];
        for (block, &(n, model)) in profile.blocks.iter().zip(&self.blocks) {
            if let Some(precision) = &self.precisions[block.function.index()] {
                parts[block.function.index()].push((precision.share(n, model).value / model, model));
            }
        }
        let (mut sum, mut all_ns) = (0.0, 0.0);
        for (parts, function) in parts.iter_mut().zip(&profile.functions) {
            sum -= function.self_ns.value * median(parts).unwrap_or(1.0).ln().min(0.0);
            all_ns += function.self_ns.value;
        }
        if all_ns > 0.0 { sum / all_ns } else { 0.0 }
    }

    /// The time of some different blocks of a function together.
    pub fn of_blocks(&self, profile: &Profile, function: FunctionId, blocks: &[BlockId]) -> Estimate {
        let parts = blocks.iter().map(|id| self.blocks[id.index()]);
        let (n, model) = parts.fold((0.0, 0.0), |(n, model), part| (n + part.0, model + part.1));
        match &self.precisions[function.index()] {
            Some(precision) => time_of(profile, function, precision.share(n, model), n),
            None => Estimate::default(),
        }
    }

    fn of_path(&self, profile: &Profile, function: FunctionId, model: f64, ticks: &PathTicks) -> Estimate {
        let Some(precision) = &self.precisions[function.index()] else { return Estimate::default() };
        let mut share = precision.share(ticks.n, model);
        let n_ticks: f64 = precision.n_ticks().max(f64::MIN_POSITIVE);
        let unsure = SPLIT_ERROR * precision.weight_of_ticks() * ticks.n_unsure / n_ticks;
        share.variance += unsure * unsure;
        time_of(profile, function, share, ticks.n)
    }
}

/// The median of values with weights that add up to 1.
fn median(parts: &mut [(f64, f64)]) -> Option<f64> {
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let found = parts.iter().find(|&&(_, weight)| {
        below += weight;
        below >= 0.5
    });
    found.map(|&(value, _)| value)
}

/// A share of a function's time; errors of both add up.
fn time_of(profile: &Profile, function: FunctionId, share: Share, n_ticks: f64) -> Estimate {
    let time = profile.functions[function.index()].self_ns;
    let variance = time.variance * share.value * share.value + time.value * time.value * share.variance;
    Estimate { value: time.value * share.value, variance, seen: n_ticks.round() as u64 }
}

/// How control comes to blocks.
#[derive(Debug)]
struct Arrivals {
    /// By block: the blocks of the same function that it is reached from, and how often.
    from: Vec<Vec<(BlockId, f64)>>,
    /// By block: how often it is reached from another function.
    from_outside: Vec<f64>,
}

impl Arrivals {
    fn new(profile: &Profile) -> Arrivals {
        let mut from = vec![Vec::new(); profile.blocks.len()];
        let mut from_outside: Vec<f64> = profile.blocks.iter().map(|row| row.count.value.max(0.0)).collect();
        for edge in &profile.edges {
            let count = edge.count.value.max(0.0);
            if edge.kind != EdgeKind::PastCall && count > 0.0 {
                from[edge.to.index()].push((edge.from, count));
                from_outside[edge.to.index()] -= count;
            }
        }
        Arrivals { from, from_outside }
    }

    /// The blocks whose last instruction was executed before the first of a block, with their
    /// shares.
    fn before(&self, block: BlockId) -> Vec<(BlockId, f64)> {
        // Estimates of edges and blocks need not agree exactly; a small rest is no arrival.
        const NOTICEABLE: f64 = 0.01;
        let edges = &self.from[block.index()];
        let inside: f64 = edges.iter().map(|&(_, count)| count).sum();
        let outside = self.from_outside[block.index()];
        let outside = if outside > NOTICEABLE * inside { outside } else { 0.0 };
        let all = inside + outside;
        if all <= 0.0 {
            return vec![(block, 1.0)];
        }
        let own = (outside > 0.0).then_some((block, outside / all));
        edges.iter().map(|&(from, count)| (from, count / all)).chain(own).collect()
    }
}

impl Paths {
    fn new(rows: &FlowRows<'_>, profile: &Profile) -> Paths {
        let mut paths = Paths {
            blocks: Vec::with_capacity(profile.paths.len()),
            ends: Vec::with_capacity(profile.paths.len()),
            counts: profile.paths.iter().map(|path| path.count.value.max(0.0)).collect(),
            through: FxHashMap::default(),
            on_paths: FxHashMap::default(),
            back_to: FxHashMap::default(),
        };
        for (index, path) in profile.paths.iter().enumerate() {
            let blocks: Box<[BlockRef]> = path.blocks.iter().map(|&id| rows.number(id)).collect();
            for (place, &block) in blocks.iter().enumerate() {
                paths.through.entry(block).or_default().push((index, place));
                *paths.on_paths.entry(block).or_default() += paths.counts[index];
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

    /// What part of the executions of a block is on paths that were seen whole.
    fn observed_share(&self, block: BlockRef, count: f64) -> f64 {
        let on_paths = self.on_paths(block);
        if on_paths < count { on_paths / count } else { 1.0 }
    }

    fn on_paths(&self, block: BlockRef) -> f64 {
        self.on_paths.get(&block).copied().unwrap_or(0.0)
    }

    fn through(&self, block: BlockRef) -> &[(usize, usize)] {
        self.through.get(&block).map_or(&[], Vec::as_slice)
    }

    /// The paths that a tick in a block can have been on, with their shares.
    fn of_tick(&self, block: BlockRef, group: &TickGroup<'_>, is_at_start: bool) -> Vec<(usize, f64)> {
        let fitting = group.suffix.map(|suffix| self.fitting(block, suffix)).filter(|found| self.sum(found) > 0.0);
        let candidates = fitting.unwrap_or_else(|| self.through(block).to_vec());
        let all = self.sum(&candidates);
        if all <= 0.0 {
            return Vec::new();
        }
        let before = self.back_to.get(&block).map_or(&[][..], Vec::as_slice);
        let all_before: f64 = before.iter().map(|&path| self.counts[path]).sum();
        let mut shares = Vec::new();
        for (path, place) in candidates {
            let share = self.counts[path] / all;
            // The instruction before the first of a path is the last of the one before it.
            if is_at_start && place == 0 && all_before > 0.0 {
                shares.extend(before.iter().map(|&path| (path, share * self.counts[path] / all_before)));
            } else {
                shares.push((path, share));
            }
        }
        shares
    }

    fn fitting(&self, block: BlockRef, suffix: &Suffix) -> Vec<(usize, usize)> {
        let fits = |&&(path, place): &&(usize, usize)| suffix.fits(&self.blocks[path][place..], self.ends[path]);
        self.through(block).iter().filter(fits).copied().collect()
    }

    fn sum(&self, paths: &[(usize, usize)]) -> f64 {
        paths.iter().map(|&(path, _)| self.counts[path]).sum()
    }

    /// The share of a path in its function by the model: what it has of each of its blocks.
    fn model(&self, path: usize, rows: &FlowRows<'_>, profile: &Profile, times: &Times) -> f64 {
        let of_block = |&block: &BlockRef| {
            let Some(id) = rows.find(block) else { return 0.0 };
            let all = self.on_paths(block).max(profile.blocks[id.index()].count.value);
            if all > 0.0 { times.blocks[id.index()].1 * self.counts[path] / all } else { 0.0 }
        };
        self.blocks[path].iter().map(of_block).sum()
    }
}
