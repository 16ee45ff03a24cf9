//! Counts of edges from counts of blocks.
//!
//! What is known: how often every block ran, and some edges. Two kinds of sums hold:
//! * *out of* a block that control cannot stay in: its edges ran as often as it did. Not so behind
//!   a call, which need not return.
//! * *into* a block that control reaches only by edges: likewise. Not so at entries of the
//!   function, where some control comes from elsewhere.
//!
//! A sum with one unknown edge gives that edge; a sum with nothing left to share gives zero to all
//! of its unknown edges. This is repeated until nothing changes. If unknown edges are drawn between
//! the sums that they are in, the rule takes leaves off that graph; what stays is on cycles, and no
//! edge of a cycle is determined, because one can be more and the next less all around it.
//!
//! **Sums that do not hold.** A program can leave a block in the middle (`exit`, a fault, a signal
//! handler that jumps), and arrive where no edge leads (`longjmp`, a thread that ran natively for a
//! while). An edge never gets more than either of its sums has left, and sums into blocks, which
//! state what has happened and not what was about to, are used first. What is left in the end is
//! counted ([`Derived::n_left_midway`], [`Derived::arrivals`]).

use std::collections::VecDeque;

use flow::graph::{BlockId, Digraph, EdgeId};

/// What is known of a function.
#[derive(Debug)]
pub struct Known<'a> {
    pub graph: &'a Digraph,
    pub blocks: Vec<BlockFacts>,
    /// By edge: its count, if it is known.
    pub edges: Vec<Option<u64>>,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFacts {
    /// How often it ran; nothing if it is not counted here.
    pub count: Option<u64>,
    /// Whether control cannot stay in it.
    pub goes_on: bool,
    /// Whether control can come from elsewhere than over edges between counted blocks.
    pub is_enterable: bool,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// By edge: its count, if it is determined.
    pub edges: Vec<Option<u64>>,
    /// By block: how often it was reached otherwise than over an edge; nothing if that is not
    /// determined.
    pub arrivals: Vec<Option<u64>>,
    /// How often blocks ran that control did not leave.
    pub n_left_midway: u64,
    /// Executions of blocks whose edges are not determined.
    pub n_undetermined: u64,
}

/// Counts all edges that are determined.
pub fn derive(known: &Known<'_>) -> Derived {
    let mut solver = Solver::new(known);
    solver.run();
    solver.derived()
}

struct Solver<'a> {
    known: &'a Known<'a>,
    edges: Vec<Option<u64>>,
    into: Vec<Sum>,
    out_of: Vec<Sum>,
    /// Sums that were changed: into blocks, and out of blocks.
    changed_into: VecDeque<BlockId>,
    changed_out_of: VecDeque<BlockId>,
}

/// What edges with unknown counts have to share.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// At most this much; nothing if that is not known.
    rest: Option<u64>,
    n_unknown: usize,
    /// Whether they have to share all of it.
    is_equal: bool,
}

impl Sum {
    fn take(&mut self, count: u64) {
        self.n_unknown = self.n_unknown.saturating_sub(1);
        self.rest = self.rest.map(|rest| rest.saturating_sub(count));
    }

    /// What each of the unknown edges gets.
    fn solution(&self) -> Option<u64> {
        match self.rest {
            Some(0) if self.n_unknown > 0 => Some(0),
            rest if self.n_unknown == 1 && self.is_equal => rest,
            _ => None,
        }
    }
}

impl<'a> Solver<'a> {
    fn new(known: &'a Known<'a>) -> Solver<'a> {
        let Known { graph, blocks, .. } = known;
        let sum = |rest, n_unknown, is_equal| Sum { rest, n_unknown, is_equal };
        let with_ids = || graph.blocks().zip(blocks);
        let into = with_ids().map(|(id, block)| sum(block.count, graph.in_edges(id).len(), !block.is_enterable));
        let out_of = with_ids().map(|(id, block)| sum(block.count, graph.out_edges(id).len(), block.goes_on));
        Solver {
            known,
            edges: vec![None; graph.n_edges()],
            into: into.collect(),
            out_of: out_of.collect(),
            changed_into: graph.blocks().collect(),
            changed_out_of: graph.blocks().collect(),
        }
    }

    fn run(&mut self) {
        for edge in self.known.graph.edge_ids() {
            if let Some(count) = self.known.edges[edge.index()] {
                self.set(edge, count);
            }
        }
        loop {
            if let Some(block) = self.changed_into.pop_front() {
                if let Some(count) = self.into[block.index()].solution() {
                    self.set_all(self.known.graph.in_edges(block).iter().copied(), count);
                }
            } else if let Some(block) = self.changed_out_of.pop_front() {
                if let Some(count) = self.out_of[block.index()].solution() {
                    self.set_all(self.known.graph.out_edges(block), count);
                }
            } else {
                return;
            }
        }
    }

    fn set_all(&mut self, edges: impl Iterator<Item = EdgeId>, count: u64) {
        for edge in edges {
            if self.edges[edge.index()].is_none() {
                self.set(edge, count.min(self.limit(edge)));
            }
        }
    }

    /// Most that an edge can have.
    fn limit(&self, edge: EdgeId) -> u64 {
        let flow::graph::Edge { from, to } = self.known.graph.edge(edge);
        let left = self.out_of[from.index()].rest.unwrap_or(u64::MAX);
        to.and_then(|to| self.into[to.index()].rest).map_or(left, |arrived| arrived.min(left))
    }

    fn set(&mut self, edge: EdgeId, count: u64) {
        self.edges[edge.index()] = Some(count);
        let flow::graph::Edge { from, to } = self.known.graph.edge(edge);
        self.out_of[from.index()].take(count);
        self.changed_out_of.push_back(from);
        if let Some(to) = to {
            self.into[to.index()].take(count);
            self.changed_into.push_back(to);
        }
    }

    fn derived(self) -> Derived {
        let is_known = |sum: &Sum| sum.n_unknown == 0;
        let arrivals = self.into.iter().map(|sum| sum.rest.filter(|_| is_known(sum))).collect();
        let (mut n_left_midway, mut n_undetermined) = (0u64, 0u64);
        for sum in &self.out_of {
            let rest = sum.rest.unwrap_or(0);
            if !is_known(sum) {
                n_undetermined = n_undetermined.saturating_add(rest);
            } else if sum.is_equal {
                n_left_midway = n_left_midway.saturating_add(rest);
            }
        }
        Derived { edges: self.edges, arrivals, n_left_midway, n_undetermined }
    }
}
