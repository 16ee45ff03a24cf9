//! From path numbers to blocks and back.
//!
//! Decoding walks down the intervals: the start, and then at each block the edge, with the largest
//! value not above what is left of the number. It takes time linear in the edges out of the path's
//! blocks.
//!
//! What comes after a block has numbers of its own, below `paths_from` of the block: the sums of
//! the values from there on. A path of which only that part is known is decoded from them.

use super::{PathId, PathPlan};
use crate::graph::{BlockId, EdgeId};

/// A path as the blocks it executes and the edge that ends it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The first of `blocks`.
    pub start: BlockId,
    /// In order of execution.
    pub blocks: Vec<BlockId>,
    /// An exit, or a cut edge, out of the last block. The target of a cut edge is the start of the
    /// next path.
    pub end: EdgeId,
}

impl PathPlan {
    /// The path with this number; `None` if there are not so many paths.
    #[must_use]
    pub fn decode(&self, id: PathId) -> Option<Path> {
        Walk::new(self, id.0)?.finish()
    }

    /// The rest of a path, from `block` on, whose values from there on sum up to `sum`; `None` if
    /// there is no such rest.
    #[must_use]
    pub fn decode_from(&self, block: BlockId, sum: u64) -> Option<Path> {
        Walk::starting_at(self, block, sum)?.finish()
    }

    /// The number of the path that executes `blocks` and then takes `end`; `None` if that is not a
    /// path of this plan.
    #[must_use]
    pub fn encode(&self, blocks: &[BlockId], end: EdgeId) -> Option<PathId> {
        let (&first, &last) = (blocks.first()?, blocks.last()?);
        if end.index() >= self.graph.n_edges() || self.graph.edge(end).from != last || !self.is_end(end) {
            return None;
        }
        let mut sum = self.start_value(first)?;
        for pair in blocks.windows(2) {
            let edge = self.graph.edge_between(pair[0], pair[1]).filter(|&id| !self.is_end(id))?;
            sum += self.value(edge);
        }
        Some(PathId(sum + self.value(end)))
    }

    /// The blocks, `at` included, executed since the path started, given its sum on arrival at
    /// `at`; `None` if no path has that sum there.
    #[must_use]
    pub fn decode_partial(&self, at: BlockId, sum: u64) -> Option<Vec<BlockId>> {
        Walk::new(self, sum)?.reach(at)
    }

    /// As [`PathPlan::decode_partial`], for a path of which only what comes from `block` on is
    /// known.
    #[must_use]
    pub fn decode_partial_from(&self, block: BlockId, at: BlockId, sum: u64) -> Option<Vec<BlockId>> {
        Walk::starting_at(self, block, sum)?.reach(at)
    }
}

/// A path being decoded.
struct Walk<'p> {
    plan: &'p PathPlan,
    at: BlockId,
    /// What the edges still to come must sum up to.
    rest: u64,
    blocks: Vec<BlockId>,
}

impl<'p> Walk<'p> {
    fn new(plan: &'p PathPlan, sum: u64) -> Option<Walk<'p>> {
        if sum >= plan.n_paths {
            return None;
        }
        let n_before = plan.starts.partition_point(|start| start.value <= sum);
        let start = plan.starts.get(n_before.checked_sub(1)?)?;
        Some(Walk { plan, at: start.block, rest: sum - start.value, blocks: vec![start.block] })
    }

    fn starting_at(plan: &'p PathPlan, block: BlockId, sum: u64) -> Option<Walk<'p>> {
        let n_paths = plan.paths_from.get(block.index())?;
        (sum < *n_paths).then(|| Walk { plan, at: block, rest: sum, blocks: vec![block] })
    }

    fn finish(mut self) -> Option<Path> {
        loop {
            let edge = self.step()?;
            if self.plan.is_end(edge) {
                return (self.rest == 0).then(|| self.into_path(edge));
            }
        }
    }

    fn reach(mut self, at: BlockId) -> Option<Vec<BlockId>> {
        while self.at != at {
            let edge = self.step()?;
            if self.plan.is_end(edge) {
                return None;
            }
        }
        (self.rest == 0).then_some(self.blocks)
    }

    /// Takes the edge whose interval contains the rest.
    fn step(&mut self) -> Option<EdgeId> {
        let candidates = self.plan.graph.out_edges(self.at).filter(|&id| self.plan.value(id) <= self.rest);
        let edge = candidates.max_by_key(|&id| self.plan.value(id))?;
        self.rest -= self.plan.value(edge);
        if let Some(to) = self.plan.inner_target(edge) {
            self.at = to;
            self.blocks.push(to);
        }
        Some(edge)
    }

    fn into_path(self, end: EdgeId) -> Path {
        Path { start: self.blocks[0], blocks: self.blocks, end }
    }
}
