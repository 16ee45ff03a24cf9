//! Depth-first order of a graph: the one traversal that dominators, loops and path numbering share.
//!
//! The search starts at a virtual root whose successors are the entries, primary entry first, so
//! that what counts as going backwards is judged from the normal way in, not from a landing pad. It
//! is iterative: functions with 100,000 blocks exist.
//!
//! Two facts the other modules rely on. An edge is *retreating*, that is, its target was on the
//! search stack when it was seen, exactly if the target's position in reverse post-order is not
//! after its source's. And so reverse post-order is a topological order of what remains of the
//! graph when every retreating edge is removed.

use crate::graph::{BlockId, Digraph, EdgeId};

/// Depth-first numbers of every block of a graph.
///
/// The order is total: a block that no entry reaches is searched from as if it were one more entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    reverse_post: Vec<BlockId>,
    reverse_post_position: Vec<u32>,
    preorder: Vec<BlockId>,
    preorder_position: Vec<u32>,
    tree_parent: Vec<Option<BlockId>>,
    retreating: Vec<EdgeId>,
}

const UNVISITED: u32 = u32::MAX;

impl Order {
    /// Searches the graph, in time linear in its size.
    #[must_use]
    pub fn new(graph: &Digraph) -> Order {
        let n_blocks = graph.n_blocks();
        let mut order = Order {
            reverse_post: Vec::with_capacity(n_blocks),
            reverse_post_position: vec![UNVISITED; n_blocks],
            preorder: Vec::with_capacity(n_blocks),
            preorder_position: vec![UNVISITED; n_blocks],
            tree_parent: vec![None; n_blocks],
            retreating: Vec::new(),
        };
        let mut stack = Vec::new();
        for root in graph.entries().iter().copied().chain(graph.blocks()) {
            if order.preorder_position[root.index()] == UNVISITED {
                order.search(graph, root, &mut stack);
            }
        }
        order.reverse_post.reverse();
        for (position, block) in order.reverse_post.iter().enumerate() {
            order.reverse_post_position[block.index()] = position as u32;
        }
        order.retreating = graph.edge_ids().filter(|&id| order.is_retreating(graph, id)).collect();
        order
    }

    /// Blocks in reverse post-order.
    #[must_use]
    pub fn reverse_post(&self) -> &[BlockId] {
        &self.reverse_post
    }

    /// Position of a block in [`Order::reverse_post`].
    #[must_use]
    pub fn reverse_post_position(&self, block: BlockId) -> u32 {
        self.reverse_post_position[block.index()]
    }

    /// Blocks in the order in which the search met them; every block comes after its tree parent.
    #[must_use]
    pub fn preorder(&self) -> &[BlockId] {
        &self.preorder
    }

    /// Position of a block in [`Order::preorder`].
    #[must_use]
    pub fn preorder_position(&self, block: BlockId) -> u32 {
        self.preorder_position[block.index()]
    }

    /// The block from which the search met this one; `None` if that was the virtual root.
    #[must_use]
    pub fn tree_parent(&self, block: BlockId) -> Option<BlockId> {
        self.tree_parent[block.index()]
    }

    /// All retreating edges, ascending. Removing them leaves an acyclic graph.
    #[must_use]
    pub fn retreating(&self) -> &[EdgeId] {
        &self.retreating
    }

    /// Whether the edge goes back to its own source or to one of its ancestors in the search tree.
    #[must_use]
    pub fn is_retreating(&self, graph: &Digraph, id: EdgeId) -> bool {
        let edge = graph.edge(id);
        edge.to.is_some_and(|to| self.reverse_post_position(to) <= self.reverse_post_position(edge.from))
    }

    /// Appends the search tree under `root` to `preorder` and, in post-order, to `reverse_post`.
    fn search(&mut self, graph: &Digraph, root: BlockId, stack: &mut Vec<(BlockId, u32)>) {
        self.enter(graph, root, stack);
        while let Some((block, next_edge)) = stack.last_mut() {
            let from = *block;
            if *next_edge == graph.out_range(from).end {
                self.reverse_post.push(from);
                stack.pop();
                continue;
            }
            let edge = graph.edge(EdgeId(*next_edge));
            *next_edge += 1;
            if let Some(to) = edge.to
                && self.preorder_position[to.index()] == UNVISITED
            {
                self.tree_parent[to.index()] = Some(from);
                self.enter(graph, to, stack);
            }
        }
    }

    fn enter(&mut self, graph: &Digraph, block: BlockId, stack: &mut Vec<(BlockId, u32)>) {
        self.preorder_position[block.index()] = self.preorder.len() as u32;
        self.preorder.push(block);
        stack.push((block, graph.out_range(block).start));
    }
}
