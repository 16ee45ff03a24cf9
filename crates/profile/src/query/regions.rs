//! Code regions as remote profiling counts them: a branch, and the instructions since the branch
//! before it.
//!
//! A branch is a conditional or a computed jump, and the instructions are those of its own
//! function: what its callees ran has regions of its own. Where control comes to a branch in
//! several ways, its value is their mean. It is found by handing the instructions of each block
//! that does not end in a branch on along its edges, in proportion to their counts, until they
//! arrive at one. Code that ends has no cycle of such edges; what goes round in one all the same
//! stays there.

use crate::estimate::Estimate;
use crate::model::{BlockEnd, BlockId, FunctionId, Profile};
use crate::query::sort_hottest_first;

/// A region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionRow {
    /// The block that ends in the branch.
    pub block: BlockId,
    /// Its function.
    pub function: FunctionId,
    /// How often the branch ran.
    pub count: Estimate,
    /// Instructions since the branch before it, the branch included; the mean.
    pub n_insns: f64,
}

/// Regions by count; all, or those of one function. Branches that never ran have none.
#[must_use]
pub fn regions(profile: &Profile, function: Option<FunctionId>) -> Vec<RegionRow> {
    let arrived = arrived_insns(profile);
    let rows = (0..).map(BlockId).zip(&profile.blocks).zip(arrived);
    let wanted = rows.filter(|((_, row), _)| {
        is_branch(row.end) && 0.0 < row.count.value && function.is_none_or(|id| id == row.function)
    });
    let rows = wanted.map(|((block, row), arrived)| RegionRow {
        block,
        function: row.function,
        count: row.count,
        n_insns: arrived / row.count.value,
    });
    let mut rows: Vec<RegionRow> = rows.collect();
    sort_hottest_first(&mut rows, |row| row.count.value, |row| row.block.0);
    rows
}

fn is_branch(end: BlockEnd) -> bool {
    matches!(end, BlockEnd::Branch | BlockEnd::IndirectJump)
}

/// Instructions that were executed in each block or handed on to it, over the whole run.
fn arrived_insns(profile: &Profile) -> Vec<f64> {
    let n_blocks = profile.blocks.len();
    let mut arrived: Vec<f64> = profile.blocks.iter().map(|row| row.count.value * f64::from(row.n_insns)).collect();
    let mut edges: Vec<_> =
        profile.edges.iter().filter(|edge| !is_branch(profile.blocks[edge.from.index()].end)).collect();
    edges.sort_by_key(|edge| edge.from);
    let mut outflow = vec![0.0; n_blocks];
    let mut n_waiting = vec![0u32; n_blocks];
    for edge in &edges {
        outflow[edge.from.index()] += edge.count.value;
        n_waiting[edge.to.index()] += 1;
    }
    let mut complete: Vec<usize> = (0..n_blocks).filter(|&block| n_waiting[block] == 0).collect();
    while let Some(block) = complete.pop() {
        let first = edges.partition_point(|edge| edge.from.index() < block);
        for edge in edges[first..].iter().take_while(|edge| edge.from.index() == block) {
            let to = edge.to.index();
            if 0.0 < outflow[block] {
                arrived[to] += arrived[block] * edge.count.value / outflow[block];
            }
            n_waiting[to] -= 1;
            if n_waiting[to] == 0 {
                complete.push(to);
            }
        }
    }
    arrived
}
