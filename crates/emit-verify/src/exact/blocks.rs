//! What must be done so that blocks are counted.
//!
//! Every block that is copied with the function has a cell, which goes up on every arrival but
//! those over edges that have cells. A conditional jump that is taken has a cell of its own if the
//! number of times does not follow from those of blocks: because it is the only way out of its
//! block, or the only way into its target, which is the function's own, no entry, and not reached
//! from other functions.

use emit::CellKind;
use flow::callgraph::FunctionId;
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::{FunctionFlow, Transfer};
use image::Svma;

use super::cells::Cells;
use super::duties::Duties;
use super::state::Done;
use crate::Fault;
use crate::module::Module;

/// What must be done so that the blocks of the function are counted.
pub(super) fn duties(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Duties, Fault> {
    let function = module.function(id);
    let cfg = &function.cfg;
    let mut duties = Duties {
        arrivals: vec![Done::NOTHING; cfg.blocks.len()],
        edges: vec![Done::NOTHING; cfg.graph.n_edges()],
        ..Duties::default()
    };
    let start = |block: BlockId| module.original(cfg.block(block).range.start).0;
    let mut counts = |kind, at, to| {
        duties.n_listed += 1;
        cells.find(kind, at, to).and_then(|cell| Done::NOTHING.count(cell)).ok_or(Fault::Cells)
    };
    for block in cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
        duties.arrivals[block.index()] = counts(CellKind::Block, start(block), 0)?;
    }
    for edge in cfg.graph.edge_ids() {
        let from = cfg.graph.edge(edge).from;
        let target = taken_to(function, edge).filter(|&target| module.is_in_reach(target));
        let Some(target) = target.filter(|_| module.is_owned(id, from)) else { continue };
        let is_only_way_out = cfg.graph.out_edges(from).count() == 1;
        if !is_only_way_out && !is_only_way_to(module, id, target) {
            let is_inner = module.owned_block_at(id, target).is_some();
            let kind = if is_inner { CellKind::InnerEdge } else { CellKind::Edge };
            duties.edges[edge.index()] = counts(kind, start(from), module.original(target).0)?;
        }
    }
    Ok(duties)
}

/// Where the edge leads if it is that of a conditional jump that is taken. Of the two ways out of a
/// block one follows from the other.
fn taken_to(function: &FunctionFlow, edge: EdgeId) -> Option<Svma> {
    let cfg = &function.cfg;
    let facts = cfg.edge_facts(edge);
    match cfg.block(cfg.graph.edge(edge).from).transfer {
        // What comes next may be another function.
        Transfer::Branch(target) if facts.kind != EdgeKind::FallThrough && facts.target == Some(target) => Some(target),
        _ => None,
    }
}

/// Whether the block at an address, if it is the function's own, is reached in one way only.
fn is_only_way_to(module: &Module<'_, '_>, id: FunctionId, target: Svma) -> bool {
    let graph = &module.function(id).cfg.graph;
    let block = module.owned_block_at(id, target).filter(|_| !module.is_reached(target));
    block.is_some_and(|block| graph.in_edges(block).len() == 1 && !graph.is_entry(block))
}
