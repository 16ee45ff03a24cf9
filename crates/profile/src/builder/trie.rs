//! Paths as a trie of block sequences.
//!
//! A **node** is the part of a path that was walked so far; its root says where the path begins and
//! whether that was seen. A **link** is what happens when control goes from a node's last block to
//! a certain next block: the same every time, except for returns and jumps to the middle of other
//! functions, which depend on the stack. So one link is worked out once ([`super::links`]) and then
//! followed as often as the step is made; the two latest of a node are found without hashing, which
//! serves both ways of a branch, and a call together with its return.
//!
//! Paths are acyclic by construction: a step to a block that is on the path already ends it. Paths
//! of more than [`MAX_PATH_BLOCKS`], and new ones when there are `max_nodes` nodes, are given up:
//! their blocks and edges count, they do not.

use rustc_hash::FxHashMap;

use super::events::{Event, Events, Stretch, Tally};
use super::histories::BranchRow;
use super::ids::{EventId, FunctionKey, LinkId, NodeId};
use super::nests::Nest;
use super::{BlockRef, Known};
use crate::model::BlockEnd;

/// Paths longer than this are given up.
pub(super) const MAX_PATH_BLOCKS: u32 = 1024;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    links: Vec<Link>,
    roots: FxHashMap<(BlockRef, Start), NodeId>,
    by_step: FxHashMap<(NodeId, BlockRef, Direction), LinkId>,
    max_nodes: usize,
}

/// What is known of the beginning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Start {
    /// It begins at its first block.
    Seen,
    /// It began before.
    Unseen,
    /// It began before, and so did its first block.
    MidBlock,
}

/// A part of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub block: BlockRef,
    pub function: FunctionKey,
    pub parent: NodeId,
    pub n_blocks: u32,
    pub start: Start,
    pub ends_in_return: bool,
    /// Where outcomes are counted if the last block ends in a conditional branch.
    pub branch: BranchRow,
    /// Nothing for a block that was running when the burst began.
    pub block_event: EventId,
    /// The edge from the parent's block.
    pub edge_event: EventId,
    /// The loops around the block.
    pub nest: Nest,
    exit: EventId,
    piece: EventId,
    latest: [LinkId; 2],
}

/// A step from a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub next: BlockRef,
    pub to: NodeId,
    pub kind: LinkKind,
    pub direction: Direction,
    /// Of a conditional branch.
    pub outcome: Option<bool>,
    pub loops: LoopChange,
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkKind {
    /// The path goes on.
    Step,
    /// The path ends with a back edge; another begins.
    Back { path: EventId },
    /// The path is given up; `edge` leads to where the next one is picked up.
    GiveUp { edge: EventId },
    /// A function is called.
    Call(Callee),
    /// A function takes the place of this one.
    TailCall(Callee),
}

/// A function that is entered, and what that counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    pub function: FunctionKey,
    pub call: EventId,
    pub entry: EventId,
}

/// Whether control comes from the node's last block itself or from a function that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Onward,
    Returning,
}

/// Loops that a step within a function leaves and enters, and whether it begins another iteration
/// of the one that is left over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoopChange {
    pub n_left: u16,
    pub n_entered: u16,
    pub iterates: bool,
}

impl LoopChange {
    pub fn is_none(self) -> bool {
        self == LoopChange::default()
    }
}

impl Trie {
    pub fn new(max_nodes: usize) -> Trie {
        let (nodes, links) = (Vec::new(), Vec::new());
        Trie { nodes, links, roots: FxHashMap::default(), by_step: FxHashMap::default(), max_nodes }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    pub fn is_full(&self) -> bool {
        self.nodes.len() >= self.max_nodes
    }

    /// The link of a step, if it was made before.
    #[inline]
    pub fn find(&mut self, from: NodeId, next: BlockRef, direction: Direction) -> Option<LinkId> {
        let [first, second] = self.nodes[from.index()].latest;
        let fits = |link: &Link| link.next == next && link.direction == direction;
        if self.links.get(first.index()).is_some_and(fits) {
            return Some(first);
        }
        if self.links.get(second.index()).is_some_and(fits) {
            return Some(second);
        }
        self.find_older(from, next, direction)
    }

    #[inline(never)]
    fn find_older(&mut self, from: NodeId, next: BlockRef, direction: Direction) -> Option<LinkId> {
        let first = self.nodes[from.index()].latest[0];
        let found = self.by_step.get(&(from, next, direction)).copied()?;
        self.nodes[from.index()].latest = [found, first];
        Some(found)
    }

    pub fn add_link(&mut self, from: NodeId, link: Link) -> LinkId {
        let id = LinkId::next(self.links.len());
        self.links.push(link);
        self.by_step.insert((from, link.next, link.direction), id);
        let latest = &mut self.nodes[from.index()].latest;
        *latest = [id, latest[0]];
        id
    }

    /// The node of a path that begins at a block. Nothing if there is no such block.
    pub fn root(&mut self, known: &mut Known, block: BlockRef, start: Start) -> Option<NodeId> {
        if let Some(&root) = self.roots.get(&(block, start)) {
            return Some(root);
        }
        let root = self.add_node(known, block, start)?;
        self.roots.insert((block, start), root);
        Some(root)
    }

    /// A new node for a path that goes on to `block` along an edge.
    pub fn add_child(
        &mut self,
        known: &mut Known,
        parent: NodeId,
        block: BlockRef,
        edge_event: EventId,
    ) -> Option<NodeId> {
        let Node { start, n_blocks, .. } = *self.node(parent);
        let id = self.add_node(known, block, Start::Unseen)?;
        let node = &mut self.nodes[id.index()];
        (node.start, node.n_blocks, node.parent, node.edge_event) = (start, n_blocks + 1, parent, edge_event);
        Some(id)
    }

    fn add_node(&mut self, known: &mut Known, block: BlockRef, start: Start) -> Option<NodeId> {
        let function = known.code.function_of(block)?;
        let located = known.code.block(block)?;
        let (facts, nest) = (located.block, known.nests.of(&located));
        let is_mid_block = start == Start::MidBlock;
        let is_branch = facts.end == BlockEnd::Branch;
        self.nodes.push(Node {
            block,
            function,
            parent: NodeId::NONE,
            n_blocks: 1,
            start,
            ends_in_return: facts.end == BlockEnd::Return,
            branch: if is_branch { known.histories.row(block) } else { BranchRow::NONE },
            block_event: if is_mid_block { EventId::NONE } else { known.events.number(Event::Block(block)) },
            edge_event: EventId::NONE,
            nest,
            exit: EventId::NONE,
            piece: EventId::NONE,
            latest: [LinkId::NONE; 2],
        });
        Some(NodeId::next(self.nodes.len() - 1))
    }

    /// The event that a path ends at a node, by a back edge or by leaving the function.
    pub fn path_event(&self, events: &mut Events, last: NodeId, back_edge: EventId) -> EventId {
        let stretch = Stretch { last, back_edge };
        let is_whole = self.node(last).start == Start::Seen;
        events.number(if is_whole { Event::Path(stretch) } else { Event::Tail(stretch) })
    }

    /// The event that a path leaves the function at a node.
    pub fn exit_event(&mut self, events: &mut Events, last: NodeId) -> EventId {
        if self.node(last).exit.is_none() {
            self.nodes[last.index()].exit = self.path_event(events, last, EventId::NONE);
        }
        self.node(last).exit
    }

    /// The event that a path was followed up to a node and then lost.
    pub fn piece_event(&mut self, events: &mut Events, last: NodeId) -> EventId {
        let piece = &mut self.nodes[last.index()].piece;
        if piece.is_none() {
            *piece = events.number(Event::Piece(last));
        }
        *piece
    }

    /// The nodes of a path, last to first.
    pub fn ancestry(&self, last: NodeId) -> impl Iterator<Item = &Node> {
        let mut next = last;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next.index())?;
            next = node.parent;
            Some(node)
        })
    }

    /// Counts the blocks and edges of all stretches in a tally.
    pub fn expand(&self, events: &Events, tally: &mut Tally) {
        for position in 0..tally.touched().len() {
            let event = tally.touched()[position];
            let (last, back_edge) = match events.get(event) {
                Event::Path(stretch) | Event::Tail(stretch) => (stretch.last, stretch.back_edge),
                Event::Piece(last) => (last, EventId::NONE),
                _ => continue,
            };
            let count = tally.get(event);
            if !back_edge.is_none() {
                tally.add(back_edge, count);
            }
            for node in self.ancestry(last) {
                for event in [node.block_event, node.edge_event] {
                    if !event.is_none() {
                        tally.add(event, count);
                    }
                }
            }
        }
    }
}
