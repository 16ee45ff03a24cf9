//! A guess at how often edges run, for functions without a profile.

use crate::graph::{Digraph, EdgeId};
use crate::loops::Loops;

/// Iterations that a loop is supposed to make, and how deep the supposition is stacked.
const ITERATIONS: u64 = 8;
const MAX_DEPTH: u32 = 12;
/// Weight of a block outside loops; blocks with more ways out divide it further.
const UNIT: u64 = 1 << 16;

/// One weight per edge: a loop makes 8 iterations, and the edges out of a block are equally likely.
///
/// An edge runs as often as the smallest loop that contains both its ends; if it leaves the
/// function, as code outside loops. The result is an estimate to compare edges by, not a flow:
/// weights in and out of a block need not balance.
#[must_use]
pub fn estimate_weights(graph: &Digraph, loops: &Loops) -> Vec<u64> {
    let weight = |id: EdgeId| {
        let n_out = graph.out_range(graph.edge(id).from).len() as u64;
        let iterations = ITERATIONS.pow(common_depth(graph, loops, id).min(MAX_DEPTH));
        (UNIT / n_out).max(1) * iterations
    };
    graph.edge_ids().map(weight).collect()
}

/// Number of loops that contain both ends of the edge. An edge into an irreducible loop from the
/// side counts as outside loops, which bounds the work.
fn common_depth(graph: &Digraph, loops: &Loops, id: EdgeId) -> u32 {
    let edge = graph.edge(id);
    let Some(to) = edge.to else { return 0 };
    let around_target = loops.innermost(to);
    let around_header = loops.headed_by(to).and_then(|own| loops.get(own).parent);
    let contains_both = |id| loops.contains(id, edge.from) && loops.contains(id, to);
    let candidates = [loops.innermost(edge.from), around_target, around_header];
    candidates.into_iter().flatten().find(|&id| contains_both(id)).map_or(0, |id| loops.get(id).depth)
}
