//! The blocks, edges, paths and calls of one module, as rows of the profile.

use std::collections::BTreeMap;

use super::{CallKey, CodePlace, Counted, CountedPath, PathKey, nesting};
use crate::code::{CodeBlock, ModuleCode};
use crate::estimate::Estimate;
use crate::model::{Block, BlockEnd, BlockId, Call, Edge, EdgeKind, FunctionId, Path, PathId, Profile};

/// The rows of one module.
pub(super) struct ModuleRows<'a> {
    pub counted: &'a Counted,
    /// Directions of branches that were never taken included.
    pub edges: BTreeMap<(u32, u32), u64>,
    /// By index of the block: its row, if it has one.
    ids: Vec<Option<BlockId>>,
}

impl<'a> ModuleRows<'a> {
    /// Blocks are numbered from `n_blocks` on.
    pub fn new(counted: &'a Counted, n_blocks: &mut u32) -> ModuleRows<'a> {
        let mut edges: BTreeMap<(u32, u32), u64> = counted.edges.iter().map(|(&edge, &n)| (edge, n)).collect();
        for ((from, block), _) in (0..).zip(&counted.code.blocks).zip(&counted.blocks).filter(|&(_, &n)| n != 0) {
            edges.extend(directions(&counted.code, block).map(|to| ((from, to), counted.edge(from, to))));
        }
        let ends = edges.keys().flat_map(|&(from, to)| [from, to]);
        let mut with_rows: Vec<u32> = ends.chain(counted.calls.keys().map(|call| call.site)).collect();
        with_rows.extend((0..).zip(&counted.blocks).filter(|&(_, &n)| n != 0).map(|(block, _)| block));
        let around = with_rows.iter().flat_map(|&block| nesting::around(&counted.code, block));
        let headers: Vec<u32> = around.map(|(_, header)| header).collect();
        let mut ids = vec![None; counted.code.blocks.len()];
        for block in with_rows.into_iter().chain(headers) {
            if let Some(id) = ids.get_mut(block as usize) {
                *id = Some(BlockId(0));
            }
        }
        for id in ids.iter_mut().flatten() {
            *id = BlockId(*n_blocks);
            *n_blocks += 1;
        }
        ModuleRows { counted, edges, ids }
    }

    /// Blocks with a row, with their indices.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &'a CodeBlock)> {
        let blocks = (0..).zip(&self.counted.code.blocks).zip(&self.ids);
        blocks.filter(|(_, id)| id.is_some()).map(|(block, _)| block)
    }

    pub fn id(&self, block: u32) -> Option<BlockId> {
        self.ids.get(block as usize).copied().flatten()
    }

    pub fn fill_blocks(&self, function_of: impl Fn(u32) -> Option<FunctionId>, profile: &mut Profile) {
        for (index, block) in self.blocks() {
            let Some(function) = function_of(block.function) else { continue };
            let &CodeBlock { address, size, last, n_insns, end, .. } = block;
            let count = Estimate::exact(self.counted.count(index));
            let self_ns = Estimate::default();
            profile.blocks.push(Block { function, address, size, last, n_insns, end, count, self_ns });
        }
    }

    pub fn fill_edges(&self, profile: &mut Profile) {
        let code = &self.counted.code;
        let rows = self.edges.iter().filter_map(|(&(from, to), &n)| {
            let ends_paths = self.counted.back_edges.contains(&(from, to)) && !nesting::enters(code, from, to);
            let is_back = code.is_cut(from, to) || ends_paths;
            let kind = edge_kind(code, from, to)?;
            Some(Edge { from: self.id(from)?, to: self.id(to)?, kind, is_back, count: Estimate::exact(n) })
        });
        profile.edges.extend(rows);
    }

    /// `name` gets the row of each path.
    pub fn fill_paths(&self, profile: &mut Profile, mut name: impl FnMut(u32, PathId)) {
        let mut paths: Vec<(&PathKey, CountedPath)> =
            self.counted.paths.iter().map(|(key, &path)| (key, path)).collect();
        paths.retain(|(_, path)| path.n != 0);
        paths.sort_unstable_by_key(|&(key, _)| key);
        let mut next = profile.paths.len() as u32;
        let rows = paths.into_iter().filter_map(|(PathKey { blocks, back_to }, CountedPath { number, n })| {
            let blocks: Vec<BlockId> = blocks.iter().filter_map(|&block| self.id(block)).collect();
            let of_path = || blocks.iter().filter_map(|block| profile.blocks.get(block.index()));
            let is_branch = |block: &&Block| matches!(block.end, BlockEnd::Branch | BlockEnd::IndirectJump);
            let (function, n_branches) = (of_path().next()?.function, of_path().filter(is_branch).count() as u32);
            let back_to = back_to.and_then(|block| self.id(block));
            let ns = self.counted.path_ns.get(&number).copied().unwrap_or(0.0);
            let squares = self.counted.path_squares.get(&number).copied().unwrap_or(0.0);
            let (count, self_ns) = (Estimate { variance: squares, ..Estimate::exact(n) }, Estimate::measured(ns));
            let misses = self.counted.path_misses.get(&number).copied().unwrap_or(0);
            name(number, PathId(next));
            next += 1;
            Some(Path { function, blocks, back_to, n_branches, count, self_ns, misses })
        });
        let rows: Vec<Path> = rows.collect();
        profile.paths.extend(rows);
    }

    pub fn fill_calls(&self, function: impl Fn(CodePlace) -> Option<FunctionId>, profile: &mut Profile) {
        let mut calls: Vec<(CallKey, u64)> = self.counted.calls.iter().map(|(&call, &n)| (call, n)).collect();
        calls.sort_unstable();
        let rows = calls.into_iter().filter_map(|(CallKey { site, callee, is_tail }, n)| {
            Some(Call { site: self.id(site)?, callee: function(callee)?, is_tail, count: Estimate::exact(n) })
        });
        profile.calls.extend(rows);
    }
}

/// Where a conditional branch leads inside its function.
fn directions<'a>(code: &'a ModuleCode, block: &'a CodeBlock) -> impl Iterator<Item = u32> + 'a {
    let is_branch = block.end == BlockEnd::Branch;
    let addresses = [block.target, block.end_address()].into_iter().filter(move |_| is_branch);
    let is_beside = |&to: &u32| code.blocks.get(to as usize).is_some_and(|to| to.function == block.function);
    addresses.filter_map(|address| code.block_at(address)).filter(is_beside)
}

/// How control gets from one block to another: what the end of the first allows.
fn edge_kind(code: &ModuleCode, from: u32, to: u32) -> Option<EdgeKind> {
    let (from, to) = (code.blocks.get(from as usize)?, code.blocks.get(to as usize)?);
    Some(match from.end {
        BlockEnd::Next => EdgeKind::FallThrough,
        BlockEnd::Branch if from.end_address() == to.address => EdgeKind::FallThrough,
        BlockEnd::Branch | BlockEnd::Jump => EdgeKind::Taken,
        BlockEnd::IndirectJump => EdgeKind::Table,
        BlockEnd::Call | BlockEnd::IndirectCall => EdgeKind::PastCall,
        BlockEnd::Return | BlockEnd::Trap => EdgeKind::NonLocal,
    })
}
