//! Time of blocks, paths and loops, from the addresses of ticks.
//!
//! A tick is a sample of where time goes, and the only one. What it says, step by step:
//!
//! 1. **Instruction.** An interrupt is taken behind the instruction that the processor was waiting
//!    for, so that the tick's address is that of the next one. The time belongs to the block of the
//!    instruction before: another block if the address is the first of its own. Which one, edges
//!    into it say, by how often they were taken and what the instruction takes that is last before
//!    them. At the entry of a function and behind a call, the instruction before is in another
//!    function; such ticks stay where they are.
//! 2. **Path.** The tick's time goes to the paths that have its block and go on as its burst did,
//!    by how often each ran, and by what followed ([`super::tick_paths`]). Executions of the block
//!    that are on no path that was seen whole have their part, which is nobody's.
//! 3. **Shrinkage.** Where ticks are few, shares within a function are drawn towards executed
//!    instructions, as far as the ticks of the whole program say that these can be trusted
//!    ([`Precision`]).
//!
//! What step 2 may not see is code that is slow on one path and fast on another that shares the
//! block. Ticks that pile up at one address, beyond what the function's instructions are worth, say
//! that there is something to wait for; then the error of a path allows for it to be the only one
//! that waits, or the only one that does not. [`SPLIT_ERROR`] is for small differences.

use super::flow::FlowRows;
use super::tick_paths::{Paths, Shares};
use crate::builder::BlockRef;
use crate::builder::precision::{Parts, Precision, Share};
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

/// Ticks of a path, as shares of whole ones.
#[derive(Clone, Copy, Debug, Default)]
struct PathTicks {
    n: f64,
    /// Standard deviation of these, where they could as well be another path's.
    n_unsure: f64,
}

/// Gives blocks and paths their times; rows of functions, blocks, edges and paths are there.
pub(super) fn fill(rows: &FlowRows<'_>, profile: &mut Profile) -> Times {
    let paths = Paths::new(rows, profile);
    let arrivals = Arrivals::new(rows, profile);
    let mut block_ticks = vec![0.0; profile.blocks.len()];
    let mut path_ticks = vec![PathTicks::default(); profile.paths.len()];
    let ticks_per_ns = rows.builder.total.ticks_per_ns();
    let expectation = Expectation::new(rows, profile, ticks_per_ns);
    let groups = rows.builder.tick_places.groups();
    for groups in groups.chunk_by(|a, b| (a.module, a.address) == (b.module, b.address)) {
        let (module, address) = (groups[0].module, groups[0].address);
        let Some(block) = rows.builder.tables.known.code.block_containing(module, address) else { continue };
        let Some(id) = rows.find(block.number()) else { continue };
        let ticks = groups.iter().map(|group| group.time.ns * ticks_per_ns);
        let is_at_start = block.block.address == address;
        let shares = if is_at_start { arrivals.before(id) } else { vec![(id, 1.0)] };
        let all: f64 = ticks.clone().sum();
        for &(block, share) in &shares {
            block_ticks[block.index()] += all * share;
        }
        let observed = paths.observed_share(block.number(), profile.blocks[id.index()].count.value);
        let waiting = expectation.waiting(rows, profile, id, all);
        let of_groups = paths.of_ticks(&rows.builder.habits, block.number(), groups, is_at_start);
        for (n, shares) in ticks.zip(of_groups) {
            for Shares { path, share, doubt } in shares {
                let split_error = SPLIT_ERROR * share * (1.0 - share);
                path_ticks[path].n += n * share * observed;
                path_ticks[path].n_unsure += n * observed * split_error.max(waiting * doubt);
            }
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
            times.of_path(profile, profile.paths[index].function, times.model_of(index, rows, profile, &paths), ticks)
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

    /// The share of a path in its function by the model: what it has of each of its blocks.
    fn model_of(&self, path: usize, rows: &FlowRows<'_>, profile: &Profile, paths: &Paths) -> f64 {
        let of_block = |&block: &BlockRef| {
            let Some(id) = rows.find(block) else { return 0.0 };
            let all = paths.on_paths(block).max(profile.blocks[id.index()].count.value);
            if all > 0.0 { self.blocks[id.index()].1 * paths.counts[path] / all } else { 0.0 }
        };
        paths.blocks(path).iter().map(of_block).sum()
    }

    fn of_path(&self, profile: &Profile, function: FunctionId, model: f64, ticks: &PathTicks) -> Estimate {
        let Some(precision) = &self.precisions[function.index()] else { return Estimate::default() };
        let mut share = precision.share(ticks.n, model);
        let n_ticks: f64 = precision.n_ticks().max(f64::MIN_POSITIVE);
        let unsure = precision.weight_of_ticks() * ticks.n_unsure / n_ticks;
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

/// What ticks are expected where, if instructions only wait for each other.
#[derive(Debug)]
struct Expectation {
    /// By function: ticks per cycle.
    of_functions: Vec<f64>,
}

impl Expectation {
    fn new(rows: &FlowRows<'_>, profile: &Profile, ticks_per_ns: f64) -> Expectation {
        let mut cycles = vec![0.0; profile.functions.len()];
        for (index, block) in profile.blocks.iter().enumerate() {
            let (of_block, _) = rows.waits(rows.number(BlockId(index as u32)));
            cycles[block.function.index()] += block.count.value.max(0.0) * of_block;
        }
        let per_cycle = |(function, cycles): (&crate::model::Function, f64)| {
            if cycles > 0.0 { function.self_ns.value * ticks_per_ns / cycles } else { 0.0 }
        };
        Expectation { of_functions: profile.functions.iter().zip(cycles).map(per_cycle).collect() }
    }

    /// What part of the ticks at an address of a block is more than its slowest instruction is
    /// expected to have; none if that can be chance.
    fn waiting(&self, rows: &FlowRows<'_>, profile: &Profile, id: BlockId, n_ticks: f64) -> f64 {
        let block = &profile.blocks[id.index()];
        let (_, slowest) = rows.waits(rows.number(id));
        let expected = self.of_functions[block.function.index()] * block.count.value.max(0.0) * slowest;
        if n_ticks > expected + 2.0 * expected.sqrt() { 1.0 - expected / n_ticks } else { 0.0 }
    }
}

/// How control comes to blocks.
#[derive(Debug)]
struct Arrivals {
    /// By block: the blocks of the same function that it is reached from, how often, and what their
    /// last instructions take in all.
    from: Vec<Vec<(BlockId, f64, f64)>>,
    /// By block: how often it is reached from another function.
    from_outside: Vec<f64>,
}

impl Arrivals {
    fn new(rows: &FlowRows<'_>, profile: &Profile) -> Arrivals {
        let mut from = vec![Vec::new(); profile.blocks.len()];
        let mut from_outside: Vec<f64> = profile.blocks.iter().map(|row| row.count.value.max(0.0)).collect();
        for edge in &profile.edges {
            let count = edge.count.value.max(0.0);
            if edge.kind != EdgeKind::PastCall && count > 0.0 {
                let wait = rows.last_wait(rows.number(edge.from));
                from[edge.to.index()].push((edge.from, count, count * wait));
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
        let inside: f64 = edges.iter().map(|&(_, count, _)| count).sum();
        let outside = self.from_outside[block.index()];
        let outside = if outside > NOTICEABLE * inside { outside } else { 0.0 };
        let all = edges.iter().map(|&(.., cycles)| cycles).sum::<f64>() + outside;
        if all <= 0.0 {
            return vec![(block, 1.0)];
        }
        let own = (outside > 0.0).then_some((block, outside / all));
        edges.iter().map(|&(from, _, cycles)| (from, cycles / all)).chain(own).collect()
    }
}
