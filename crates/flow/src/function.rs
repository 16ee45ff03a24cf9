//! The analysis of one function, given what the whole module has shown so far.
//!
//! Exploring and resolving jump tables alternate until nothing new is found: each table opens code
//! that may contain the next one. Then the bytes that no flow reached are decoded too, and their
//! indirect jumps get the same treatment.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Instruction, OpKind};
use image::{Image, Sources, Svma, SvmaRange};
use rustc_hash::FxHashMap;

use crate::cfg::{self, Block, Cfg, EdgeKind, EntryKind, IndirectEdges, Surroundings};
use crate::clobbers;
use crate::graph::BlockId;
use crate::grouping::Groups;
use crate::indirect::{IndirectJump, JumpTable, Reason, Resolution};
use crate::listing::Listing;
use crate::liveness::{Effect, Effects, FlagConventions, Liveness};
use crate::loops::Loops;
use crate::noreturn;
use crate::noreturn_names::{calls_noreturn_import, constant_slot};
use crate::order::Order;
use crate::paths::estimate_weights;
use crate::pieces::{PieceId, Pieces};
use crate::scout::landing_pads;
use crate::stack::StackHeights;
use crate::tables::{Interpretation, Surface};
use crate::transfer::Transfer;

/// A function with its control flow.
#[derive(Clone, Debug)]
pub struct FunctionFlow {
    /// Where it starts.
    pub entry: Svma,
    /// The ranges that hold its code; the first holds the entry.
    pub parts: Vec<SvmaRange>,
    /// Who states that a function starts here; empty if only the code shows it.
    pub sources: Sources,
    /// Whether a direct call leads here.
    pub called: bool,
    /// Whether its address is stored or computed somewhere.
    pub address_taken: bool,
    /// Blocks and edges.
    pub cfg: Cfg,
    /// Its loops.
    pub loops: Loops,
    /// Registers and flags that are needed at the start of each block.
    pub liveness: Liveness,
    /// Its calls, by address.
    pub calls: Vec<CallSite>,
    /// Its indirect jumps, by address.
    pub indirect_jumps: Vec<IndirectJump>,
    /// Whether it can return.
    pub returns: bool,
    /// Number of instructions decoded.
    pub n_insns: u32,
    /// Bytes between instructions that are padding.
    pub padding_bytes: u64,
    /// Bytes that are neither instructions nor padding: tables in the text, or code that does not
    /// decode.
    pub data_bytes: u64,
    /// How often each edge ran, if somebody has seen that; analysis leaves it open.
    pub observed: Option<Vec<u64>>,
}

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Address of the instruction.
    pub at: Svma,
    /// The callee.
    pub callee: Callee,
}

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The code at this address.
    Direct(Svma),
    /// Whatever the pointer at this constant address points to, for example a function of another
    /// module.
    Slot(Svma),
    /// Whatever a computed pointer points to.
    Computed,
}

impl FunctionFlow {
    /// Whether every indirect jump is resolved, so that the graph is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.indirect_jumps.iter().all(IndirectJump::is_resolved)
    }

    /// Whether `at` lies in one of the parts.
    #[must_use]
    pub fn contains(&self, at: Svma) -> bool {
        self.parts.iter().any(|part| part.contains(at))
    }

    /// Weights of edges for numbering paths: how often they ran if that was seen, else an estimate.
    #[must_use]
    pub fn path_weights(&self) -> Vec<u64> {
        let observed = self.observed.as_ref().filter(|observed| observed.len() == self.cfg.graph.n_edges());
        observed.cloned().unwrap_or_else(|| estimate_weights(&self.cfg.graph, &self.loops))
    }
}

/// What the module has shown so far.
#[derive(Debug)]
pub(crate) struct Knowledge<'a, 'data> {
    pub image: &'a Image<'data>,
    pub pieces: &'a Pieces,
    pub groups: &'a Groups,
    /// By piece: whether its function returns.
    pub returns: &'a [bool],
}

/// Functions with more blocks are not interpreted again just because callees may keep more
/// registers than they must.
const MAX_BLOCKS_TO_LOOK_CLOSER: usize = 4096;
/// Rounds of resolving jumps and exploring what they lead to. Nested switches need one for each
/// level.
const MAX_ROUNDS: u32 = 16;

/// The outcome of analysing one function.
#[derive(Debug)]
pub(crate) struct Analyzed {
    pub flow: FunctionFlow,
    /// Pieces that its jump tables lead to: they belong to it.
    pub absorbs: Vec<PieceId>,
}

pub(crate) fn analyze(knowledge: &Knowledge<'_, '_>, parts: &[PieceId]) -> Analyzed {
    let mut work = Work::new(knowledge, parts);
    work.listing.explore(work.entries.iter().map(|&(at, _)| at), &|call| knowledge.returns(call));
    let mut cfg = work.resolve_jumps();
    let tables: Vec<SvmaRange> = work.tables().flat_map(|table| &table.data).copied().collect();
    if work.listing.fill_gaps(&tables, &|call| knowledge.returns(call)) {
        cfg = if work.has_indirect_jump_in_gap() {
            work.resolve_jumps()
        } else {
            cfg::build(&work.listing, &work.entries, &work)
        };
    }
    work.finish(cfg)
}

struct Work<'a, 'data> {
    knowledge: &'a Knowledge<'a, 'data>,
    parts: &'a [PieceId],
    entries: Vec<(Svma, EntryKind)>,
    /// Calls and the landing pads of exceptions thrown in them.
    call_sites: Vec<image::CallSite>,
    listing: Listing<'data>,
    jumps: BTreeMap<Svma, Resolution>,
    heights: OnceCell<StackHeights>,
    named_data: OnceCell<BTreeSet<Svma>>,
}

impl<'a, 'data> Work<'a, 'data> {
    fn new(knowledge: &'a Knowledge<'a, 'data>, parts: &'a [PieceId]) -> Work<'a, 'data> {
        let Knowledge { image, pieces, .. } = *knowledge;
        let ranges: Vec<SvmaRange> = parts.iter().map(|&part| pieces.get(part).range).collect();
        let mut entries = vec![(ranges[0].start, EntryKind::Primary)];
        let secondary = parts.iter().flat_map(|&part| &pieces.get(part).entries);
        entries.extend(secondary.map(|&at| (at, EntryKind::Secondary)));
        let pads: BTreeSet<Svma> = parts.iter().flat_map(|&part| landing_pads(image, pieces.get(part))).collect();
        entries.extend(pads.into_iter().map(|at| (at, EntryKind::LandingPad)));
        let frames = parts.iter().filter_map(|&part| image.frames().get(pieces.get(part).frame?));
        let mut call_sites: Vec<image::CallSite> =
            frames.flat_map(|frame| image.call_sites(frame).unwrap_or_default()).collect();
        call_sites.retain(|site| site.landing_pad.is_some());
        call_sites.sort_by_key(|site| site.range.start);
        let mut listing = Listing::new(image, &ranges);
        listing.label(pieces.labels());
        Work {
            knowledge,
            parts,
            entries,
            call_sites,
            listing,
            jumps: BTreeMap::new(),
            heights: OnceCell::new(),
            named_data: OnceCell::new(),
        }
    }

    /// Resolves indirect jumps until no new code turns up, and returns the graph. Jumps that do not
    /// resolve are tried again with a closer look at callees, unless the function is too large for
    /// that. One that resolves only until the code behind it is known is given up for good.
    fn resolve_jumps(&mut self) -> Cfg {
        let mut looks_closer = false;
        let mut given_up: BTreeMap<Svma, Resolution> = BTreeMap::new();
        for _ in 0..MAX_ROUNDS {
            let cfg = cfg::build(&self.listing, &self.entries, self);
            let mut found: BTreeMap<Svma, Resolution> = self.resolve(&cfg, looks_closer).into_iter().collect();
            found.extend(given_up.clone());
            let is_open = |resolution: &Resolution| matches!(resolution, Resolution::Unresolved(_));
            let is_settled = found.iter().all(|(at, resolution)| self.jumps.get(at) == Some(resolution));
            let is_table = |resolution: &Resolution| matches!(resolution, Resolution::Table(_));
            let is_lost = |at: &Svma, now: &Resolution| !is_table(now) && self.jumps.get(at).is_some_and(is_table);
            let lost: Vec<Svma> = found.iter().filter(|(at, now)| is_lost(at, now)).map(|(&at, _)| at).collect();
            let may_look_closer = !looks_closer && cfg.blocks.len() <= MAX_BLOCKS_TO_LOOK_CLOSER;
            let is_complete = !found.values().any(is_open);
            if may_look_closer && (!lost.is_empty() || is_settled && !is_complete) {
                looks_closer = true;
                continue;
            }
            if is_settled {
                return cfg;
            }
            // What has been seen to lead into the function is not a tail call, whatever else can
            // arrive at the jump.
            given_up.extend(lost.into_iter().map(|at| (at, Resolution::Unresolved(Reason::Mixed))));
            found.extend(given_up.clone());
            self.jumps.extend(found);
            self.named_data.take();
            let targets: Vec<Svma> = self.tables().flat_map(|table| &table.targets).copied().collect();
            self.listing.explore(targets, &|call| self.knowledge.returns(call));
        }
        cfg::build(&self.listing, &self.entries, self)
    }

    fn has_indirect_jump_in_gap(&self) -> bool {
        let mut in_gap = self.listing.iter().filter(|&(index, _)| self.listing.is_gap(index));
        in_gap.any(|(_, insn)| Transfer::of(insn) == Transfer::IndirectJump)
    }

    fn tables(&self) -> impl Iterator<Item = &JumpTable> {
        self.jumps.values().filter_map(|resolution| match resolution {
            Resolution::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Resolves every indirect jump of the graph, those resolved before included: code found since
    /// may bring other values.
    fn resolve(&self, cfg: &Cfg, looks_closer: bool) -> Vec<(Svma, Resolution)> {
        let jumps = cfg.graph.blocks().filter(|&id| cfg.block(id).transfer == Transfer::IndirectJump);
        let (mut found, mut open) = (Vec::new(), Vec::new());
        for block in jumps {
            let at = cfg.block(block).last();
            match self.listing.at(at).and_then(|index| self.resolve_slot(self.listing.get(index))) {
                Some(resolution) => found.push((at, resolution)),
                None => open.push(block),
            }
        }
        if open.is_empty() {
            return found;
        }
        let Knowledge { image, pieces, .. } = *self.knowledge;
        let known = RefCell::new(FxHashMap::default());
        let look =
            |callee| *known.borrow_mut().entry(callee).or_insert_with(|| clobbers::clobbered_by(image, pieces, callee));
        let clobbered_by = looks_closer.then_some(&look as &dyn Fn(Svma) -> u16);
        let mut interpretation = Interpretation::new(image, &self.listing, cfg, &self.unwinds(cfg), clobbered_by);
        found.extend(open.into_iter().map(|block| (cfg.block(block).last(), interpretation.resolve(block, self))));
        found
    }

    /// A jump through a constant memory address that the linker fills, as in PLT stubs.
    fn resolve_slot(&self, insn: &Instruction) -> Option<Resolution> {
        let slot = constant_slot(insn)?;
        let image = self.knowledge.image;
        let is_bound = image.import_at(slot).is_some() || image.slot_target(slot).is_some();
        let is_stub = self.knowledge.pieces.get(self.parts[0]).sources.contains(Sources::PLT);
        (is_bound || is_stub).then_some(Resolution::TailCall { slot: Some(slot) })
    }

    /// Blocks that end in a call from which an exception can reach a landing pad, ascending.
    fn unwinds(&self, cfg: &Cfg) -> Vec<(BlockId, BlockId)> {
        let mut unwinds = Vec::new();
        for id in cfg.graph.blocks().filter(|&id| cfg.block(id).transfer.is_call()) {
            let call = cfg.block(id).last();
            let index = self.call_sites.partition_point(|site| site.range.start <= call);
            let site = index.checked_sub(1).map(|index| &self.call_sites[index]);
            let pad = site.filter(|site| site.range.contains(call)).and_then(|site| site.landing_pad);
            unwinds.extend(pad.and_then(|pad| cfg.block_at(pad)).map(|pad| (id, pad)));
        }
        unwinds
    }

    fn heights(&self) -> &StackHeights {
        let Knowledge { image, pieces, .. } = *self.knowledge;
        self.heights
            .get_or_init(|| StackHeights::new(image, self.parts.iter().filter_map(|&part| pieces.get(part).frame)))
    }

    fn finish(self, mut cfg: Cfg) -> Analyzed {
        cfg.guarded = self.call_sites.iter().map(|site| site.range).collect();
        let Knowledge { pieces, returns, .. } = *self.knowledge;
        let head = pieces.get(self.parts[0]);
        let order = Order::new(&cfg.graph);
        let loops = Loops::new(&cfg.graph, &order);
        let liveness = Liveness::from_effects(&self.effects(&cfg), &cfg, &order, FlagConventions::default());
        let indirect_jumps: Vec<IndirectJump> =
            self.jumps.iter().map(|(&at, resolution)| IndirectJump { at, resolution: resolution.clone() }).collect();
        let is_complete = indirect_jumps.iter().all(IndirectJump::is_resolved);
        let absorbs = self.absorbed();
        let flow = FunctionFlow {
            entry: head.range.start,
            parts: self.parts.iter().map(|&part| pieces.get(part).range).collect(),
            sources: head.sources,
            called: head.called,
            address_taken: head.address_taken,
            returns: noreturn::can_return(&cfg, is_complete, pieces, returns),
            calls: calls(&self.listing),
            indirect_jumps,
            n_insns: self.listing.len() as u32,
            padding_bytes: self.listing.padding_bytes(),
            data_bytes: self.listing.data_bytes(),
            observed: None,
            cfg,
            loops,
            liveness,
        };
        Analyzed { flow, absorbs }
    }

    /// What each block needs and overwrites.
    fn effects(&self, cfg: &Cfg) -> Vec<Effect> {
        let mut effects = Effects::default();
        let mut of_block = |block: &Block| {
            let mut at = block.range.start;
            let mut total = Effect::default();
            effects.start_block();
            while let Some(insn) =
                self.listing.at(at).map(|index| self.listing.get(index)).filter(|_| at < block.range.end)
            {
                total = total.then(effects.of_in(cfg, insn));
                at = Svma(insn.next_ip());
            }
            total
        };
        cfg.blocks.iter().map(&mut of_block).collect()
    }

    /// Pieces of no other function that the function's jump tables lead to.
    fn absorbed(&self) -> Vec<PieceId> {
        let pieces = self.knowledge.pieces;
        let outside = self.tables().flat_map(|table| &table.targets).filter(|&&target| !self.listing.covers(target));
        let mut absorbed: Vec<PieceId> =
            outside.filter_map(|&target| pieces.find(target)).filter(|&id| !pieces.get(id).anchored).collect();
        absorbed.sort_unstable();
        absorbed.dedup();
        absorbed
    }

    /// Data addresses that the function's instructions name.
    fn named_data(&self) -> &BTreeSet<Svma> {
        self.named_data.get_or_init(|| {
            let insns = self.listing.iter().map(|(_, insn)| insn);
            let named = insns.filter(|insn| (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory));
            named.map(|insn| Svma(insn.memory_displacement64())).collect()
        })
    }
}

impl Surroundings for Work<'_, '_> {
    fn returns(&self, call: &Instruction) -> bool {
        self.knowledge.returns(call)
    }

    fn exit_kind(&self, last: &Instruction, target: Svma) -> EdgeKind {
        if self.knowledge.pieces.find(target).is_none() {
            return EdgeKind::Trap;
        }
        match self.heights().at_entry(Svma(last.ip())) {
            Some(false) => EdgeKind::Unresolved,
            _ => EdgeKind::TailCall,
        }
    }

    fn indirect(&self, jump: &Instruction) -> IndirectEdges<'_> {
        match self.jumps.get(&Svma(jump.ip())) {
            Some(Resolution::Table(table)) => IndirectEdges::Targets(&table.targets),
            _ if calls_noreturn_import(self.knowledge.image, jump) => IndirectEdges::Exit(EdgeKind::Trap, None),
            Some(Resolution::TailCall { slot }) => {
                let target = slot.and_then(|slot| self.knowledge.image.slot_target(slot));
                IndirectEdges::Exit(EdgeKind::TailCall, target)
            }
            Some(Resolution::Unresolved(_)) | None => IndirectEdges::Exit(EdgeKind::Unresolved, None),
        }
    }
}

impl Surface for Work<'_, '_> {
    fn may_contain(&self, target: Svma) -> bool {
        let pieces = self.knowledge.pieces;
        self.listing.covers(target) || pieces.find(target).is_some_and(|id| !pieces.get(id).anchored)
    }

    fn is_code(&self, target: Svma) -> bool {
        self.knowledge.pieces.find(target).is_some()
    }

    fn is_end(&self, target: Svma) -> bool {
        self.parts.iter().any(|&part| self.knowledge.pieces.get(part).range.end == target)
    }

    fn at_entry_height(&self, at: Svma) -> Option<bool> {
        self.heights().at_entry(at)
    }

    fn is_named(&self, data: Svma) -> bool {
        self.named_data().contains(&data)
    }
}

impl Knowledge<'_, '_> {
    /// Whether control comes back after a call.
    fn returns(&self, call: &Instruction) -> bool {
        let callee = match Transfer::of(call) {
            Transfer::Call(target) => Some(target),
            _ if calls_noreturn_import(self.image, call) => return false,
            _ => constant_slot(call).and_then(|slot| self.image.slot_target(slot)),
        };
        let piece = callee.and_then(|target| self.pieces.find(target));
        piece.is_none_or(|piece| self.returns[self.groups.head(piece).index()])
    }
}

fn calls(listing: &Listing<'_>) -> Vec<CallSite> {
    let mut calls: Vec<CallSite> = listing
        .iter()
        .filter_map(|(_, insn)| {
            let callee = match Transfer::of(insn) {
                Transfer::Call(target) => Callee::Direct(target),
                Transfer::IndirectCall => constant_slot(insn).map_or(Callee::Computed, Callee::Slot),
                _ => return None,
            };
            Some(CallSite { at: Svma(insn.ip()), callee })
        })
        .collect();
    calls.sort_unstable_by_key(|call| call.at);
    calls
}
