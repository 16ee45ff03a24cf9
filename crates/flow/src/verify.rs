//! Checks that a control-flow graph says what the bytes say.
//!
//! The graph is compared with a fresh decoding of its blocks, by other means than it was built
//! with:
//!
//! * blocks lie in the function's parts, are sorted, and are as many instructions long as they
//!   claim;
//! * only the last instruction of a block ends a block, and it does what the block claims;
//! * the edges out of a block are exactly those that its last instruction allows, each to the start
//!   of the block at its target;
//! * every entry kind has its block, the primary entry first; every block is reachable; no edge
//!   occurs twice.
//!
//! A fault is a bug in this crate, whatever the input.

use std::fmt;

use iced_x86::Instruction;
use image::{Image, Svma};

use crate::cfg::{Block, Cfg, EdgeFacts, EdgeKind, EntryKind};
use crate::function::FunctionFlow;
use crate::graph::{BlockId, GraphFault};
use crate::indirect::Resolution;
use crate::transfer::Transfer;

/// A way in which a graph contradicts the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CfgFault {
    /// The shape itself is malformed.
    Shape(GraphFault),
    /// A block lies outside the function, or blocks are not in order.
    Misplaced(BlockId),
    /// Decoding the block again gives other instructions.
    Decoding(BlockId),
    /// An instruction before the last ends the block.
    EndsEarly(BlockId),
    /// The edges out of the block are not those of its last instruction.
    Edges(BlockId),
    /// An edge does not lead to the start of the block it names.
    Target(BlockId),
    /// Entries and their kinds do not match, or the first is not the function's own.
    Entries,
}

impl fmt::Display for CfgFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CfgFault::Shape(fault) => write!(f, "{fault}"),
            CfgFault::Misplaced(block) => write!(f, "{block} is outside the function or out of order"),
            CfgFault::Decoding(block) => write!(f, "{block} does not decode to what it claims"),
            CfgFault::EndsEarly(block) => write!(f, "{block} goes on after an instruction that ends it"),
            CfgFault::Edges(block) => write!(f, "the edges of {block} are not those of its last instruction"),
            CfgFault::Target(block) => write!(f, "an edge of {block} leads to another place than it names"),
            CfgFault::Entries => write!(f, "entries and their kinds do not match"),
        }
    }
}

impl std::error::Error for CfgFault {}

/// Verifies the graph of a function.
///
/// # Errors
/// The first fault found.
pub fn verify_cfg(image: &Image<'_>, function: &FunctionFlow) -> Result<(), CfgFault> {
    let cfg = &function.cfg;
    cfg.graph.check().map_err(CfgFault::Shape)?;
    verify_entries(function)?;
    let is_sorted = |window: &[Block]| window[0].range.start < window[1].range.start;
    if let Some(index) = cfg.blocks.windows(2).position(|window| !is_sorted(window)) {
        return Err(CfgFault::Misplaced(BlockId(index as u32)));
    }
    for id in cfg.graph.blocks() {
        let block = cfg.block(id);
        if !function.contains(block.range.start) || !function.contains(block.last()) {
            return Err(CfgFault::Misplaced(id));
        }
        verify_instructions(image, cfg, id)?;
        verify_edges(function, id)?;
    }
    Ok(())
}

fn verify_entries(function: &FunctionFlow) -> Result<(), CfgFault> {
    let cfg = &function.cfg;
    let entries = cfg.graph.entries();
    let first = entries.first().map(|&block| cfg.block(block).range.start);
    let is_primary = |(index, kind): (usize, &EntryKind)| (*kind == EntryKind::Primary) == (index == 0);
    let is_right = entries.len() == cfg.entry_kinds.len()
        && (entries.is_empty() || first == Some(function.entry))
        && cfg.entry_kinds.iter().enumerate().all(is_primary);
    if is_right { Ok(()) } else { Err(CfgFault::Entries) }
}

fn verify_instructions(image: &Image<'_>, cfg: &Cfg, id: BlockId) -> Result<(), CfgFault> {
    let block = cfg.block(id);
    let insns: Vec<Instruction> = cfg.instructions(image, id).collect();
    let Some((last, rest)) = insns.split_last() else { return Err(CfgFault::Decoding(id)) };
    if rest.iter().any(|insn| Transfer::of(insn).ends_block()) {
        return Err(CfgFault::EndsEarly(id));
    }
    let is_as_claimed = insns.len() == block.n_insns as usize
        && Svma(last.next_ip()) == block.range.end
        && Svma(last.ip()) == block.last()
        && Transfer::of(last) == block.transfer;
    if is_as_claimed { Ok(()) } else { Err(CfgFault::Decoding(id)) }
}

fn verify_edges(function: &FunctionFlow, id: BlockId) -> Result<(), CfgFault> {
    let cfg = &function.cfg;
    let block = cfg.block(id);
    let edges: Vec<(Option<BlockId>, EdgeFacts)> =
        cfg.graph.out_edges(id).map(|edge| (cfg.graph.edge(edge).to, cfg.edge_facts(edge))).collect();
    for &(to, facts) in &edges {
        match (to, facts.target) {
            (Some(to), target) if target != Some(cfg.block(to).range.start) => return Err(CfgFault::Target(id)),
            (None, Some(target)) if cfg.block_at(target).is_some() && facts.kind != EdgeKind::TailCall => {
                return Err(CfgFault::Target(id));
            }
            _ => {}
        }
    }
    let stays = |kind: EdgeKind, target: Svma| {
        edges.iter().any(|&(to, facts)| to.is_some() && facts.kind == kind && facts.target == Some(target))
    };
    let leaves = |kinds: &[EdgeKind]| edges.iter().any(|&(to, facts)| to.is_none() && kinds.contains(&facts.kind));
    // Where nothing could be decoded at the target, the edge is a trap.
    let flows = |kind, target| stays(kind, target) || leaves(&[EdgeKind::Trap]);
    let goes = |kind, target| flows(kind, target) || leaves(&[EdgeKind::TailCall, EdgeKind::Unresolved]);
    let next = block.range.end;
    let is_right = match block.transfer {
        Transfer::Next => edges.len() == 1 && goes(EdgeKind::FallThrough, next),
        Transfer::Jump(target) => edges.len() == 1 && goes(EdgeKind::Taken, target),
        Transfer::Branch(target) if target == next => edges.len() == 1 && goes(EdgeKind::Taken, target),
        Transfer::Branch(target) => {
            edges.len() == 2 && goes(EdgeKind::FallThrough, next) && goes(EdgeKind::Taken, target)
        }
        Transfer::Call(_) | Transfer::IndirectCall => edges.len() == 1 && flows(EdgeKind::Call, next),
        Transfer::Return => edges.len() == 1 && leaves(&[EdgeKind::Return]),
        Transfer::Trap => edges.len() == 1 && leaves(&[EdgeKind::Trap]),
        Transfer::IndirectJump => has_resolved_edges(function, block.last(), &edges),
    };
    if is_right { Ok(()) } else { Err(CfgFault::Edges(id)) }
}

fn has_resolved_edges(function: &FunctionFlow, at: Svma, edges: &[(Option<BlockId>, EdgeFacts)]) -> bool {
    let Ok(index) = function.indirect_jumps.binary_search_by_key(&at, |jump| jump.at) else { return false };
    let single = |kinds: &[EdgeKind]| matches!(edges, [(None, facts)] if kinds.contains(&facts.kind));
    match &function.indirect_jumps[index].resolution {
        Resolution::Table(table) => {
            let targets =
                edges.iter().filter(|(_, facts)| facts.kind == EdgeKind::JumpTable).map(|(_, facts)| facts.target);
            targets.eq(table.targets.iter().map(|&target| Some(target))) && edges.len() == table.targets.len()
        }
        Resolution::TailCall { .. } => single(&[EdgeKind::TailCall, EdgeKind::Trap]),
        Resolution::Unresolved(_) => single(&[EdgeKind::Unresolved, EdgeKind::Trap]),
    }
}
