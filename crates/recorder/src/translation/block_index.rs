//! The blocks of a module by address, for those who go from addresses to control flow.

use std::sync::Arc;

use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow, Transfer};
use image::Svma;
use rustc_hash::FxHashMap;

/// The blocks of a module by address.
#[derive(Debug)]
pub struct BlockIndex {
    flow: Arc<ModuleFlow>,
    /// By first address: function and block. Functions that share code have several.
    pub(crate) starts: FxHashMap<Svma, Vec<(u32, BlockId)>>,
    /// Addresses behind calls.
    pub(crate) return_sites: FxHashMap<Svma, ()>,
}

impl BlockIndex {
    /// Returns the control flow that it was made from.
    pub fn flow(&self) -> &ModuleFlow {
        &self.flow
    }

    /// Indexes the control flow of a module.
    pub fn new(flow: Arc<ModuleFlow>) -> BlockIndex {
        let mut starts: FxHashMap<Svma, Vec<(u32, BlockId)>> = FxHashMap::default();
        let mut return_sites = FxHashMap::default();
        for (index, function) in flow.functions.iter().enumerate() {
            for (id, block) in function.cfg.blocks.iter().enumerate() {
                starts.entry(block.range.start).or_default().push((index as u32, BlockId(id as u32)));
                if matches!(block.transfer, Transfer::Call(_) | Transfer::IndirectCall) {
                    return_sites.insert(block.range.end, ());
                }
            }
        }
        BlockIndex { flow, starts, return_sites }
    }

    /// Returns the functions and blocks that start at an address.
    pub(crate) fn at(&self, start: Svma) -> impl Iterator<Item = (&FunctionFlow, BlockId)> {
        let found = self.starts.get(&start).map_or(&[][..], Vec::as_slice);
        found.iter().map(|&(function, block)| (&self.flow.functions[function as usize], block))
    }

    /// Returns the block that an address is in.
    pub(crate) fn containing(&self, at: Svma) -> Option<(&FunctionFlow, BlockId)> {
        let function = self.flow.function_at(at)?;
        let blocks = &function.cfg.blocks;
        let mut candidates =
            blocks.iter().enumerate().filter(|(_, block)| block.range.start <= at && at < block.range.end);
        candidates.next().map(|(id, _)| (function, BlockId(id as u32)))
    }
}
