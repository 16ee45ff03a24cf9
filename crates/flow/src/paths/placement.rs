//! Where the additions to the path register go.
//!
//! **Cost model.** A start writes a constant to the register whatever the constant is, and an end
//! uses the register as an index, to which a constant offset is free. Only an addition on an inner
//! edge costs an instruction. So the question is which inner edges carry additions.
//!
//! **Direct.** Every inner edge with a non-zero value adds it.
//!
//! **Spanning tree** (event counting, Ball and Larus 1996; Ball 1994). Every block `b` has a
//! *potential* `phi(b)`, and the register holds not the path sum but
//!
//! ```text
//! register on arrival at b = sum - phi(b)
//! ```
//!
//! so the inner edge `u -> v` must add `value + phi(u) - phi(v)`, a start at `b` must write
//! `value - phi(b)`, and the end edge `e` out of `u` makes the path id
//! `register + phi(u) + value(e)`. Any potentials are right. They are chosen such that the edges of
//! a maximum-weight spanning tree add nothing; the tree spans the blocks and one outside node,
//! which is ENTRY and EXIT joined by the usual edge EXIT -> ENTRY. Because constants at starts and
//! ends are free, all inner edges come before all virtual ones when the tree is built, hottest
//! first within each class. A sampled register is decoded with the block's potential
//! ([`Placement::prefix_sum`]), without which a partial sum could not be understood.
//!
//! **Never worse than direct.** A block has at most one edge out with value 0, so the inner edges
//! that are free under the direct placement contain no undirected cycle: they are a forest, and no
//! forest of inner edges weighs more than the one in the tree.
//!
//! Arithmetic is modulo 2^64, as in the register; ids are exact because they are below 2^64.

use super::numbering::start_weight;
use super::{PathPlan, Start};
use crate::graph::{BlockId, EdgeId};
use std::cmp::Reverse;

/// What instrumentation does to the path register on every edge and start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    actions: Vec<EdgeAction>,
    /// Parallel to the starts of the plan.
    start_registers: Vec<i64>,
    potentials: Vec<i64>,
}

/// What instrumentation does when an edge is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeAction {
    /// Nothing.
    Pass,
    /// `register += amount`; the amount is not zero.
    Add(i64),
    /// The path `register + id_offset` ends; then, unless the edge leaves the function,
    /// `register = restart`.
    End {
        /// Added to the register to make the path id.
        id_offset: i64,
        /// First register value of the path that starts at the edge's target.
        restart: Option<i64>,
    },
}

impl Placement {
    /// Each inner edge adds its own value.
    #[must_use]
    pub fn direct(plan: &PathPlan) -> Placement {
        Placement::with_potentials(plan, vec![0; plan.graph().n_blocks()])
    }

    /// Additions on the complement of a maximum-weight spanning tree; `weights` has one entry per
    /// edge of the graph.
    ///
    /// # Panics
    /// If there is not one weight per edge.
    #[must_use]
    pub fn spanning_tree(plan: &PathPlan, weights: &[u64]) -> Placement {
        assert_eq!(weights.len(), plan.graph().n_edges(), "one weight per edge");
        Placement::with_potentials(plan, tree_potentials(plan, weights))
    }

    /// What to do when the edge is taken.
    #[must_use]
    pub fn action(&self, edge: EdgeId) -> EdgeAction {
        self.actions[edge.index()]
    }

    /// What to do on every edge, indexed by [`EdgeId`].
    #[must_use]
    pub fn actions(&self) -> &[EdgeAction] {
        &self.actions
    }

    /// First register value of a path, for each of [`PathPlan::starts`]: to be set where control
    /// enters the function.
    #[must_use]
    pub fn start_registers(&self) -> &[i64] {
        &self.start_registers
    }

    /// Difference between path sum and register on arrival at `block`.
    #[must_use]
    pub fn potential(&self, block: BlockId) -> i64 {
        self.potentials[block.index()]
    }

    /// The path sum when the register is seen on arrival at `block`: what
    /// [`PathPlan::decode_partial`] needs.
    #[must_use]
    pub fn prefix_sum(&self, block: BlockId, register: i64) -> u64 {
        register.wrapping_add(self.potential(block)) as u64
    }

    /// Number of edges with an addition.
    #[must_use]
    pub fn n_additions(&self) -> usize {
        self.actions.iter().filter(|action| matches!(action, EdgeAction::Add(_))).count()
    }

    /// Number of additions executed when every edge runs as often as its weight says.
    #[must_use]
    pub fn weighted_additions(&self, weights: &[u64]) -> u128 {
        let carries = |(action, _): &(&EdgeAction, &u64)| matches!(action, EdgeAction::Add(_));
        self.actions.iter().zip(weights).filter(carries).map(|(_, &weight)| u128::from(weight)).sum()
    }

    fn with_potentials(plan: &PathPlan, potentials: Vec<i64>) -> Placement {
        let start_register = |start: &Start| (start.value as i64).wrapping_sub(potentials[start.block.index()]);
        let start_registers: Vec<i64> = plan.starts().iter().map(start_register).collect();
        let action = |id: EdgeId| {
            let edge = plan.graph().edge(id);
            let sum_offset = (plan.value(id) as i64).wrapping_add(potentials[edge.from.index()]);
            let Some(to) = plan.inner_target(id) else {
                let restart_at = |to: BlockId| Some(start_registers[plan.start_index[to.index()]? as usize]);
                return EdgeAction::End { id_offset: sum_offset, restart: edge.to.and_then(restart_at) };
            };
            match sum_offset.wrapping_sub(potentials[to.index()]) {
                0 => EdgeAction::Pass,
                amount => EdgeAction::Add(amount),
            }
        };
        let actions = plan.graph().edge_ids().map(action).collect();
        Placement { actions, start_registers, potentials }
    }
}

/// Potentials under which the edges of a maximum-weight spanning tree add nothing (Kruskal's
/// algorithm).
fn tree_potentials(plan: &PathPlan, weights: &[u64]) -> Vec<i64> {
    let graph = plan.graph();
    let outside = graph.n_blocks();
    let mut potentials = Potentials::new(graph.n_blocks() + 1);

    let (mut inner, mut ends): (Vec<EdgeId>, Vec<EdgeId>) = (Vec::new(), Vec::new());
    for id in graph.edge_ids() {
        if plan.is_end(id) { ends.push(id) } else { inner.push(id) }
    }
    let hottest_first = |edges: &mut Vec<EdgeId>| edges.sort_by_key(|id| Reverse(weights[id.index()]));
    hottest_first(&mut inner);
    for id in inner {
        let target = plan.inner_target(id).map_or(outside, BlockId::index);
        potentials.join(graph.edge(id).from.index(), target, plan.value(id) as i64);
    }

    hottest_first(&mut ends);
    let mut starts: Vec<(u128, Start)> =
        plan.starts().iter().map(|&start| (start_weight(graph, &plan.is_cut, weights, start.block), start)).collect();
    starts.sort_by_key(|&(weight, _)| Reverse(weight));
    let mut starts = starts.into_iter().peekable();
    for id in ends {
        let weight = u128::from(weights[id.index()]);
        while let Some((_, start)) = starts.next_if(|&(start_weight, _)| start_weight >= weight) {
            potentials.join(outside, start.block.index(), start.value as i64);
        }
        potentials.join(graph.edge(id).from.index(), outside, plan.value(id) as i64);
    }
    for (_, start) in starts {
        potentials.join(outside, start.block.index(), start.value as i64);
    }
    potentials.relative_to(outside)
}

/// Union-find in which every node knows its potential relative to its representative. Union by size
/// keeps the chains short.
struct Potentials {
    parent: Vec<u32>,
    above_parent: Vec<i64>,
    size: Vec<u32>,
}

impl Potentials {
    fn new(n_nodes: usize) -> Potentials {
        Potentials { parent: (0..n_nodes as u32).collect(), above_parent: vec![0; n_nodes], size: vec![1; n_nodes] }
    }

    /// Makes `phi(to) - phi(from) = difference` if the two are not related yet.
    fn join(&mut self, from: usize, to: usize, difference: i64) {
        let (from_root, from_above) = self.find(from);
        let (to_root, to_above) = self.find(to);
        if from_root == to_root {
            return;
        }
        let roots_difference = difference.wrapping_add(from_above).wrapping_sub(to_above);
        let (child, parent, above) = if self.size[from_root] < self.size[to_root] {
            (from_root, to_root, roots_difference.wrapping_neg())
        } else {
            (to_root, from_root, roots_difference)
        };
        self.parent[child] = parent as u32;
        self.above_parent[child] = above;
        self.size[parent] += self.size[child];
    }

    /// The representative of a node, and the node's potential above that of the representative.
    fn find(&self, node: usize) -> (usize, i64) {
        let (mut at, mut above) = (node, 0i64);
        while self.parent[at] as usize != at {
            above = above.wrapping_add(self.above_parent[at]);
            at = self.parent[at] as usize;
        }
        (at, above)
    }

    /// Potentials of all nodes but the last one, which is the reference.
    fn relative_to(&self, reference: usize) -> Vec<i64> {
        let (_, reference_above) = self.find(reference);
        (0..reference).map(|node| self.find(node).1.wrapping_sub(reference_above)).collect()
    }
}
