//! Basic blocks and edges of one function.
//!
//! A block is a maximal run of instructions that is entered only at its first and left only at its
//! last. Leaders are: entries, jump and table targets, whatever follows an instruction that ends a
//! block, and any instruction that two different instructions fall through to (which happens only
//! where instructions overlap).
//!
//! The shape is a [`Digraph`]; kinds and target addresses of edges are kept beside it, indexed by
//! the same [`EdgeId`]. Blocks are numbered by address. Every block is reachable from one of the
//! entries: a block that nothing known leads to is itself an entry, of kind [`EntryKind::Unknown`].

use std::fmt;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use image::{Image, Svma, SvmaRange};

use crate::graph::{BlockId, Digraph, Edge, EdgeId};
use crate::listing::{InsnIndex, Listing};
use crate::transfer::Transfer;

/// The control-flow graph of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cfg {
    /// Shape: blocks are numbered by address, the first entry is the function's own.
    pub graph: Digraph,
    /// Blocks by [`BlockId`].
    pub blocks: Vec<Block>,
    /// Kinds and targets of edges by [`EdgeId`].
    pub edges: Vec<EdgeFacts>,
    /// Why each of `graph.entries()` is one.
    pub entry_kinds: Vec<EntryKind>,
    /// Code from which exceptions reach a landing pad of the function, ascending. Where faults
    /// throw, any instruction in it can.
    pub guarded: Vec<SvmaRange>,
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Addresses from the first instruction to the end of the last.
    pub range: SvmaRange,
    /// Number of instructions.
    pub n_insns: u32,
    /// Length of the last instruction.
    pub last_len: u8,
    /// What the last instruction does; [`Transfer::Next`] if the block ends because another begins.
    pub transfer: Transfer,
}

/// What an edge is and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeFacts {
    /// How control flows along the edge.
    pub kind: EdgeKind,
    /// Address that control reaches, if it is known: inside the function for edges between blocks,
    /// elsewhere for tail calls. A tail call through a linker-filled slot names this module's own
    /// definition, which another module may override.
    pub target: Option<Svma>,
}

/// How control flows along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// To the next instruction.
    FallThrough,
    /// A direct jump, or a conditional one that is taken.
    Taken,
    /// One or more entries of a jump table.
    JumpTable,
    /// Past a call, to its return site.
    Call,
    /// Leaves for another function at the stack height of this one's entry.
    TailCall,
    /// Leaves to the caller.
    Return,
    /// Control does not come back: a fault, or a call that does not return.
    Trap,
    /// Leaves for an address that the analysis does not know, or with a stack frame that is not the
    /// callee's to return from.
    Unresolved,
}

impl EdgeKind {
    /// All kinds, in the order in which reports list them.
    pub const ALL: [EdgeKind; 8] = [
        EdgeKind::FallThrough,
        EdgeKind::Taken,
        EdgeKind::JumpTable,
        EdgeKind::Call,
        EdgeKind::TailCall,
        EdgeKind::Return,
        EdgeKind::Trap,
        EdgeKind::Unresolved,
    ];
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EdgeKind::FallThrough => "fall-through",
            EdgeKind::Taken => "taken",
            EdgeKind::JumpTable => "jump-table",
            EdgeKind::Call => "call",
            EdgeKind::TailCall => "tail-call",
            EdgeKind::Return => "return",
            EdgeKind::Trap => "trap",
            EdgeKind::Unresolved => "unresolved",
        })
    }
}

/// Why control can enter a function at a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// The function's entry.
    Primary,
    /// Other code calls or jumps into the middle, or a symbol names it.
    Secondary,
    /// The unwinder continues here after an exception.
    LandingPad,
    /// Nothing known leads here.
    Unknown,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EntryKind::Primary => "primary",
            EntryKind::Secondary => "secondary",
            EntryKind::LandingPad => "landing-pad",
            EntryKind::Unknown => "unknown",
        })
    }
}

impl Cfg {
    /// The block that starts at `at`.
    #[must_use]
    pub fn block_at(&self, at: Svma) -> Option<BlockId> {
        let index = self.blocks.binary_search_by_key(&at, |block| block.range.start).ok()?;
        Some(BlockId(index as u32))
    }

    /// The block with this id.
    #[must_use]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// Kind and target of an edge.
    #[must_use]
    pub fn edge_facts(&self, id: EdgeId) -> EdgeFacts {
        self.edges[id.index()]
    }

    /// Blocks of the function that calls return to, in the order of the first call of each.
    #[must_use]
    pub fn return_sites(&self) -> Vec<BlockId> {
        let mut is_listed = vec![false; self.blocks.len()];
        let calls = self.graph.edge_ids().filter(|&edge| self.edge_facts(edge).kind == EdgeKind::Call);
        let sites = calls.filter_map(|edge| self.graph.edge(edge).to);
        sites.filter(|site| !std::mem::replace(&mut is_listed[site.index()], true)).collect()
    }

    /// Returns whether an exception that is thrown at an address reaches a landing pad of the
    /// function.
    #[must_use]
    pub fn is_guarded(&self, at: Svma) -> bool {
        let n_before = self.guarded.partition_point(|range| range.start <= at);
        n_before.checked_sub(1).is_some_and(|index| self.guarded[index].contains(at))
    }

    /// Decodes the instructions of a block again.
    pub fn instructions<'data>(
        &self,
        image: &Image<'data>,
        id: BlockId,
    ) -> impl Iterator<Item = Instruction> + use<'data> {
        let Block { range, n_insns, .. } = *self.block(id);
        let bytes = image.read(range.start, range.len() as usize).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, range.start.0, DecoderOptions::NONE);
        (0..n_insns).map(move |_| decoder.decode())
    }
}

impl Block {
    /// Address of the last instruction.
    #[must_use]
    pub fn last(&self) -> Svma {
        self.range.end.offset_signed(-i64::from(self.last_len))
    }
}

/// What the builder cannot know from the instructions alone.
pub(crate) trait Surroundings {
    /// Whether control comes back after this call.
    fn returns(&self, call: &Instruction) -> bool;
    /// Kind of the edge of a direct jump, or of a fall-through, that leaves the function.
    fn exit_kind(&self, jump: &Instruction, target: Svma) -> EdgeKind;
    /// Edges of an indirect jump.
    fn indirect(&self, jump: &Instruction) -> IndirectEdges<'_>;
}

/// How an indirect jump appears in the graph.
pub(crate) enum IndirectEdges<'a> {
    /// Ascending, distinct addresses.
    Targets(&'a [Svma]),
    /// A single way out, and where it leads if a pointer in constant memory tells.
    Exit(EdgeKind, Option<Svma>),
}

/// Builds the graph of a fully explored listing.
pub(crate) fn build(listing: &Listing<'_>, entries: &[(Svma, EntryKind)], surroundings: &dyn Surroundings) -> Cfg {
    let (leaders, transfers) = leaders(listing, entries, surroundings);
    let mut builder = Builder { listing, leaders: &leaders, transfers: &transfers, surroundings, edges: Vec::new() };
    let blocks = builder.blocks();
    let mut block_of = vec![u32::MAX; listing.len()];
    for (id, (_, first)) in blocks.iter().enumerate() {
        block_of[*first as usize] = id as u32;
    }
    for (id, &(block, first)) in blocks.iter().enumerate() {
        builder.edges_of(BlockId(id as u32), &block, first);
    }
    let mut edges = Vec::with_capacity(builder.edges.len());
    let mut facts = Vec::with_capacity(builder.edges.len());
    for (from, to, fact) in builder.edges {
        edges.push(Edge { from, to: to.map(|insn| BlockId(block_of[insn as usize])) });
        facts.push(fact);
    }
    let blocks: Vec<Block> = blocks.into_iter().map(|(block, _)| block).collect();
    let known: Vec<(BlockId, EntryKind)> =
        entries.iter().filter_map(|&(at, kind)| Some((BlockId(block_of[listing.at(at)? as usize]), kind))).collect();
    let shape = Digraph::new(blocks.len(), edges, Vec::new());
    let (entries, entry_kinds) = complete_entries(&shape, &known);
    Cfg { graph: shape.with_entries(entries), blocks, edges: facts, entry_kinds, guarded: Vec::new() }
}

/// Marks the first instruction of every block, and classifies every instruction.
fn leaders(
    listing: &Listing<'_>,
    entries: &[(Svma, EntryKind)],
    surroundings: &dyn Surroundings,
) -> (Vec<bool>, Vec<Transfer>) {
    let mut leader = vec![false; listing.len()];
    let mut fallen_into = vec![false; listing.len()];
    let mut transfers = Vec::with_capacity(listing.len());
    let mark = |at: Svma, leader: &mut Vec<bool>| {
        if let Some(index) = listing.at(at) {
            leader[index as usize] = true;
        }
    };
    for &(at, _) in entries {
        mark(at, &mut leader);
    }
    for index in listing.gap_roots().iter().copied().chain(listing.labelled()) {
        leader[index as usize] = true;
    }
    for (_, insn) in listing.iter() {
        let transfer = Transfer::of(insn);
        transfers.push(transfer);
        match transfer {
            Transfer::Next => {
                if let Some(next) = listing.at(Svma(insn.next_ip())) {
                    leader[next as usize] |= std::mem::replace(&mut fallen_into[next as usize], true);
                }
                continue;
            }
            Transfer::Jump(target) | Transfer::Branch(target) => mark(target, &mut leader),
            Transfer::IndirectJump => {
                if let IndirectEdges::Targets(targets) = surroundings.indirect(insn) {
                    targets.iter().for_each(|&target| mark(target, &mut leader));
                }
            }
            _ => {}
        }
        mark(Svma(insn.next_ip()), &mut leader);
    }
    (leader, transfers)
}

struct Builder<'a, 'data> {
    listing: &'a Listing<'data>,
    leaders: &'a [bool],
    transfers: &'a [Transfer],
    surroundings: &'a dyn Surroundings,
    edges: Vec<(BlockId, Option<InsnIndex>, EdgeFacts)>,
}

impl Builder<'_, '_> {
    /// Blocks by address, each with its first instruction.
    fn blocks(&self) -> Vec<(Block, InsnIndex)> {
        let firsts = self.leaders.iter().enumerate().filter(|&(_, &leader)| leader);
        let mut blocks: Vec<_> =
            firsts.map(|(first, _)| (self.block(first as InsnIndex), first as InsnIndex)).collect();
        blocks.sort_unstable_by_key(|(block, _)| block.range.start);
        blocks
    }

    fn block(&self, first: InsnIndex) -> Block {
        let start = Svma(self.listing.get(first).ip());
        let mut last = first;
        let mut n_insns = 1;
        while !self.transfers[last as usize].ends_block() {
            match self.listing.at(Svma(self.listing.get(last).next_ip())) {
                Some(next) if !self.leaders[next as usize] => last = next,
                _ => break,
            }
            n_insns += 1;
        }
        let last_insn = self.listing.get(last);
        Block {
            range: SvmaRange { start, end: Svma(last_insn.next_ip()) },
            n_insns,
            last_len: last_insn.len() as u8,
            transfer: self.transfers[last as usize],
        }
    }

    fn edges_of(&mut self, from: BlockId, block: &Block, first: InsnIndex) {
        let last = if block.n_insns == 1 { Some(first) } else { self.listing.at(block.last()) };
        let insn = last.map(|last| *self.listing.get(last)).unwrap_or_default();
        let next = block.range.end;
        match block.transfer {
            Transfer::Next => self.go(from, &insn, next, EdgeKind::FallThrough),
            Transfer::Branch(target) => {
                if target != next {
                    self.go(from, &insn, next, EdgeKind::FallThrough);
                }
                self.go(from, &insn, target, EdgeKind::Taken);
            }
            Transfer::Jump(target) => self.go(from, &insn, target, EdgeKind::Taken),
            Transfer::Call(_) | Transfer::IndirectCall if self.surroundings.returns(&insn) => {
                self.flow(from, next, EdgeKind::Call);
            }
            Transfer::Call(_) | Transfer::IndirectCall | Transfer::Trap => self.exit(from, EdgeKind::Trap, None),
            Transfer::Return => self.exit(from, EdgeKind::Return, None),
            Transfer::IndirectJump => self.indirect(from, &insn),
        }
    }

    /// An edge to `target`, or a trap where nothing could be decoded there.
    fn flow(&mut self, from: BlockId, target: Svma, kind: EdgeKind) {
        match self.listing.at(target) {
            Some(index) => self.edges.push((from, Some(index), EdgeFacts { kind, target: Some(target) })),
            None => self.exit(from, EdgeKind::Trap, Some(target)),
        }
    }

    /// An edge to `target`, in the function or out of it.
    fn go(&mut self, from: BlockId, insn: &Instruction, target: Svma, kind: EdgeKind) {
        if self.listing.covers(target) {
            self.flow(from, target, kind);
        } else {
            self.exit(from, self.surroundings.exit_kind(insn, target), Some(target));
        }
    }

    fn indirect(&mut self, from: BlockId, insn: &Instruction) {
        match self.surroundings.indirect(insn) {
            IndirectEdges::Exit(kind, target) => self.exit(from, kind, target),
            IndirectEdges::Targets(targets) => {
                for &target in targets {
                    match self.listing.at(target) {
                        Some(_) => self.flow(from, target, EdgeKind::JumpTable),
                        None => self.exit(from, EdgeKind::JumpTable, Some(target)),
                    }
                }
            }
        }
    }

    fn exit(&mut self, from: BlockId, kind: EdgeKind, target: Option<Svma>) {
        self.edges.push((from, None, EdgeFacts { kind, target }));
    }
}

/// Adds, as unknown entries, blocks that the known entries do not reach: the first unreached block
/// by address, then what that does not reach, and so on.
fn complete_entries(shape: &Digraph, known: &[(BlockId, EntryKind)]) -> (Vec<BlockId>, Vec<EntryKind>) {
    let mut entries = Vec::new();
    let mut kinds = Vec::new();
    let mut is_entry = vec![false; shape.n_blocks()];
    for &(block, kind) in known {
        if !std::mem::replace(&mut is_entry[block.index()], true) {
            entries.push(block);
            kinds.push(kind);
        }
    }
    let mut reached = is_entry;
    let mut pending = entries.clone();
    let mut unseen = shape.blocks();
    loop {
        while let Some(block) = pending.pop() {
            for next in shape.successors(block) {
                if !std::mem::replace(&mut reached[next.index()], true) {
                    pending.push(next);
                }
            }
        }
        let Some(orphan) = unseen.find(|block| !reached[block.index()]) else { break };
        reached[orphan.index()] = true;
        entries.push(orphan);
        kinds.push(EntryKind::Unknown);
        pending.push(orphan);
    }
    (entries, kinds)
}
