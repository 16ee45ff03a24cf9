//! The module whose copy is verified: which of its functions can have copies, who owns shared code,
//! and what its program needs where.
//!
//! All of it is decided here anew. Of `flow` it takes functions, blocks and edges.

use emit::{Options, Original};
use flow::callgraph::FunctionId;
use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow, Transfer};
use image::{Image, Svma};
use rustc_hash::FxHashSet;
use wire::sample::RECORD_ADDRESS_BITS;

use super::SAMPLE;
use super::liveness::Liveness;

/// A module, and what the verifier knows about it.
#[derive(Debug)]
pub(super) struct Module<'a, 'data> {
    pub image: &'a Image<'data>,
    pub flow: &'a ModuleFlow,
    /// What the copy is for.
    pub options: Options,
    /// What addresses in the copy are relative to.
    pub base: Svma,
    /// Bytes from the base to the end of the image.
    len: u64,
    pub liveness: Liveness,
    /// By function: whether it must have a copy.
    is_copied: Vec<bool>,
    /// By function: whether it shares code with others.
    shares: Vec<bool>,
    /// Addresses that are called, or jumped to from elsewhere than the function that owns them.
    reached: FxHashSet<Svma>,
    /// Whether flags may be live where control arrives in ways that do not show.
    pub passes_flags_unseen: bool,
}

/// Copies and originals are this far from the image base at most, so that distances fit in
/// displacements.
pub(super) const REACH: u64 = 1 << 30;
/// Code may name addresses that are so far outside the image.
const SLACK: u64 = 1 << 20;
/// Bytes of an entry of `__rseq_cs`, and where it has the start of its sequence.
const RSEQ_BYTES: usize = 32;
const RSEQ_START: u64 = 8;

impl<'a, 'data> Module<'a, 'data> {
    pub fn new(image: &'a Image<'data>, flow: &'a ModuleFlow, options: Options) -> Module<'a, 'data> {
        let lowest = image.segments().iter().map(|segment| segment.range.start.0).min().unwrap_or_default();
        let end = image.segments().iter().map(|segment| segment.range.end).max();
        let base = Svma(lowest / wire::PAGE * wire::PAGE);
        let mut module = Module {
            image,
            flow,
            options,
            base,
            len: end.map_or(0, |end| end - base),
            liveness: Liveness::new(image, flow, options.probe.stays()),
            is_copied: Vec::new(),
            shares: flow.shares_code(),
            reached: FxHashSet::default(),
            passes_flags_unseen: false,
        };
        let sequences = restartable_sequences(image);
        module.is_copied = flow.functions.iter().map(|function| module.can_copy(function, &sequences)).collect();
        for id in module.copied() {
            module.note_reached(id);
        }
        module.passes_flags_unseen = module.all().any(|id| module.expects_flags_unseen(id));
        module
    }

    fn can_copy(&self, function: &FunctionFlow, sequences: &[Svma]) -> bool {
        let is_near = |at: Svma| at >= self.base && at - self.base < REACH;
        let can_copy = |block: &flow::cfg::Block| {
            let bytes = self.image.read(block.range.start, block.range.len() as usize);
            is_near(block.range.start) && block.range.end - self.base < REACH && bytes.is_some()
        };
        // The kernel knows restartable sequences by their addresses.
        let restarts = sequences.iter().any(|&start| function.contains(start));
        !restarts && function.cfg.blocks.iter().all(can_copy)
    }

    /// Notes what a function calls, and what it goes to that is not copied with it.
    fn note_reached(&mut self, id: FunctionId) {
        let cfg = &self.function(id).cfg;
        for block in &cfg.blocks {
            if let Transfer::Call(target) = block.transfer {
                self.reached.insert(target);
            }
        }
        for (edge, facts) in cfg.graph.edges().iter().zip(&cfg.edges) {
            let target = match edge.to {
                Some(to) => Some(cfg.block(to).range.start).filter(|_| !self.is_owned(id, to)),
                None => facts.target,
            };
            self.reached.extend(target);
        }
    }

    /// Whether a function expects flags at an entry, behind a computed call, or at a block that
    /// nothing known leads to.
    fn expects_flags_unseen(&self, id: FunctionId) -> bool {
        let cfg = &self.function(id).cfg;
        let is_behind_computed_call = |block: BlockId| {
            let mut callers = cfg.graph.predecessors(block);
            callers.any(|caller| cfg.block(caller).transfer == Transfer::IndirectCall)
        };
        let is_unseen = |block: BlockId| {
            cfg.graph.is_entry(block) || cfg.graph.in_edges(block).is_empty() || is_behind_computed_call(block)
        };
        cfg.graph.blocks().any(|block| self.liveness.at_start(id, block).has_flags() && is_unseen(block))
    }

    fn all(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.flow.functions.len() as u32).map(FunctionId)
    }

    /// Returns the functions that must have copies.
    pub fn copied(&self) -> Vec<FunctionId> {
        self.all().filter(|id| self.is_copied[id.index()]).collect()
    }

    pub fn function(&self, id: FunctionId) -> &'a FunctionFlow {
        &self.flow.functions[id.index()]
    }

    /// Whether the function is a stub of the linkage table.
    pub fn is_stub(&self, id: FunctionId) -> bool {
        let entry = self.function(id).entry;
        self.image.plt_stubs().binary_search_by_key(&entry, |stub| stub.range.start).is_ok()
    }

    /// Whether a block of the function's graph is copied with it, not with another function that
    /// has the same code.
    pub fn is_owned(&self, id: FunctionId, block: BlockId) -> bool {
        let owner = || self.flow.function_containing(self.function(id).cfg.block(block).range.start);
        !self.shares[id.index()] || owner() == Some(id)
    }

    /// Returns the block at an address that is copied with the function.
    pub fn owned_block_at(&self, id: FunctionId, at: Svma) -> Option<BlockId> {
        self.function(id).cfg.block_at(at).filter(|&block| self.is_owned(id, block))
    }

    /// Whether other functions call or jump to the block at this address.
    pub fn is_reached(&self, at: Svma) -> bool {
        self.reached.contains(&at)
    }

    /// Whether a block with a copy starts at this address.
    pub fn has_leader(&self, at: Svma) -> bool {
        let owner = self.flow.function_containing(at).filter(|id| self.is_copied[id.index()]);
        owner.is_some_and(|id| self.function(id).cfg.block_at(at).is_some())
    }

    /// Whether a copy can name the address as one of the original.
    pub fn is_in_reach(&self, at: Svma) -> bool {
        at >= self.base && at - self.base < REACH.min(self.len.saturating_add(SLACK))
    }

    /// Returns the distance from the base of an address that is in reach.
    pub fn original(&self, at: Svma) -> Original {
        Original((at - self.base) as u32)
    }

    /// The record of a block, or the site of an instruction.
    pub fn record(&self, block: Original) -> u32 {
        let offset = SAMPLE.module_base - SAMPLE.cluster_lo + u64::from(block.0);
        (self.options.cluster as u32) << RECORD_ADDRESS_BITS | offset as u32
    }

    /// Whether an instruction of the copy can have this address as an operand: in the image, or not
    /// far from it on either side.
    pub fn is_nameable(&self, at: Svma) -> bool {
        let from_slack = at.0.wrapping_add(SLACK).wrapping_sub(self.base.0);
        from_slack < REACH.min(self.len.saturating_add(2 * SLACK))
    }
}

fn restartable_sequences(image: &Image<'_>) -> Vec<Svma> {
    let mut starts = Vec::new();
    for section in image.sections().iter().filter(|section| section.name == "__rseq_cs") {
        let entries = (section.range.start.0..section.range.end.0).step_by(RSEQ_BYTES);
        starts.extend(entries.filter_map(|at| image.pointer_at(Svma(at.wrapping_add(RSEQ_START)))));
    }
    starts
}
