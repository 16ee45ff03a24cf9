//! How far counts may be off that are samples of paths.
//!
//! Ticks are as good as independent; what is sampled at one of them is not: the same loop, mostly.
//! So a tick is the unit. A path that was sampled `c` times in all at `n` ticks, `c_t` times at
//! tick `t`, has the variance
//!
//! ```text
//! n / (n - 1) * (sum of c_t^2 - c^2 / n)
//! ```
//!
//! Blocks and edges are sums over paths. Which of these ran at the same ticks is not known, so that
//! only a bound can be given: the standard error of a sum is at most the sum of the standard
//! errors. Nor can it be more than that of something that is on all the samples of a tick or on
//! none: at most `m` times the count, if `m` samples are wanted at a tick, because no path has a
//! block or an edge twice. That is also the bound for all else, and for the rests of paths of which
//! the start is not known. No count is better than to one sample.

use rustc_hash::FxHashMap;

use crate::estimate::Estimate;
use crate::model::{BlockId, Profile};

/// What was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Ticks that wanted samples.
    pub n_ticks: u64,
    /// How many each wanted.
    pub per_tick: u32,
}

/// What has not been seen at any of `n` ticks happens at fewer than this many in `n`, with 95 %
/// confidence.
const UNSEEN_TICKS: f64 = 3.0;

/// Standard errors and counts of paths, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    error: f64,
    count: f64,
}

/// Puts variances into a profile whose paths have sums of squares there, and nothing else has any.
pub(super) fn spread(profile: &mut Profile, samples: Samples) {
    let per_tick = f64::from(samples.per_tick);
    let mut blocks: Vec<Sum> = vec![Sum::default(); profile.blocks.len()];
    let mut edges: FxHashMap<(BlockId, BlockId), Sum> = FxHashMap::default();
    for path in &mut profile.paths {
        path.count.variance = of_path(path.count, samples.n_ticks as f64).min(per_tick * path.count.value);
        let count = path.count;
        let add = |sum: &mut Sum| {
            sum.error += count.error();
            sum.count += count.value;
        };
        for block in &path.blocks {
            blocks.get_mut(block.index()).map(add);
        }
        let back = path.blocks.last().copied().zip(path.back_to);
        let steps = path.blocks.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
        steps.chain(back).for_each(|step| add(edges.entry(step).or_default()));
    }
    let bound = |estimate: &mut Estimate, sum: Sum| {
        let rest = (estimate.value - sum.count).max(0.0);
        let error = sum.error + (per_tick * rest).sqrt();
        estimate.variance = (error * error).min(per_tick * estimate.value);
    };
    for (block, sum) in profile.blocks.iter_mut().zip(blocks) {
        bound(&mut block.count, sum);
    }
    for edge in &mut profile.edges {
        bound(&mut edge.count, edges.get(&(edge.from, edge.to)).copied().unwrap_or_default());
    }
    let calls = profile.calls.iter_mut().map(|call| &mut call.count);
    let entries = profile.functions.iter_mut().map(|function| &mut function.entries);
    let loops = profile.loops.iter_mut().flat_map(|each| [&mut each.entries, &mut each.iterations]);
    for estimate in calls.chain(entries).chain(loops).chain([&mut profile.unobserved_flow]) {
        bound(estimate, Sum::default());
    }
    profile.unseen_at_most = UNSEEN_TICKS * per_tick;
}

fn of_path(count: Estimate, n_ticks: f64) -> f64 {
    let (value, squares) = (count.value, count.variance);
    let spread = if n_ticks > 1.0 { n_ticks / (n_ticks - 1.0) * (squares - value * value / n_ticks) } else { squares };
    spread.max(1.0)
}
