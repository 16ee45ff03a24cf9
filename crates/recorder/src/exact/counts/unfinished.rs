//! Which blocks functions had come to when their threads ended.
//!
//! A path is in its function's register from the block on that it has come to, up to the block's
//! last instruction. A call leaves the register in its frame if control comes back to the function
//! behind it; one that is not expected to return has ended its path.

use flow::cfg::EdgeKind;
use flow::graph::BlockId;
use image::Svma;

use super::{Module, Unfinished};

/// Where an active function was when its thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The instruction that it was at, or the return address of the call that it was in.
    pub at: Svma,
    /// Its path register.
    pub register: i32,
    pub is_behind_call: bool,
}

/// The paths that functions were on.
pub fn unfinished(module: &Module<'_>, stops: &[Stop]) -> Vec<Unfinished> {
    stops.iter().filter_map(|stop| path_at(module, stop)).collect()
}

fn path_at(module: &Module<'_>, stop: &Stop) -> Option<Unfinished> {
    let inside = if stop.is_behind_call { stop.at.offset_signed(-1) } else { stop.at };
    let id = module.flow.function_containing(inside)?;
    let function = &module.flow.functions[id.index()];
    let cfg = &function.cfg;
    let index = cfg.blocks.partition_point(|block| block.range.start <= inside).checked_sub(1)?;
    let block = BlockId(index as u32);
    cfg.block(block).range.contains(inside).then_some(())?;
    let is_own = |block: BlockId| module.flow.function_containing(cfg.block(block).range.start) == Some(id);
    let is_call = cfg.block(block).range.end == stop.at
        && cfg
            .graph
            .out_edges(block)
            .any(|edge| cfg.edge_facts(edge).kind == EdgeKind::Call && cfg.graph.edge(edge).to.is_some_and(is_own));
    if stop.is_behind_call && !is_call {
        return None;
    }
    let offset = |at: Svma| u32::try_from(at.0.checked_sub(module.base.0)?).ok();
    Some(Unfinished {
        function: offset(function.entry)?,
        at: offset(cfg.block(block).range.start)?,
        register: stop.register,
    })
}
