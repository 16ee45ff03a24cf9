//! The loop nesting forest, irreducible loops included, in almost linear time.
//!
//! A block is a loop *header* if a retreating edge ends there. Its loop is what can get back to it
//! without leaving its subtree of the depth-first tree. These loops are nested or disjoint; the
//! blocks of a natural loop are exactly those of the textbook definition; and every cycle contains
//! its topmost block in the tree, which is a header, together with one of that header's retreating
//! edges. So a probe on every retreating edge meets every cycle, reducible or not.
//!
//! Method: Havlak (1997) as corrected by Ramalingam (1999). Headers are processed bottom-up. Each
//! collects its loop by walking edges backwards from its retreating edges and then collapses it
//! into itself (union-find), so that every block is collected once. Havlak's walk looks at edges
//! that enter a loop from the side again for each enclosing loop, which is quadratic. Ramalingam's
//! remedy: an edge can matter only to loops whose header is above both its ends, so it is kept back
//! until the search reaches the ends' lowest common ancestor in the tree, and then attached between
//! whatever the ends have been collapsed into.
//!
//! The common ancestors also decide reducibility: an edge enters a loop from the side exactly if it
//! ends in the loop, not at its header, and the common ancestor of its ends is above the header.
//! One number per loop, the topmost such ancestor, is enough.

use crate::graph::{BlockId, Digraph, EdgeId};
use crate::order::Order;

/// The loops of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    loops: Vec<Loop>,
    innermost: Vec<Option<LoopId>>,
    /// All blocks in loops, so arranged that each loop, nested loops included, is a contiguous
    /// range that starts at its header.
    members: Vec<BlockId>,
    /// Index of each block in `members`.
    member_position: Vec<u32>,
}

/// Index of a loop in its [`Loops`]; enclosing loops have smaller ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopId(pub u32);

/// A set of blocks that can reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The first of the loop's blocks that the depth-first search meets.
    pub header: BlockId,
    /// The next larger loop around this one.
    pub parent: Option<LoopId>,
    /// Number of loops around this one, plus one.
    pub depth: u32,
    /// The retreating edges to the header, ascending.
    pub back_edges: Vec<EdgeId>,
    /// Whether control can also enter otherwise than through the header.
    pub irreducible: bool,
    first_member: u32,
    n_members: u32,
}

impl LoopId {
    /// The id as an array index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Loops {
    /// Finds all loops; `order` must be that of `graph`.
    #[must_use]
    pub fn new(graph: &Digraph, order: &Order) -> Loops {
        if order.retreating().is_empty() {
            return Loops::none(graph.n_blocks());
        }
        let meetings = Meetings::new(graph, order);
        let enclosing_header = enclosing_headers(graph, order, &meetings);
        let mut loops = Loops::none(graph.n_blocks());
        loops.build_forest(graph, order, &enclosing_header);
        loops.arrange_members(order);
        loops.mark_irreducible(order, &meetings);
        loops
    }

    fn none(n_blocks: usize) -> Loops {
        Loops {
            loops: Vec::new(),
            innermost: vec![None; n_blocks],
            members: Vec::new(),
            member_position: vec![u32::MAX; n_blocks],
        }
    }

    /// All loops, indexed by [`LoopId`].
    #[must_use]
    pub fn all(&self) -> &[Loop] {
        &self.loops
    }

    /// All loop ids, enclosing loops first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = LoopId> + ExactSizeIterator + use<> {
        (0..self.loops.len() as u32).map(LoopId)
    }

    /// The loop with this id.
    #[must_use]
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id.index()]
    }

    /// The smallest loop that contains the block.
    #[must_use]
    pub fn innermost(&self, block: BlockId) -> Option<LoopId> {
        self.innermost[block.index()]
    }

    /// Number of loops that contain the block.
    #[must_use]
    pub fn depth(&self, block: BlockId) -> u32 {
        self.innermost(block).map_or(0, |id| self.get(id).depth)
    }

    /// The loop that the block is the header of.
    #[must_use]
    pub fn headed_by(&self, block: BlockId) -> Option<LoopId> {
        self.innermost(block).filter(|&id| self.get(id).header == block)
    }

    /// The loop's blocks, those of nested loops included, header first.
    #[must_use]
    pub fn blocks(&self, id: LoopId) -> &[BlockId] {
        let Loop { first_member, n_members, .. } = *self.get(id);
        &self.members[first_member as usize..][..n_members as usize]
    }

    /// Whether the block is in the loop or in a loop nested in it.
    #[must_use]
    pub fn contains(&self, id: LoopId, block: BlockId) -> bool {
        let Loop { first_member, n_members, .. } = *self.get(id);
        let position = self.member_position[block.index()];
        (first_member..first_member + n_members).contains(&position)
    }

    /// Blocks other than the header through which control can enter the loop; empty unless the loop
    /// is irreducible.
    #[must_use]
    pub fn extra_entries(&self, graph: &Digraph, id: LoopId) -> Vec<BlockId> {
        if !self.get(id).irreducible {
            return Vec::new();
        }
        let entered_at = |&block: &BlockId| {
            graph.is_entry(block) || graph.predecessors(block).any(|predecessor| !self.contains(id, predecessor))
        };
        self.blocks(id)[1..].iter().copied().filter(entered_at).collect()
    }

    /// Whether every loop has one way in.
    #[must_use]
    pub fn is_reducible(&self) -> bool {
        self.loops.iter().all(|each| !each.irreducible)
    }

    /// Creates the loops in preorder of their headers: an enclosing loop's header is met first.
    fn build_forest(&mut self, graph: &Digraph, order: &Order, enclosing_header: &[Option<BlockId>]) {
        for &block in order.preorder() {
            let parent = enclosing_header[block.index()].and_then(|header| self.innermost[header.index()]);
            let is_back_edge = |id: &EdgeId| order.is_retreating(graph, *id);
            let back_edges: Vec<EdgeId> = graph.in_edges(block).iter().copied().filter(is_back_edge).collect();
            if back_edges.is_empty() {
                self.innermost[block.index()] = parent;
                continue;
            }
            self.innermost[block.index()] = Some(LoopId(self.loops.len() as u32));
            let depth = 1 + parent.map_or(0, |id| self.get(id).depth);
            self.loops.push(Loop {
                header: block,
                parent,
                depth,
                back_edges,
                irreducible: false,
                first_member: 0,
                n_members: 0,
            });
        }
    }

    /// Lays the blocks out so that each loop is contiguous: sizes are summed from inner to outer
    /// loops, starts handed out from outer to inner ones.
    fn arrange_members(&mut self, order: &Order) {
        let in_loops = || order.preorder().iter().filter_map(|&block| Some((block, self.innermost[block.index()]?)));
        let mut n_members = vec![0u32; self.loops.len()];
        in_loops().for_each(|(_, id)| n_members[id.index()] += 1);
        for id in self.ids().rev() {
            if let Some(parent) = self.get(id).parent {
                n_members[parent.index()] += n_members[id.index()];
            }
        }
        let mut next_outermost = 0;
        let mut next_member = vec![0u32; self.loops.len()];
        let mut members = vec![BlockId(0); n_members_in_loops(&self.loops, &n_members)];
        for (block, id) in in_loops() {
            // A header is the first of its loop's blocks in preorder: it reserves room for the
            // whole loop in the enclosing one.
            let this = self.get(id);
            let position = if this.header == block {
                let slot = this.parent.map_or(&mut next_outermost, |parent| &mut next_member[parent.index()]);
                let first = *slot;
                *slot += n_members[id.index()];
                next_member[id.index()] = first + 1;
                first
            } else {
                let slot = &mut next_member[id.index()];
                *slot += 1;
                *slot - 1
            };
            members[position as usize] = block;
            self.member_position[block.index()] = position;
        }
        for (each, n_members) in self.loops.iter_mut().zip(n_members) {
            each.first_member = self.member_position[each.header.index()];
            each.n_members = n_members;
        }
        self.members = members;
    }

    /// A loop is irreducible if control comes to one of its blocks, header excepted, from above the
    /// header.
    fn mark_irreducible(&mut self, order: &Order, meetings: &Meetings) {
        let mut topmost_source = vec![u32::MAX; self.loops.len()];
        for &block in order.preorder() {
            let around = match self.headed_by(block) {
                Some(own) => self.get(own).parent,
                None => self.innermost(block),
            };
            if let Some(id) = around {
                let topmost = &mut topmost_source[id.index()];
                *topmost = meetings.topmost_into(block).min(*topmost);
            }
        }
        for id in self.ids().rev() {
            let topmost = topmost_source[id.index()];
            let header_vertex = order.preorder_position(self.get(id).header) + 1;
            self.loops[id.index()].irreducible = topmost < header_vertex;
            if let Some(parent) = self.get(id).parent {
                let above = &mut topmost_source[parent.index()];
                *above = topmost.min(*above);
            }
        }
    }
}

fn n_members_in_loops(loops: &[Loop], n_members: &[u32]) -> usize {
    let outermost = loops.iter().zip(n_members).filter(|(each, _)| each.parent.is_none());
    outermost.map(|(_, &n)| n as usize).sum()
}

/// Where the ends of each edge meet: their lowest common ancestor in the depth-first tree.
struct Meetings {
    /// Edges that meet at each block and are not retreating, as linked lists: heads by block,
    /// successors by edge.
    first_at: Vec<u32>,
    next: Vec<u32>,
    /// Least preorder number, plus one, at which an edge into each block meets; 0 for entries.
    topmost_into: Vec<u32>,
}

const NO_EDGE: u32 = u32::MAX;

impl Meetings {
    /// Tarjan's off-line method: when a block is finished, each block finished before it hangs, in
    /// a union-find forest of finished subtrees, under its lowest unfinished ancestor; and only the
    /// ancestors of the present block are unfinished.
    fn new(graph: &Digraph, order: &Order) -> Meetings {
        let mut meetings = Meetings {
            first_at: vec![NO_EDGE; graph.n_blocks()],
            next: vec![NO_EDGE; graph.n_edges()],
            topmost_into: vec![u32::MAX; graph.n_blocks()],
        };
        for &entry in graph.entries() {
            meetings.topmost_into[entry.index()] = 0;
        }
        let mut finished = Collapse::new(graph.n_blocks());
        for &block in order.reverse_post().iter().rev() {
            for id in graph.out_edges(block) {
                let Some(to) = graph.edge(id).to else { continue };
                if order.is_retreating(graph, id) {
                    continue;
                }
                meetings.record(graph, order, id, to, finished.find(to));
            }
            if let Some(parent) = order.tree_parent(block) {
                finished.collapse(block, parent);
            }
        }
        meetings
    }

    /// Different trees of the search have no common ancestor: their edges are in no loop and get no
    /// place in the lists.
    fn record(&mut self, graph: &Digraph, order: &Order, id: EdgeId, to: BlockId, unfinished: BlockId) {
        let from = graph.edge(id).from;
        let same_tree = order.reverse_post_position(unfinished) <= order.reverse_post_position(from);
        let topmost = &mut self.topmost_into[to.index()];
        if same_tree {
            *topmost = (order.preorder_position(unfinished) + 1).min(*topmost);
            self.next[id.index()] = std::mem::replace(&mut self.first_at[unfinished.index()], id.0);
        } else {
            *topmost = 0;
        }
    }

    fn topmost_into(&self, block: BlockId) -> u32 {
        self.topmost_into[block.index()]
    }
}

/// The header of the smallest loop around each block, not counting a loop that the block itself
/// heads.
fn enclosing_headers(graph: &Digraph, order: &Order, meetings: &Meetings) -> Vec<Option<BlockId>> {
    let mut enclosing = vec![None; graph.n_blocks()];
    let mut collapsed = Collapse::new(graph.n_blocks());
    // Attached edges by what their targets were collapsed into, as linked lists.
    let mut first_into = vec![NO_EDGE; graph.n_blocks()];
    let mut next_into = vec![NO_EDGE; graph.n_edges()];
    let mut body = Vec::new();
    for &header in order.preorder().iter().rev() {
        let mut id = meetings.first_at[header.index()];
        while id != NO_EDGE {
            if let Some(to) = graph.edge(EdgeId(id)).to {
                let first = &mut first_into[collapsed.find(to).index()];
                next_into[id as usize] = std::mem::replace(first, id);
            }
            id = meetings.next[id as usize];
        }

        let mut collect = |id: EdgeId, body: &mut Vec<BlockId>| {
            let source = collapsed.find(graph.edge(id).from);
            if source != header && enclosing[source.index()].is_none() {
                enclosing[source.index()] = Some(header);
                body.push(source);
            }
        };
        let back_edges = graph.in_edges(header).iter().filter(|id| order.is_retreating(graph, **id));
        back_edges.for_each(|&id| collect(id, &mut body));
        let mut n_expanded = 0;
        while n_expanded < body.len() {
            let mut id = first_into[body[n_expanded].index()];
            while id != NO_EDGE {
                collect(EdgeId(id), &mut body);
                id = next_into[id as usize];
            }
            n_expanded += 1;
        }
        body.drain(..).for_each(|block| collapsed.collapse(block, header));
    }
    enclosing
}

/// Union-find with path halving, in which the representative is chosen by the caller.
struct Collapse {
    into: Vec<BlockId>,
}

impl Collapse {
    fn new(n_blocks: usize) -> Collapse {
        Collapse { into: (0..n_blocks as u32).map(BlockId).collect() }
    }

    /// Makes `into` the representative of everything that `block` represents.
    fn collapse(&mut self, block: BlockId, into: BlockId) {
        self.into[block.index()] = into;
    }

    fn find(&mut self, block: BlockId) -> BlockId {
        let mut at = block;
        while self.into[at.index()] != at {
            let above = self.into[self.into[at.index()].index()];
            self.into[at.index()] = above;
            at = above;
        }
        at
    }
}
