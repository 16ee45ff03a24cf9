//! What the translation of one function must know about the others: which of them have copies, and
//! which blocks others can reach.
//!
//! Functions can share code: two of them may have the same range as a part. Each block then belongs
//! to one of them, the one that [`ModuleFlow::function_containing`] names, and only that one copies
//! it; for the others it is a block of another function.

use flow::callgraph::FunctionId;
use flow::graph::BlockId;
use flow::liveness::{LiveSet, Liveness};
use flow::{Executor, FunctionFlow, ModuleFlow, Transfer};
use image::{Image, Svma, SvmaRange};
use rustc_hash::FxHashSet;

use crate::chunk::{Original, REACH};
use crate::events::{Events, Selection};
use crate::statistics::SkipReason;
use crate::{Options, image_base};

/// Everything about a module that its functions share.
#[derive(Debug)]
pub(crate) struct Module<'a, 'data> {
    pub image: &'a Image<'data>,
    pub flow: &'a ModuleFlow,
    pub options: Options,
    /// Places that note events; `None`: all.
    selection: Option<&'a Selection>,
    pub base: Svma,
    /// Bytes from the base to the end of the last segment.
    len: u64,
    skips: Vec<Option<SkipReason>>,
    /// By function: whether a part of another one overlaps one of its own.
    shares: Vec<bool>,
    /// Addresses that are called, or that another function jumps to.
    reached: FxHashSet<Svma>,
    /// Whether flags may be alive where control arrives by a computed address.
    pub passes_flags_unseen: bool,
    /// By function: what is alive, by the conventions of the whole module. Only for copies that are
    /// never left: whoever they are entered from keeps to these.
    known_needs: Option<Vec<Liveness>>,
}

/// How far before and behind an image its code may name addresses: tables can be addressed by an
/// element that they do not have.
const SLACK: u64 = 1 << 20;

/// Bytes of an entry of `__rseq_cs`, and where the start of the sequence is in it.
const SEQUENCE_BYTES: usize = 32;
const SEQUENCE_START: u64 = 8;

impl<'a, 'data> Module<'a, 'data> {
    pub fn new(
        image: &'a Image<'data>,
        flow: &'a ModuleFlow,
        options: Options,
        selection: Option<&'a Selection>,
        executor: &impl Executor,
    ) -> Module<'a, 'data> {
        let base = image_base(image);
        let sequences = restartable_sequences(image);
        let skips: Vec<Option<SkipReason>> =
            flow.functions.iter().map(|function| skip_reason(image, base, &sequences, function)).collect();
        let len = image.segments().last().map_or(0, |segment| segment.range.end - base);
        let shares = flow.shares_code();
        let mut module = Module {
            image,
            flow,
            options,
            selection,
            base,
            len,
            skips,
            shares,
            reached: FxHashSet::default(),
            passes_flags_unseen: flow.functions.iter().any(expects_flags),
            known_needs: options.probe.stays().then(|| flow::registers::known_needs(image, flow, executor)),
        };
        module.reached = module.copied().flat_map(|id| module.reached_by(id)).collect();
        module
    }

    /// What is noted about an instruction.
    pub fn events_at(&self, at: Original) -> Events {
        self.selection.map_or(self.options.events, |selection| selection.at(at))
    }

    pub fn ids(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.skips.len() as u32).map(FunctionId)
    }

    /// The functions that have copies.
    fn copied(&self) -> impl Iterator<Item = FunctionId> {
        self.ids().filter(|&id| self.skip_reason(id).is_none())
    }

    pub fn function(&self, id: FunctionId) -> &'a FunctionFlow {
        &self.flow.functions[id.index()]
    }

    /// What is alive in a function.
    pub fn liveness(&self, id: FunctionId) -> &Liveness {
        self.known_needs.as_ref().map_or(&self.function(id).liveness, |known| &known[id.index()])
    }

    pub fn skip_reason(&self, id: FunctionId) -> Option<SkipReason> {
        self.skips[id.index()]
    }

    /// Whether the function is a stub of the linkage table.
    pub fn is_stub(&self, id: FunctionId) -> bool {
        let entry = self.function(id).entry;
        self.image.plt_stubs().binary_search_by_key(&entry, |stub| stub.range.start).is_ok()
    }

    /// Whether the block, which is in the function's graph, is copied with that function.
    pub fn is_owned(&self, id: FunctionId, block: BlockId) -> bool {
        !self.shares[id.index()]
            || self.flow.function_containing(self.function(id).cfg.block(block).range.start) == Some(id)
    }

    /// The block at an address that is copied with the function.
    pub fn owned_block_at(&self, id: FunctionId, at: Svma) -> Option<BlockId> {
        self.function(id).cfg.block_at(at).filter(|&block| self.is_owned(id, block))
    }

    /// Whether other functions call or jump to the block at this address.
    pub fn is_reached(&self, at: Svma) -> bool {
        self.reached.contains(&at)
    }

    /// Whether a block with a copy starts at this address.
    pub fn has_leader(&self, at: Svma) -> bool {
        self.flow.function_containing(at).is_some_and(|id| {
            self.skips[id.index()].is_none() && self.flow.functions[id.index()].cfg.block_at(at).is_some()
        })
    }

    /// Addresses that a function calls, or goes to outside what is copied with it.
    fn reached_by(&self, id: FunctionId) -> impl Iterator<Item = Svma> {
        let cfg = &self.function(id).cfg;
        let called = cfg.blocks.iter().filter_map(|block| match block.transfer {
            Transfer::Call(target) => Some(target),
            _ => None,
        });
        let outside = cfg.graph.edges().iter().zip(&cfg.edges).filter_map(move |(edge, facts)| match edge.to {
            Some(to) if self.is_owned(id, to) => None,
            Some(to) => Some(cfg.block(to).range.start),
            None => facts.target,
        });
        called.chain(outside)
    }

    /// Whether the address is in the image, or not far behind it, and can be expressed as an
    /// [`Original`]. Bytes that are no code name any address; to leave them to the original lets
    /// the copy be placed wherever it reaches the image.
    pub fn is_in_reach(&self, at: Svma) -> bool {
        at - self.base < REACH.min(self.len.saturating_add(SLACK))
    }

    /// The address as an offset from the image base; it must be in reach.
    pub fn original(&self, at: Svma) -> Original {
        Original((at - self.base) as u32)
    }

    /// The same for any address that an instruction names, which may also be a little before the
    /// image or behind it.
    pub fn distance(&self, at: Svma) -> Option<i64> {
        let from_slack = at.offset(SLACK) - self.base;
        (from_slack < REACH.min(self.len.saturating_add(2 * SLACK))).then_some((at - self.base) as i64)
    }
}

/// Whether a function expects flags where control arrives in a way that the analysis of flag
/// conventions does not see: by a computed address, or from a computed call.
fn expects_flags(function: &FunctionFlow) -> bool {
    let cfg = &function.cfg;
    let has_flags = |block: BlockId| !(function.liveness.live_in(block) & LiveSet::ARITHMETIC_FLAGS).is_empty();
    let returns = cfg.graph.edges().iter().filter_map(|edge| {
        let is_computed = cfg.block(edge.from).transfer == Transfer::IndirectCall;
        edge.to.filter(|_| is_computed)
    });
    let unreached = cfg.graph.blocks().filter(|&block| cfg.graph.in_edges(block).is_empty());
    cfg.graph.entries().iter().copied().chain(returns).chain(unreached).any(has_flags)
}

/// First addresses of sequences that the kernel restarts.
fn restartable_sequences(image: &Image<'_>) -> Vec<Svma> {
    let sections = image.sections().iter().filter(|section| section.name == "__rseq_cs");
    let starts = sections.flat_map(|section| {
        let fields = (section.range.start.0..section.range.end.0).step_by(SEQUENCE_BYTES);
        fields.filter_map(|at| image.pointer_at(Svma(at.wrapping_add(SEQUENCE_START))))
    });
    starts.collect()
}

fn skip_reason(image: &Image<'_>, base: Svma, sequences: &[Svma], function: &FunctionFlow) -> Option<SkipReason> {
    if sequences.iter().any(|&start| function.contains(start)) {
        return Some(SkipReason::RestartableSequence);
    }
    let blocks = &function.cfg.blocks;
    if blocks.iter().any(|block| block.range.start < base || block.range.end - base >= REACH) {
        return Some(SkipReason::OutOfRange);
    }
    let is_readable = |range: SvmaRange| image.read(range.start, range.len() as usize).is_some();
    if !blocks.iter().all(|block| is_readable(block.range)) {
        return Some(SkipReason::Unreadable);
    }
    None
}
