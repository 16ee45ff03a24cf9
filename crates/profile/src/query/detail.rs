//! One function in full, for annotated listings.

use crate::estimate::Estimate;
use crate::model::{BlockId, EdgeId, FunctionId, PathId, Profile};
use crate::query::{PathRank, is_timeless, paths};

/// A function's blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDetail {
    /// The function.
    pub function: FunctionId,
    /// Its blocks in order of address.
    pub blocks: Vec<BlockDetail>,
    /// The path that took most time; nothing if no path of the function was seen.
    pub hottest_path: Option<PathId>,
}

/// A block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDetail {
    /// The block.
    pub block: BlockId,
    /// User CPU time in it.
    pub self_ns: Estimate,
    /// Edges out of it, the hottest first.
    pub edges: Vec<EdgeId>,
    /// Whether it lies on the hottest path.
    pub is_on_hottest_path: bool,
}

/// Everything about one function.
#[must_use]
pub fn function_detail(profile: &Profile, function: FunctionId) -> FunctionDetail {
    let rank = if is_timeless(profile) { PathRank::Flow } else { PathRank::Time };
    let hottest_path = paths(profile, Some(function), rank).first().map(|row| row.path);
    let hottest_blocks = hottest_path.map_or(&[][..], |path| &profile.paths[path.index()].blocks);
    let own = (0..profile.blocks.len() as u32).map(BlockId);
    let mut own: Vec<BlockId> = own.filter(|id| profile.blocks[id.index()].function == function).collect();
    own.sort_by_key(|id| profile.blocks[id.index()].address);
    let mut edges = edges_by_block(profile, function);
    let blocks = own.into_iter().map(|block| BlockDetail {
        block,
        self_ns: profile.blocks[block.index()].self_ns,
        edges: std::mem::take(&mut edges[block.index()]),
        is_on_hottest_path: hottest_blocks.contains(&block),
    });
    FunctionDetail { function, blocks: blocks.collect(), hottest_path }
}

fn edges_by_block(profile: &Profile, function: FunctionId) -> Vec<Vec<EdgeId>> {
    let mut by_block = vec![Vec::new(); profile.blocks.len()];
    for row in crate::query::edges(profile, Some(function)) {
        by_block[profile.edges[row.edge.index()].from.index()].push(row.edge);
    }
    by_block
}
