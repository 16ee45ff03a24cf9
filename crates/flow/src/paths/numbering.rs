//! Assigns the values once the cut edges are fixed: PEP figure 2 (classic) and figure 4 (smart).
//!
//! The cuts keep the total within the limit, and every block is on a path from some start, so that
//! no count here can overflow. A block that no entry reaches would be on no path; its counts
//! saturate and mean nothing.

use super::cuts::{self, Cuts};
use super::{EdgeOrder, PathPlan, Start};
use crate::graph::{BlockId, Digraph, EdgeId};
use std::cmp::Reverse;

pub(super) fn number(graph: Digraph, cuts: Cuts, edge_order: EdgeOrder<'_>) -> PathPlan {
    let Cuts { is_cut, paths_from, starts: mut start_blocks, extra, log2_paths_before_extra } = cuts;
    let values = edge_values(&graph, &is_cut, &paths_from, edge_order);

    if let EdgeOrder::Smart(weights) = edge_order {
        start_blocks.sort_by_cached_key(|&block| Reverse(start_weight(&graph, &is_cut, weights, block)));
    }
    let mut n_paths = 0u64;
    let mut starts = Vec::with_capacity(start_blocks.len());
    let mut start_index = vec![None; graph.n_blocks()];
    for block in start_blocks {
        start_index[block.index()] = Some(starts.len() as u32);
        starts.push(Start { block, value: n_paths });
        n_paths = n_paths.saturating_add(paths_from[block.index()]);
    }
    PathPlan {
        graph,
        is_cut,
        extra_cuts: extra,
        log2_paths_before_extra_cuts: log2_paths_before_extra,
        values,
        paths_from,
        starts,
        start_index,
        n_paths,
    }
}

fn edge_values(graph: &Digraph, is_cut: &[bool], paths_from: &[u64], edge_order: EdgeOrder<'_>) -> Vec<u64> {
    let mut values = vec![0u64; graph.n_edges()];
    let mut ordered: Vec<EdgeId> = Vec::new();
    for block in graph.blocks() {
        ordered.clear();
        ordered.extend(graph.out_edges(block));
        if let EdgeOrder::Smart(weights) = edge_order {
            ordered.sort_by_key(|id| Reverse(weights[id.index()]));
        }
        let mut value = 0u64;
        for &id in &ordered {
            values[id.index()] = value;
            value = value.saturating_add(cuts::width(graph, is_cut, paths_from, id));
        }
    }
    values
}

/// How often a path starts at `block`: as often as a cut edge leads there, plus, at an entry, what
/// leaves the block in excess of what comes in by edges.
pub(super) fn start_weight(graph: &Digraph, is_cut: &[bool], weights: &[u64], block: BlockId) -> u128 {
    let weight = |id: EdgeId| u128::from(weights[id.index()]);
    let into = graph.in_edges(block).iter().copied();
    let restarts: u128 = into.clone().filter(|id| is_cut[id.index()]).map(weight).sum();
    if !graph.is_entry(block) {
        return restarts;
    }
    let out: u128 = graph.out_edges(block).map(weight).sum();
    restarts + out.saturating_sub(into.map(weight).sum())
}
