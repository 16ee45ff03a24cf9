//! Ball-Larus path numbering (Ball and Larus 1996; PEP, Bond and McKinley 2005, figures 2-4), for
//! any control-flow graph.
//!
//! **Problem.** Give every acyclic path of a function a number in `[0, N)`, so that one register
//! and one addition on some edges yield the number of the path just taken; and get the path back
//! from the number.
//!
//! **Method.** A set of *cut* edges is chosen whose removal leaves an acyclic graph. A path starts
//! at a *start block*: an entry of the graph, or the target of a cut edge. It ends by an *end
//! edge*: an exit or a cut edge; taking a cut edge ends one path and starts the next at the edge's
//! target. In the acyclic graph with a virtual ENTRY before all start blocks and a virtual EXIT
//! after all end edges, `paths_from(v)` is the sum, over the edges out of `v`, of 1 for an end edge
//! and `paths_from(w)` for `v -> w`. An edge's *value* is the partial sum of the edges before it,
//! in some order. Hence the invariant that everything rests on and that [`verify`] checks: the
//! intervals `[value(e), value(e) + width(e))` of the edges out of `v` tile `[0, paths_from(v))`,
//! and those of the starts tile `[0, N)`. By induction from EXIT, path sums are unique and dense,
//! and walking down the intervals inverts them.
//!
//! **Where paths are cut** ([`Truncation`]). Either at the retreating edges; or at every edge into
//! a target of a retreating edge, so that paths end at loop headers (PEP figure 3). Both make
//! reverse post-order a topological order, irreducible loops included. A start block gets one
//! virtual edge from ENTRY, however many cut edges lead to it: two paths with the same blocks and
//! the same end edge are one path, whatever was before.
//!
//! **Order of the edges** ([`EdgeOrder`]). Classic: by id. Smart: hottest first, so that it has
//! value 0 and needs no addition.
//!
//! **Too many paths.** `N` grows exponentially with the code. If it exceeds `max_paths`, further
//! edges are cut until it does not, by the rule in the header of `cuts.rs`; no function is refused,
//! and what was cut is listed ([`PathPlan::extra_cuts`]). One path per edge is always enough, so a
//! limit below the number of edges is raised to that number.
//!
//! **Partial paths** (PEP 3.2). The sum on arrival at a block, before an edge out of it is chosen,
//! is the number of the full path that continues along the zero-valued edges. So decoding that
//! number and stopping at the block gives the prefix.
//!
//! Where the additions go is a separate question: see [`placement`].

mod cuts;
mod decode;
mod numbering;
pub mod placement;
pub mod verify;
mod weights;

pub use decode::Path;
pub use placement::{EdgeAction, Placement};
pub use weights::estimate_weights;

use crate::graph::{BlockId, Digraph, EdgeId};
use crate::order::Order;

/// Limit on the number of paths of one function that leaves room for 32-bit path ids.
pub const DEFAULT_MAX_PATHS: u64 = 1 << 32;

/// The same if paths that start in the middle, at so many further blocks, have numbers of their
/// own: from no block are there more paths than in all.
#[must_use]
pub const fn max_paths_with_restarts(n_restarts: usize) -> u64 {
    DEFAULT_MAX_PATHS / (1 + n_restarts as u64)
}

/// A numbering of all paths of one function. It contains its graph, so that recorded numbers can be
/// decoded long after analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct PathPlan {
    graph: Digraph,
    is_cut: Vec<bool>,
    extra_cuts: Vec<EdgeId>,
    log2_paths_before_extra_cuts: f64,
    values: Vec<u64>,
    paths_from: Vec<u64>,
    /// Ascending in value.
    starts: Vec<Start>,
    start_index: Vec<Option<u32>>,
    n_paths: u64,
}

/// How to number the paths of a function.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions<'w> {
    /// Where paths are cut.
    pub truncation: Truncation,
    /// In which order the edges out of a block get their values.
    pub order: EdgeOrder<'w>,
    /// Most paths that the plan may have; [`DEFAULT_MAX_PATHS`] unless there is a reason.
    pub max_paths: u64,
}

/// Which edges end a path so that the rest of the graph is acyclic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The retreating edges.
    BackEdges,
    /// Every edge into a block that is the target of a retreating edge.
    LoopHeaders,
}

/// In which order the edges out of a block get their values.
#[derive(Clone, Copy, Debug)]
pub enum EdgeOrder<'w> {
    /// By edge id.
    Classic,
    /// By decreasing weight, one weight per edge. Weights also steer extra cuts towards cold edges.
    Smart(&'w [u64]),
}

/// Number of a path within its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u64);

/// A block where paths start, and the value of the virtual edge to it: the least number of a path
/// that starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Where the path starts.
    pub block: BlockId,
    /// The path sum on arrival at `block`.
    pub value: u64,
}

impl PathPlan {
    /// Numbers the paths of `graph`.
    ///
    /// # Panics
    /// If there are weights, but not one per edge.
    #[must_use]
    pub fn new(graph: &Digraph, options: &PlanOptions<'_>) -> PathPlan {
        PathPlan::with_order(graph, &Order::new(graph), options)
    }

    /// As [`PathPlan::new`], when the depth-first order of `graph` is known already.
    ///
    /// # Panics
    /// If there are weights, but not one per edge.
    #[must_use]
    pub fn with_order(graph: &Digraph, order: &Order, options: &PlanOptions<'_>) -> PathPlan {
        if let EdgeOrder::Smart(weights) = options.order {
            assert_eq!(weights.len(), graph.n_edges(), "one weight per edge");
        }
        let cuts = cuts::choose(graph, order, options);
        numbering::number(graph.clone(), cuts, options.order)
    }

    /// The graph whose paths are numbered.
    #[must_use]
    pub fn graph(&self) -> &Digraph {
        &self.graph
    }

    /// Number of paths; ids are below it.
    #[must_use]
    pub fn n_paths(&self) -> u64 {
        self.n_paths
    }

    /// Number of paths that start, or continue, at `block`.
    #[must_use]
    pub fn paths_from(&self, block: BlockId) -> u64 {
        self.paths_from[block.index()]
    }

    /// What the edge adds to the path sum.
    #[must_use]
    pub fn value(&self, edge: EdgeId) -> u64 {
        self.values[edge.index()]
    }

    /// Whether the edge stays in the function but ends a path.
    #[must_use]
    pub fn is_cut(&self, edge: EdgeId) -> bool {
        self.is_cut[edge.index()]
    }

    /// Whether a path that takes the edge ends there.
    #[must_use]
    pub fn is_end(&self, edge: EdgeId) -> bool {
        self.inner_target(edge).is_none()
    }

    /// The block at which a path that takes the edge continues; `None` if the edge ends it.
    #[must_use]
    pub fn inner_target(&self, edge: EdgeId) -> Option<BlockId> {
        self.graph.edge(edge).to.filter(|_| !self.is_cut(edge))
    }

    /// Blocks where paths start, ascending in value.
    #[must_use]
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// The value of the virtual edge to `block`; `None` if no path starts there.
    #[must_use]
    pub fn start_value(&self, block: BlockId) -> Option<u64> {
        let index = (*self.start_index.get(block.index())?)?;
        self.starts.get(index as usize).map(|start| start.value)
    }

    /// Edges cut only because there would be too many paths otherwise, ascending.
    #[must_use]
    pub fn extra_cuts(&self) -> &[EdgeId] {
        &self.extra_cuts
    }

    /// Logarithm to base 2 of the number of paths that the truncation alone would leave.
    #[must_use]
    pub fn log2_paths_before_extra_cuts(&self) -> f64 {
        self.log2_paths_before_extra_cuts
    }
}
