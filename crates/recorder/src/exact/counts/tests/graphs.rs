//! Random functions, laid out by address as compilers do, and choices for runs through them.

use flow::Transfer;
use flow::cfg::{Block, Cfg, EdgeFacts, EdgeKind, EntryKind};
use flow::graph::{BlockId, Digraph, Edge, EdgeId};
use image::{Svma, SvmaRange};
use proptest::prelude::*;

use super::BlockFacts;

const BLOCK_BYTES: u64 = 16;

/// How a block ends; targets are blocks.
#[derive(Clone, Debug)]
pub enum End {
    Next,
    Jump(u32),
    Branch(u32),
    /// Taken, it leaves the function.
    BranchOut,
    Table(Vec<u32>),
    Call,
    CallWithoutReturn,
    Return,
}

/// What calls do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    Return,
    MayNotReturn,
    MayReturnTwice,
}

pub fn any_calls() -> impl Strategy<Value = Calls> {
    prop_oneof![Just(Calls::Return), Just(Calls::MayNotReturn), Just(Calls::MayReturnTwice)]
}

/// Functions of up to so many blocks.
pub fn any_cfg(max_blocks: u32) -> impl Strategy<Value = Cfg> {
    (1..=max_blocks).prop_flat_map(|n_blocks| {
        let target = 0..n_blocks;
        let end = prop_oneof![
            2 => Just(End::Next),
            2 => target.clone().prop_map(End::Jump),
            6 => target.clone().prop_map(End::Branch),
            1 => Just(End::BranchOut),
            1 => prop::collection::btree_set(target, 1..4).prop_map(|targets| End::Table(targets.into_iter().collect())),
            3 => Just(End::Call),
            1 => Just(End::CallWithoutReturn),
            1 => Just(End::Return),
        ];
        prop::collection::vec(end, n_blocks as usize - 1).prop_map(|mut ends| {
            ends.push(End::Return);
            cfg(&ends)
        })
    })
}

fn start(block: u32) -> Svma {
    Svma(0x1000 + BLOCK_BYTES * u64::from(block))
}

/// The function whose blocks end so. Blocks that nothing leads to are entries.
pub fn cfg(ends: &[End]) -> Cfg {
    let mut edges: Vec<(Edge, EdgeKind)> = Vec::new();
    let mut blocks = Vec::new();
    for (block, end) in (0..).zip(ends) {
        let next = block + 1;
        let mut go = |to: Option<u32>, kind| edges.push((Edge { from: BlockId(block), to: to.map(BlockId) }, kind));
        let transfer = match *end {
            End::Next => {
                go(Some(next), EdgeKind::FallThrough);
                Transfer::Next
            }
            End::Jump(to) => {
                go(Some(to), EdgeKind::Taken);
                Transfer::Jump(start(to))
            }
            End::Branch(to) => {
                if to != next {
                    go(Some(next), EdgeKind::FallThrough);
                }
                go(Some(to), EdgeKind::Taken);
                Transfer::Branch(start(to))
            }
            End::BranchOut => {
                go(Some(next), EdgeKind::FallThrough);
                go(None, EdgeKind::TailCall);
                Transfer::Branch(Svma(0x10))
            }
            End::Table(ref targets) => {
                targets.iter().for_each(|&to| go(Some(to), EdgeKind::JumpTable));
                Transfer::IndirectJump
            }
            End::Call => {
                go(Some(next), EdgeKind::Call);
                Transfer::IndirectCall
            }
            End::CallWithoutReturn => {
                go(None, EdgeKind::Trap);
                Transfer::IndirectCall
            }
            End::Return => {
                go(None, EdgeKind::Return);
                Transfer::Return
            }
        };
        let range = SvmaRange { start: start(block), end: start(next) };
        blocks.push(Block { range, n_insns: 3, last_len: 2, transfer });
    }
    let facts = |&(edge, kind): &(Edge, EdgeKind)| EdgeFacts { kind, target: edge.to.map(|to| start(to.0)) };
    let facts = edges.iter().map(facts).collect();
    let shape = Digraph::new(blocks.len(), edges.into_iter().map(|(edge, _)| edge).collect(), Vec::new());
    let entries = entries(&shape);
    let entry_kinds = entries.iter().map(|entry| if entry.0 == 0 { EntryKind::Primary } else { EntryKind::Secondary });
    let entry_kinds = entry_kinds.collect();
    let graph = shape.with_entries(entries);
    assert_eq!(graph.check(), Ok(()));
    Cfg { graph, blocks, edges: facts, entry_kinds, guarded: Vec::new() }
}

fn entries(shape: &Digraph) -> Vec<BlockId> {
    let mut reached = vec![false; shape.n_blocks()];
    let mut entries = Vec::new();
    for block in shape.blocks() {
        if !reached[block.index()] {
            entries.push(block);
            let mut pending = vec![block];
            while let Some(block) = pending.pop() {
                if !std::mem::replace(&mut reached[block.index()], true) {
                    pending.extend(shape.successors(block));
                }
            }
        }
    }
    entries
}

pub fn block_facts(cfg: &Cfg, block: BlockId) -> BlockFacts {
    BlockFacts {
        count: None,
        goes_on: cfg.block(block).transfer != Transfer::IndirectCall,
        is_enterable: cfg.graph.is_entry(block),
    }
}

/// By edge: whether copies count it, see `emit::Counting::Blocks`.
pub fn counted_edges(cfg: &Cfg) -> Vec<bool> {
    let is_counted = |id: EdgeId| {
        let Edge { from, to: Some(to) } = cfg.graph.edge(id) else { return false };
        let is_only_way = cfg.graph.in_edges(to).len() == 1 && !cfg.graph.is_entry(to);
        let follows = cfg.graph.out_edges(from).count() == 1 || is_only_way;
        cfg.edge_facts(id).kind == EdgeKind::Taken && !follows
    };
    cfg.graph.edge_ids().map(is_counted).collect()
}

/// Pseudo-random choices.
#[derive(Debug)]
pub struct Choices {
    state: u64,
    /// How many a run may still make.
    pub n_left: u32,
}

impl Choices {
    pub fn new(seed: u64, n_left: u32) -> Choices {
        Choices { state: seed | 1, n_left }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.n_left = self.n_left.saturating_sub(1);
        (self.state >> 8) as usize % limit
    }
}
