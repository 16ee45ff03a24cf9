//! Checks a numbering and a placement against what they promise, without using how they were made.
//!
//! [`verify_plan`] and [`verify_placement`] are linear and complete: the tiling of intervals and
//! the potential equations together imply, by the induction in the module header of [`super`], that
//! instrumented execution yields unique, dense, decodable numbers. [`verify_every_path`] shows the
//! same by enumeration, for functions with few paths.

use super::{EdgeAction, PathId, PathPlan, Placement};
use crate::graph::{BlockId, EdgeId};
use std::fmt;

/// A broken promise of a plan or placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanFault {
    /// The block is on a cycle without a cut edge.
    Cycle(BlockId),
    /// The block is an entry or the target of a cut edge but not a start, or the reverse.
    WrongStart(BlockId),
    /// The intervals of the edges out of the block do not tile its paths.
    EdgesDoNotTile(BlockId),
    /// The intervals of the starts do not tile all paths.
    StartsDoNotTile,
    /// The edge does to the register what does not fit the potentials of its ends.
    WrongAction(EdgeId),
    /// The register does not start at the block with what fits the block's potential.
    WrongStartRegister(BlockId),
    /// The path does not decode, or does not encode to its own number.
    NotInvertible(PathId),
}

/// Verifies the cuts, the starts and the values of a plan, in almost linear time.
///
/// # Errors
/// The first fault found.
pub fn verify_plan(plan: &PathPlan) -> Result<(), PlanFault> {
    verify_acyclic(plan)?;
    verify_starts(plan)?;
    let mut intervals = Vec::new();
    for block in plan.graph().blocks() {
        intervals.clear();
        for edge in plan.graph().out_edges(block) {
            let width = plan.inner_target(edge).map_or(1, |to| plan.paths_from(to));
            intervals.push((plan.value(edge), width));
        }
        if !tile(&mut intervals, plan.paths_from(block)) {
            return Err(PlanFault::EdgesDoNotTile(block));
        }
    }
    let mut intervals: Vec<(u64, u64)> =
        plan.starts().iter().map(|start| (start.value, plan.paths_from(start.block))).collect();
    if tile(&mut intervals, plan.n_paths()) { Ok(()) } else { Err(PlanFault::StartsDoNotTile) }
}

/// Verifies that register and path sum differ by the block's potential wherever instrumented
/// execution can get.
///
/// # Errors
/// The first fault found.
pub fn verify_placement(plan: &PathPlan, placement: &Placement) -> Result<(), PlanFault> {
    let starts = plan.starts().iter().zip(placement.start_registers());
    for (start, &register) in starts.clone() {
        if placement.prefix_sum(start.block, register) != start.value {
            return Err(PlanFault::WrongStartRegister(start.block));
        }
    }
    let mut register_at_start = vec![None; plan.graph().n_blocks()];
    starts.for_each(|(start, &register)| register_at_start[start.block.index()] = Some(register));
    for id in plan.graph().edge_ids() {
        let edge = plan.graph().edge(id);
        let sum = |register: i64| placement.prefix_sum(edge.from, register).wrapping_add(plan.value(id));
        let fits = match (placement.action(id), plan.inner_target(id)) {
            (EdgeAction::Pass, Some(to)) => placement.prefix_sum(to, 0) == sum(0),
            (EdgeAction::Add(amount), Some(to)) => amount != 0 && placement.prefix_sum(to, amount) == sum(0),
            (EdgeAction::End { id_offset, restart }, None) => {
                id_offset as u64 == sum(0) && restart == edge.to.and_then(|to| register_at_start[to.index()])
            }
            _ => false,
        };
        if !fits {
            return Err(PlanFault::WrongAction(id));
        }
    }
    Ok(())
}

/// Decodes every path and encodes it again. Takes time proportional to the number of paths.
///
/// # Errors
/// The first fault found.
pub fn verify_every_path(plan: &PathPlan) -> Result<(), PlanFault> {
    for id in (0..plan.n_paths()).map(PathId) {
        let encoded = plan.decode(id).and_then(|path| plan.encode(&path.blocks, path.end));
        if encoded != Some(id) {
            return Err(PlanFault::NotInvertible(id));
        }
    }
    match plan.decode(PathId(plan.n_paths())) {
        Some(_) => Err(PlanFault::NotInvertible(PathId(plan.n_paths()))),
        None => Ok(()),
    }
}

/// Kahn's algorithm: blocks are removed when no inner edge into them is left.
fn verify_acyclic(plan: &PathPlan) -> Result<(), PlanFault> {
    let graph = plan.graph();
    let inner_targets = |block| graph.out_edges(block).filter_map(|edge| plan.inner_target(edge));
    let mut n_into = vec![0u32; graph.n_blocks()];
    for block in graph.blocks() {
        inner_targets(block).for_each(|to| n_into[to.index()] += 1);
    }
    let mut removable: Vec<BlockId> = graph.blocks().filter(|block| n_into[block.index()] == 0).collect();
    while let Some(block) = removable.pop() {
        for to in inner_targets(block) {
            n_into[to.index()] -= 1;
            if n_into[to.index()] == 0 {
                removable.push(to);
            }
        }
    }
    match graph.blocks().find(|block| n_into[block.index()] != 0) {
        Some(block) => Err(PlanFault::Cycle(block)),
        None => Ok(()),
    }
}

fn verify_starts(plan: &PathPlan) -> Result<(), PlanFault> {
    let graph = plan.graph();
    let mut n_starts = vec![0u32; graph.n_blocks()];
    plan.starts().iter().for_each(|start| n_starts[start.block.index()] += 1);
    for block in graph.blocks() {
        let must_start = graph.is_entry(block) || graph.in_edges(block).iter().any(|&edge| plan.is_cut(edge));
        if n_starts[block.index()] != u32::from(must_start) {
            return Err(PlanFault::WrongStart(block));
        }
    }
    Ok(())
}

/// Whether the intervals, given as start and width, are not empty, do not overlap and leave no gap
/// in `[0, end)`.
fn tile(intervals: &mut [(u64, u64)], end: u64) -> bool {
    intervals.sort_unstable();
    let mut next = 0u64;
    for &(start, width) in &*intervals {
        if start != next || width == 0 {
            return false;
        }
        let Some(after) = next.checked_add(width) else { return false };
        next = after;
    }
    next == end
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanFault::Cycle(block) => write!(f, "{block} is on a cycle without a cut edge"),
            PlanFault::WrongStart(block) => {
                write!(f, "{block} is a start block without reason, or not one despite a reason")
            }
            PlanFault::EdgesDoNotTile(block) => {
                write!(f, "the values of the edges out of {block} leave gaps or overlap")
            }
            PlanFault::StartsDoNotTile => write!(f, "the values of the start blocks leave gaps or overlap"),
            PlanFault::WrongAction(edge) => write!(f, "the action on {edge} does not fit the potentials of its ends"),
            PlanFault::WrongStartRegister(block) => write!(f, "the register starts at {block} with a wrong value"),
            PlanFault::NotInvertible(id) => write!(f, "path {} does not decode and encode to itself", id.0),
        }
    }
}

impl std::error::Error for PlanFault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Digraph, Edge};
    use crate::paths::{EdgeOrder, PlanOptions, Truncation};

    /// 0 -> {1, 2}, both to 3, and from there back to 0 or out.
    fn plan(order: EdgeOrder<'_>) -> PathPlan {
        let edges = [(0, Some(1)), (0, Some(2)), (1, Some(3)), (2, Some(3)), (3, Some(0)), (3, None)];
        let edge = |(from, to): (u32, Option<u32>)| Edge { from: BlockId(from), to: to.map(BlockId) };
        let graph = Digraph::new(4, edges.map(edge).to_vec(), vec![BlockId(0)]);
        let plan = PathPlan::new(&graph, &PlanOptions { truncation: Truncation::BackEdges, order, max_paths: 100 });
        assert_eq!(verify_plan(&plan), Ok(()));
        assert_eq!(verify_every_path(&plan), Ok(()));
        plan
    }

    fn fault_after(damage: impl Fn(&mut PathPlan)) -> Option<PlanFault> {
        let mut plan = plan(EdgeOrder::Classic);
        damage(&mut plan);
        verify_plan(&plan).err()
    }

    #[test]
    fn damaged_plans_are_refused() {
        assert_eq!(fault_after(|plan| plan.is_cut[4] = false), Some(PlanFault::Cycle(BlockId(0))));
        assert_eq!(fault_after(|plan| plan.is_cut[0] = true), Some(PlanFault::WrongStart(BlockId(1))));
        assert_eq!(fault_after(|plan| plan.starts.clear()), Some(PlanFault::WrongStart(BlockId(0))));
        assert_eq!(fault_after(|plan| plan.values[1] = 1), Some(PlanFault::EdgesDoNotTile(BlockId(0))));
        assert_eq!(fault_after(|plan| plan.paths_from[0] = 5), Some(PlanFault::EdgesDoNotTile(BlockId(0))));
        assert_eq!(fault_after(|plan| plan.starts[0].value = 1), Some(PlanFault::StartsDoNotTile));
        assert_eq!(fault_after(|plan| plan.n_paths = 5), Some(PlanFault::StartsDoNotTile));
    }

    #[test]
    fn placements_of_other_plans_are_refused() {
        let classic = plan(EdgeOrder::Classic);
        let smart = plan(EdgeOrder::Smart(&[0, 1, 1, 1, 1, 1]));
        assert_eq!(verify_placement(&classic, &Placement::direct(&classic)), Ok(()));
        assert_eq!(verify_placement(&classic, &Placement::direct(&smart)), Err(PlanFault::WrongAction(EdgeId(0))));
        let mut shifted = classic.clone();
        shifted.starts[0].value = 7;
        let fault = verify_placement(&classic, &Placement::direct(&shifted));
        assert_eq!(fault, Err(PlanFault::WrongStartRegister(BlockId(0))));
    }

    #[test]
    fn numbers_that_do_not_invert_are_refused() {
        let mut damaged = plan(EdgeOrder::Classic);
        damaged.values.swap(0, 1);
        assert_eq!(verify_every_path(&damaged), Ok(()), "another order is still a numbering");
        damaged.values[0] = 0;
        assert_eq!(verify_every_path(&damaged), Err(PlanFault::NotInvertible(PathId(2))));
    }
}
