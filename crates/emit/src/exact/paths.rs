//! Ball-Larus paths of one function, counted in place.
//!
//! The path register is the low half of `frame`: per thread, kept in the frames ([`wire::exact`])
//! while a call runs. [`flow::paths`] says what is to be done on every edge. What that leaves open
//! is control that arrives by an address:
//!
//! * At an entry, a path starts.
//! * At a return site whose call has left no frame, or another one's (`longjmp`; a callee that
//!   takes arguments off the stack), a path starts in the middle: its number is beyond those of the
//!   plan, `n_paths` plus the sum of `paths_from` of the return sites before, plus what comes.
//! * Anywhere else the path so far is unknown. The register gets the value that the zero-valued
//!   path to the block would have, so that numbers stay in range, and the function's lost paths go
//!   up: as many of its paths are wrong in their first part.
//! * Through a jump table of the function, the register is right, and the edge's own code is to be
//!   executed. That is reached by a second entry, before the one of everybody else. Where several
//!   jumps share targets and what is to be done depends on the jump, each has a *row* of numbers,
//!   one for every target, and leaves its address.
//!
//! Paths are counted in cells if there are at most [`MAX_CELLS`] of them and neither cycles nor a
//! trace are wanted, else in the path table, which has 32 bits for a number. So there are fewer
//! paths the more return sites there are. A function that has too many all the same, or too many
//! rows, is counted by blocks; not at all if paths are sampled.

use flow::callgraph::FunctionId;
use flow::cfg::{Cfg, EdgeKind};
use flow::graph::{BlockId, EdgeId};
use flow::paths::{
    DEFAULT_MAX_PATHS, EdgeAction, EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, max_paths_with_restarts,
};

use super::code::{Paths, RowEntry};
use super::{Code, Metric, Plan};
use crate::cell::{Cell, CellKind};
use crate::chunk::{Chunk, Owner};
use crate::module::Module;

/// Most paths that have a cell each.
const MAX_CELLS: u64 = 1024;
/// Most entries of all rows of a function.
const MAX_ROW_ENTRIES: usize = 1 << 16;

/// Paths are counted in `paths` if that is given. `None` if there are too many rows.
pub(super) fn plan(
    module: &Module<'_, '_>,
    id: FunctionId,
    truncation: Truncation,
    paths: Option<Paths>,
    chunk: &mut Chunk,
) -> Option<Plan> {
    let function = module.function(id);
    let cfg = &function.cfg;
    let weights = function.path_weights();
    let return_sites = cfg.return_sites();
    let options = PlanOptions {
        truncation,
        order: EdgeOrder::Smart(&weights),
        max_paths: max_paths_with_restarts(return_sites.len()),
    };
    let plan = PathPlan::new(&cfg.graph, &options);
    let placement = Placement::spanning_tree(&plan, &weights);
    let entry = module.original(function.entry).0;

    let mut n_ids = plan.n_paths();
    let mut restarts: Vec<Option<i32>> = vec![None; cfg.blocks.len()];
    for site in return_sites {
        restarts[site.index()] = Some((n_ids as i64).wrapping_sub(placement.potential(site)) as i32);
        n_ids = n_ids.saturating_add(plan.paths_from(site));
    }
    let fits = |amount: i64| i32::try_from(amount).is_ok_and(|amount| amount.unsigned_abs() < 1 << 27);
    let is_small = n_ids <= MAX_CELLS
        && cfg.graph.blocks().all(|block| fits(placement.potential(block)))
        && placement.start_registers().iter().all(|&register| fits(register))
        && placement.actions().iter().all(|action| match *action {
            EdgeAction::Pass => true,
            EdgeAction::Add(amount) => fits(amount),
            EdgeAction::End { id_offset, restart } => fits(id_offset) && restart.is_none_or(fits),
        });
    let agree = table_edges_agree(cfg, placement.actions());
    let mut table_targets: Vec<BlockId> = table_edges(cfg).map(|(_, to)| to).collect();
    let mut table_sources: Vec<BlockId> = table_edges(cfg).map(|(edge, _)| cfg.graph.edge(edge).from).collect();
    for blocks in [&mut table_targets, &mut table_sources] {
        blocks.sort_unstable();
        blocks.dedup();
    }
    if n_ids > DEFAULT_MAX_PATHS || !agree && table_targets.len() * table_sources.len() > MAX_ROW_ENTRIES {
        return None;
    }
    let probe = module.options.probe;
    let paths = if let Some(paths) = paths {
        paths
    } else if is_small && probe.metric() != Some(Metric::Cycles) && !probe.samples_paths() && !probe.traces_paths() {
        let to = n_ids as u32;
        let first = chunk.new_cells(Cell { kind: CellKind::Paths, at: entry, to });
        match probe.cache() {
            Some(_) => {
                let misses = chunk.new_cells(Cell { kind: CellKind::PathMisses, at: entry, to });
                Paths::CellsWithMisses { first, misses }
            }
            None => Paths::Cells(first),
        }
    } else {
        let key = chunk.n_keys;
        chunk.n_keys += 1;
        chunk.new_cells(Cell { kind: CellKind::HashedPaths, at: entry, to: key });
        if probe.samples_paths() {
            Paths::Samples(key)
        } else if probe.traces_paths() {
            Paths::Trace(key)
        } else {
            Paths::Table { owner: Owner::Function(key), metric: probe.metric() }
        }
    };
    let code = |action: EdgeAction| match action {
        EdgeAction::Pass => Code::Nothing,
        EdgeAction::Add(amount) => Code::Add(amount as i32),
        EdgeAction::End { id_offset, restart } => {
            Code::End { paths, id_offset: id_offset as i32, restart: restart.map(|register| register as i32) }
        }
    };
    let edges: Vec<Code> = placement.actions().iter().map(|&action| code(action)).collect();
    let mut table_arrivals = vec![None; cfg.blocks.len()];
    for (edge, to) in table_edges(cfg).filter(|_| agree) {
        table_arrivals[to.index()] = Some(edges[edge.index()]);
    }
    let mut rows: Vec<(BlockId, Vec<RowEntry>)> = Vec::new();
    if !agree {
        let start_of = |block: BlockId| {
            let at = plan.starts().iter().position(|start| start.block == block)?;
            placement.start_registers().get(at).map(|&register| register as i32)
        };
        for (index, &to) in table_targets.iter().enumerate() {
            let code = Code::Row { index: index as u32, paths, restart: start_of(to) };
            table_arrivals[to.index()] = Some(code);
        }
        let empty = vec![RowEntry::default(); table_targets.len()];
        rows = table_sources.iter().map(|&source| (source, empty.clone())).collect();
        for (edge, to) in table_edges(cfg) {
            let from = cfg.graph.edge(edge).from;
            let row = table_sources.binary_search(&from).expect("a source of the same list");
            let entry = table_targets.binary_search(&to).expect("a target of the same list");
            rows[row].1[entry] = match placement.action(edge) {
                EdgeAction::Pass => RowEntry::default(),
                EdgeAction::Add(amount) => RowEntry { amount: amount as i32, is_end: false },
                EdgeAction::End { id_offset, .. } => RowEntry { amount: id_offset as i32, is_end: true },
            };
        }
    }
    let lost = chunk.new_cells(Cell { kind: CellKind::LostPaths, at: entry, to: 0 });
    let mut arrivals: Vec<Code> = cfg
        .graph
        .blocks()
        .map(|block| match restarts[block.index()] {
            Some(register) => Code::Start(register),
            None => Code::Lost(lost, placement.potential(block).wrapping_neg() as i32),
        })
        .collect();
    for (start, &register) in plan.starts().iter().zip(placement.start_registers()) {
        if cfg.graph.is_entry(start.block) {
            arrivals[start.block.index()] = Code::Start(register as i32);
        }
    }
    Some(Plan::paths(arrivals, table_arrivals, rows, edges))
}

/// Edges of jump tables, and where they lead.
pub(super) fn table_edges(cfg: &Cfg) -> impl Iterator<Item = (EdgeId, BlockId)> {
    let edges = cfg.graph.edge_ids().filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::JumpTable);
    edges.filter_map(|edge| Some((edge, cfg.graph.edge(edge).to?)))
}

/// Whether what is done on edges of jump tables depends only on where they lead.
fn table_edges_agree(cfg: &Cfg, actions: &[EdgeAction]) -> bool {
    let mut seen: Vec<Option<EdgeAction>> = vec![None; cfg.blocks.len()];
    table_edges(cfg).all(|(edge, to)| {
        let action = actions[edge.index()];
        seen[to.index()].replace(action).is_none_or(|before| before == action)
    })
}
