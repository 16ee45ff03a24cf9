//! Chooses the edges at which paths end: those of the truncation, and more where there would be too
//! many paths.
//!
//! **Rule for too many paths.** Blocks are visited from the ends of paths backwards. A block with
//! more than `T` paths from it is *relieved*, so that the blocks before it see few again, in one of
//! two ways:
//! * *from above*: all edges into the block are cut. It becomes a start block and counts as 1 to
//!   its predecessors.
//! * *from below*: the coldest edges out of it are cut, just as many as bring its count down to
//!   `T`.
//!
//! Relief from above buys `log2(T)` further doublings before the next relief, relief from below
//! about one. So the latter is taken if its edges, times `log2(T)`, are colder than those of the
//! former; an edge's cost is its weight plus one, or one if no weights are known, which makes the
//! static number of cuts the measure.
//!
//! The first `T` is three quarters of the limit: not a power of two, because counts in rows of
//! two-way branches are, and cutting the cold half of one must leave room for the path that ends
//! there. How many start blocks will result is not known beforehand, so while the total exceeds the
//! limit, the choice is repeated with a quarter of `T`: at most 33 linear passes, and only for
//! functions that need any. With `T = 1` every edge that is left leads to a block with one path, so
//! the total is at most the number of edges, and the limit is never less than that. Counts
//! saturate, so that 2^10000 paths cost no more than 2^33.
//!
//! Both ways only add cuts in front of the blocks visited, so reverse post-order stays a
//! topological order.

use super::{EdgeOrder, PlanOptions, Truncation};
use crate::graph::{BlockId, Digraph, EdgeId};
use crate::order::Order;

/// The edges that end paths although they stay in the function, and what follows from them.
#[derive(Debug)]
pub(super) struct Cuts {
    pub(super) is_cut: Vec<bool>,
    /// Number of paths that start, or continue, at each block.
    pub(super) paths_from: Vec<u64>,
    /// The entries in their order, then the targets of cut edges by number.
    pub(super) starts: Vec<BlockId>,
    /// Cut for want of numbers, ascending.
    pub(super) extra: Vec<EdgeId>,
    pub(super) log2_paths_before_extra: f64,
}

pub(super) fn choose(graph: &Digraph, order: &Order, options: &PlanOptions<'_>) -> Cuts {
    let truncated = Counted::new(graph, order, truncate(graph, order, options.truncation));
    let limit = options.max_paths.max(graph.n_edges() as u64);
    if truncated.fits(limit) {
        let log2_paths_before_extra = (truncated.n_paths as f64).log2();
        let Counted { is_cut, paths_from, starts, .. } = truncated;
        return Cuts { is_cut, paths_from, starts, extra: Vec::new(), log2_paths_before_extra };
    }

    let mut threshold = limit - limit / 4;
    let relieved = loop {
        let relieved = Relief::new(graph, &truncated.is_cut, options.order, threshold).relieve_all(order);
        if relieved.fits(limit) || threshold == 1 {
            break relieved;
        }
        threshold = (threshold / 4).max(1);
    };
    let log2_paths_before_extra = log2_total_paths(graph, order, &truncated);
    let Counted { is_cut, paths_from, starts, .. } = relieved;
    let extra = graph.edge_ids().filter(|id| is_cut[id.index()] && !truncated.is_cut[id.index()]).collect();
    Cuts { is_cut, paths_from, starts, extra, log2_paths_before_extra }
}

/// A choice of cut edges with its path counts, which saturate.
struct Counted {
    is_cut: Vec<bool>,
    paths_from: Vec<u64>,
    starts: Vec<BlockId>,
    n_paths: u64,
}

impl Counted {
    fn new(graph: &Digraph, order: &Order, is_cut: Vec<bool>) -> Counted {
        let mut paths_from = vec![0u64; graph.n_blocks()];
        for &block in order.reverse_post().iter().rev() {
            paths_from[block.index()] = paths_from_block(graph, &is_cut, &paths_from, block);
        }
        Counted::with_paths(graph, is_cut, paths_from)
    }

    fn with_paths(graph: &Digraph, is_cut: Vec<bool>, paths_from: Vec<u64>) -> Counted {
        let is_cut_into = |&block: &BlockId| graph.in_edges(block).iter().any(|id| is_cut[id.index()]);
        let mut starts = graph.entries().to_vec();
        starts.extend(graph.blocks().filter(|&block| !graph.is_entry(block)).filter(is_cut_into));
        let n_paths = starts.iter().fold(0, |sum: u64, start| sum.saturating_add(paths_from[start.index()]));
        Counted { is_cut, paths_from, starts, n_paths }
    }

    fn fits(&self, limit: u64) -> bool {
        self.n_paths <= limit && self.n_paths < u64::MAX
    }
}

fn truncate(graph: &Digraph, order: &Order, truncation: Truncation) -> Vec<bool> {
    let mut is_cut = vec![false; graph.n_edges()];
    for &id in order.retreating() {
        match truncation {
            Truncation::BackEdges => is_cut[id.index()] = true,
            Truncation::LoopHeaders => {
                let Some(header) = graph.edge(id).to else { continue };
                // Cutting the first retreating edge into a header cuts all its edges: do it once.
                if !is_cut[id.index()] {
                    graph.in_edges(header).iter().for_each(|into| is_cut[into.index()] = true);
                }
            }
        }
    }
    is_cut
}

fn paths_from_block(graph: &Digraph, is_cut: &[bool], paths_from: &[u64], block: BlockId) -> u64 {
    graph.out_edges(block).fold(0, |sum: u64, id| sum.saturating_add(width(graph, is_cut, paths_from, id)))
}

/// Number of ways to go on after taking the edge.
pub(super) fn width(graph: &Digraph, is_cut: &[bool], paths_from: &[u64], id: EdgeId) -> u64 {
    match graph.edge(id).to {
        Some(to) if !is_cut[id.index()] => paths_from[to.index()],
        _ => 1,
    }
}

/// Logarithm of the number of paths, for numbers that no integer holds.
fn log2_total_paths(graph: &Digraph, order: &Order, counted: &Counted) -> f64 {
    let mut log2_from = vec![f64::NEG_INFINITY; graph.n_blocks()];
    for &block in order.reverse_post().iter().rev() {
        let log2_width = |id: EdgeId| match graph.edge(id).to {
            Some(to) if !counted.is_cut[id.index()] => log2_from[to.index()],
            _ => 0.0,
        };
        log2_from[block.index()] = log2_sum(graph.out_edges(block).map(log2_width));
    }
    log2_sum(counted.starts.iter().map(|start| log2_from[start.index()]))
}

/// `log2(sum of 2^x)`, scaled by the largest term so that nothing overflows.
fn log2_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + logs.map(|log| (log - largest).exp2()).sum::<f64>().log2()
}

/// One pass of the rule in the module header.
struct Relief<'a> {
    graph: &'a Digraph,
    weights: Option<&'a [u64]>,
    threshold: u64,
    is_cut: Vec<bool>,
    paths_from: Vec<u64>,
}

impl<'a> Relief<'a> {
    fn new(graph: &'a Digraph, truncated: &[bool], order: EdgeOrder<'a>, threshold: u64) -> Relief<'a> {
        let weights = match order {
            EdgeOrder::Classic => None,
            EdgeOrder::Smart(weights) => Some(weights),
        };
        Relief { graph, weights, threshold, is_cut: truncated.to_vec(), paths_from: vec![0; graph.n_blocks()] }
    }

    fn relieve_all(mut self, order: &Order) -> Counted {
        for &block in order.reverse_post().iter().rev() {
            let mut n_paths = paths_from_block(self.graph, &self.is_cut, &self.paths_from, block);
            if n_paths > self.threshold {
                self.relieve(block);
                n_paths = paths_from_block(self.graph, &self.is_cut, &self.paths_from, block);
            }
            self.paths_from[block.index()] = n_paths;
        }
        Counted::with_paths(self.graph, self.is_cut, self.paths_from)
    }

    fn relieve(&mut self, block: BlockId) {
        let into = || self.graph.in_edges(block).iter().copied().filter(|id| !self.is_cut[id.index()]);
        let cost_above = self.cost(into());
        if cost_above == 0 {
            return;
        }
        let doublings = u128::from(self.threshold.ilog2()) + 1;
        let relieved: Vec<EdgeId> = match self.coldest_to_cut(block) {
            Some(below) if self.cost(below.iter().copied()) * doublings <= cost_above => below,
            _ => into().collect(),
        };
        relieved.iter().for_each(|id| self.is_cut[id.index()] = true);
    }

    /// The coldest edges out of `block` whose cut leaves at most `threshold` paths from it; `None`
    /// if no cut does.
    fn coldest_to_cut(&self, block: BlockId) -> Option<Vec<EdgeId>> {
        let width = |id: EdgeId| width(self.graph, &self.is_cut, &self.paths_from, id);
        let mut coldest_first: Vec<EdgeId> = self.graph.out_edges(block).filter(|&id| width(id) > 1).collect();
        coldest_first.sort_by_key(|&id| (self.weight(id), std::cmp::Reverse(width(id))));

        let widths = self.graph.out_edges(block).map(|id| u128::from(width(id)));
        let mut n_paths: u128 = widths.sum();
        let mut n_cut = 0;
        for &id in &coldest_first {
            if n_paths <= u128::from(self.threshold) {
                break;
            }
            n_paths -= u128::from(width(id)) - 1;
            n_cut += 1;
        }
        coldest_first.truncate(n_cut);
        (n_paths <= u128::from(self.threshold)).then_some(coldest_first)
    }

    fn weight(&self, id: EdgeId) -> u64 {
        self.weights.map_or(0, |weights| weights[id.index()])
    }

    fn cost(&self, edges: impl Iterator<Item = EdgeId>) -> u128 {
        edges.map(|id| u128::from(self.weight(id)) + 1).sum()
    }
}
