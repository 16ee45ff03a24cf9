//! The directed graph that every analysis of one function works on: blocks, edges, entries; no
//! instructions.
//!
//! All edges live in one array sorted by source, so that the out-edges of a block are a contiguous
//! range of [`EdgeId`]s and an edge's id is its index. Predecessors are a second, counting-sorted
//! array of edge ids. Both are built in linear time, and a per-edge fact of any analysis is a plain
//! `Vec` indexed by `EdgeId`.
//!
//! An edge whose target is `None` leaves the function (return, tail call, trap, unresolved jump).
//! It has an id like any other, because a path can end there.
//!
//! The builder of a graph guarantees, and [`Digraph::check`] verifies:
//! * every block is reachable from some entry (a block reached only in unknown ways *is* an entry);
//! * entries are distinct, and there is at least one if there is a block;
//! * every block has an edge out (a block that goes nowhere known has an exit), so that every path
//!   can end;
//! * at most one edge between the same two blocks (several exits of one block are allowed).

use std::fmt;
use std::ops::Range;

/// A function's blocks and edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digraph {
    edges: Vec<Edge>,
    /// `first_out[b]..first_out[b + 1]` are the ids of the edges out of block `b`.
    first_out: Vec<u32>,
    /// `in_edges[first_in[b]..first_in[b + 1]]` are the edges into block `b`, ascending.
    first_in: Vec<u32>,
    in_edges: Vec<EdgeId>,
    entries: Vec<BlockId>,
    is_entry: Vec<bool>,
}

/// Index of a block in its [`Digraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Index of an edge in its [`Digraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub u32);

/// One way for control to leave a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The block that control leaves.
    pub from: BlockId,
    /// The block that control reaches, or `None` if it leaves the function.
    pub to: Option<BlockId>,
}

/// A violated invariant of a [`Digraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphFault {
    /// There are blocks but no entry.
    NoEntry,
    /// The block is listed as an entry more than once.
    RepeatedEntry(BlockId),
    /// No entry reaches the block.
    Unreachable(BlockId),
    /// No edge leaves the block.
    DeadEnd(BlockId),
    /// An earlier edge connects the same two blocks.
    ParallelEdge(EdgeId),
}

impl Digraph {
    /// Builds the graph. `edges` must be sorted by source; the first of `entries` is the primary
    /// one.
    ///
    /// # Panics
    /// If `edges` is not sorted by source, or if an edge or entry names a block at or above
    /// `n_blocks`.
    #[must_use]
    pub fn new(n_blocks: usize, edges: Vec<Edge>, entries: Vec<BlockId>) -> Digraph {
        assert!(edges.is_sorted_by_key(|edge| edge.from), "edges not sorted by source");
        assert!(u32::try_from(edges.len()).is_ok(), "more than 2^32 edges");
        let in_range = |block: BlockId| block.index() < n_blocks;
        assert!(edges.iter().all(|edge| in_range(edge.from) && edge.to.is_none_or(in_range)), "edge out of range");
        assert!(entries.iter().copied().all(in_range), "entry out of range");

        let first_out = first_indices(n_blocks, edges.iter().map(|edge| edge.from));
        let first_in = first_indices(n_blocks, edges.iter().filter_map(|edge| edge.to));
        let mut next_in = first_in.clone();
        let mut in_edges = vec![EdgeId(0); first_in[n_blocks] as usize];
        for (id, edge) in edges.iter().enumerate() {
            if let Some(to) = edge.to {
                let slot = &mut next_in[to.index()];
                in_edges[*slot as usize] = EdgeId(id as u32);
                *slot += 1;
            }
        }
        let mut is_entry = vec![false; n_blocks];
        for entry in &entries {
            is_entry[entry.index()] = true;
        }
        Digraph { edges, first_out, first_in, in_edges, entries, is_entry }
    }

    /// The same graph with other entries.
    ///
    /// # Panics
    /// If an entry names a block that does not exist.
    #[must_use]
    pub fn with_entries(mut self, entries: Vec<BlockId>) -> Digraph {
        assert!(entries.iter().all(|entry| entry.index() < self.n_blocks()), "entry out of range");
        self.is_entry.fill(false);
        entries.iter().for_each(|entry| self.is_entry[entry.index()] = true);
        self.entries = entries;
        self
    }

    /// Number of blocks.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.first_out.len() - 1
    }

    /// Number of edges, those that leave the function included.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        self.edges.len()
    }

    /// All blocks, ascending.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = BlockId> + ExactSizeIterator + Clone + use<> {
        (0..self.n_blocks() as u32).map(BlockId)
    }

    /// All edges in the order of their ids.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// All edge ids, ascending.
    pub fn edge_ids(&self) -> impl DoubleEndedIterator<Item = EdgeId> + ExactSizeIterator + Clone + use<> {
        (0..self.n_edges() as u32).map(EdgeId)
    }

    /// The edge with this id.
    #[must_use]
    pub fn edge(&self, id: EdgeId) -> Edge {
        self.edges[id.index()]
    }

    /// Edges out of `block`, exits included, ascending.
    pub fn out_edges(
        &self,
        block: BlockId,
    ) -> impl DoubleEndedIterator<Item = EdgeId> + ExactSizeIterator + Clone + use<> {
        self.out_range(block).map(EdgeId)
    }

    /// The ids of the edges out of `block` as a range of plain numbers, for cursors.
    #[must_use]
    pub fn out_range(&self, block: BlockId) -> Range<u32> {
        self.first_out[block.index()]..self.first_out[block.index() + 1]
    }

    /// Edges into `block`, ascending.
    #[must_use]
    pub fn in_edges(&self, block: BlockId) -> &[EdgeId] {
        &self.in_edges[self.first_in[block.index()] as usize..self.first_in[block.index() + 1] as usize]
    }

    /// Targets of the edges out of `block` that stay in the function.
    pub fn successors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.out_edges(block).filter_map(|id| self.edge(id).to)
    }

    /// Sources of the edges into `block`.
    pub fn predecessors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.in_edges(block).iter().map(|&id| self.edge(id).from)
    }

    /// Blocks where control enters: the primary entry first, then secondary entries, landing pads
    /// and blocks reached only in unknown ways.
    #[must_use]
    pub fn entries(&self) -> &[BlockId] {
        &self.entries
    }

    /// Whether control can enter at `block` otherwise than by an edge.
    #[must_use]
    pub fn is_entry(&self, block: BlockId) -> bool {
        self.is_entry[block.index()]
    }

    /// The edge between two blocks, if there is one.
    #[must_use]
    pub fn edge_between(&self, from: BlockId, to: BlockId) -> Option<EdgeId> {
        self.out_edges(from).find(|&id| self.edge(id).to == Some(to))
    }

    /// Verifies the invariants of the module header, in linear time.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), GraphFault> {
        if self.entries.is_empty() && self.n_blocks() != 0 {
            return Err(GraphFault::NoEntry);
        }
        let mut reached = vec![false; self.n_blocks()];
        for &entry in &self.entries {
            if std::mem::replace(&mut reached[entry.index()], true) {
                return Err(GraphFault::RepeatedEntry(entry));
            }
        }
        let mut pending = self.entries.clone();
        let mut last_source = vec![None; self.n_blocks()];
        while let Some(block) = pending.pop() {
            for id in self.out_edges(block) {
                let Some(to) = self.edge(id).to else { continue };
                if last_source[to.index()].replace(block) == Some(block) {
                    return Err(GraphFault::ParallelEdge(id));
                }
                if !std::mem::replace(&mut reached[to.index()], true) {
                    pending.push(to);
                }
            }
        }
        for block in self.blocks() {
            if !reached[block.index()] {
                return Err(GraphFault::Unreachable(block));
            }
            if self.out_range(block).is_empty() {
                return Err(GraphFault::DeadEnd(block));
            }
        }
        Ok(())
    }
}

impl BlockId {
    /// The id as an array index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// The id as an array index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for EdgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for GraphFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphFault::NoEntry => write!(f, "the graph has blocks but no entry"),
            GraphFault::RepeatedEntry(block) => write!(f, "{block} is listed as an entry twice"),
            GraphFault::Unreachable(block) => write!(f, "no entry reaches {block}"),
            GraphFault::DeadEnd(block) => write!(f, "no edge leaves {block}"),
            GraphFault::ParallelEdge(edge) => write!(f, "{edge} repeats an earlier edge between the same blocks"),
        }
    }
}

impl std::error::Error for GraphFault {}

/// Prefix sums of how often each block occurs: where the block's group starts in an array grouped
/// by block.
fn first_indices(n_blocks: usize, blocks: impl Iterator<Item = BlockId>) -> Vec<u32> {
    let mut first = vec![0u32; n_blocks + 1];
    for block in blocks {
        first[block.index() + 1] += 1;
    }
    for i in 0..n_blocks {
        first[i + 1] += first[i];
    }
    first
}
