//! Copies that are never left, and what they count.
//!
//! A burst ends after some checks; a copy for exact mode does not. It has no checks and no buffer; wherever a copy would leave, it goes to
//! the runtime's gate instead (`crate::stubs`), and calls and returns have ways of their own (`transfers`). What it counts is laid out in
//! [`wire::exact`]: *cells*, counters of 8 bytes at a fixed distance from `gs:`, of which every module has a range.
//!
//! What a function's probes do is decided before it is written ([`Plan`]): something on arrival at a block, something on edges.
//!
//! * **Blocks.** A cell for every block. Edges follow from them where a block has one way in or one way out; a conditional jump that is
//!   taken has a cell of its own if its edge does not follow, also where it leaves the function.
//! * **Paths.** See [`paths`].
//! * **Contexts.** See [`contexts`].

pub(crate) mod code;
mod computed;
pub(crate) mod contexts;
mod paths;
mod plan;
mod tables;
pub(crate) mod transfers;

use flow::paths::Truncation;

pub(crate) use code::Code;
pub(crate) use plan::Plan;

/// What copies for exact mode count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Nothing: the cost of running in copies, apart from that of counting.
    Nothing,
    /// Blocks, and the edges that do not follow from them.
    Blocks,
    /// Ball-Larus paths, which end at back edges.
    Paths,
    /// Ball-Larus paths, which end wherever control comes to a loop header.
    HeaderPaths,
    /// Calls, by calling context.
    Contexts,
    /// The same, and Ball-Larus paths by calling context.
    ContextPaths,
    /// Calls and cycles, by calling context.
    ContextCycles,
}

impl Counting {
    /// Whether paths are counted.
    #[must_use]
    pub fn has_paths(self) -> bool {
        matches!(self, Counting::Paths | Counting::HeaderPaths | Counting::ContextPaths)
    }

    /// Where paths are cut.
    #[must_use]
    pub fn truncation(self) -> Truncation {
        if self == Counting::HeaderPaths { Truncation::LoopHeaders } else { Truncation::BackEdges }
    }

    /// Whether calling contexts are kept.
    #[must_use]
    pub fn has_contexts(self) -> bool {
        matches!(self, Counting::Contexts | Counting::ContextPaths | Counting::ContextCycles)
    }
}

/// What a counter counts. Addresses are relative to the image base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What is counted.
    pub kind: CellKind,
    /// The block, jump or call, or the function's entry.
    pub at: u32,
    /// The block that an edge leads to; for paths, the number of cells.
    pub to: u32,
}

/// Kinds of cells.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellKind {
    /// Executions of the block `at`.
    Block = 0,
    /// Times that the jump at the end of block `at` went to block `to`.
    Edge = 1,
    /// Two cells of the indirect call or jump `at`: the first target, and its twin.
    Target = 2,
    /// The first of `to` cells, one for each path of the function at `at`.
    Paths = 3,
    /// The function at `at` counts its paths in the path table, by its key `to`; has no cell.
    HashedPaths = 4,
    /// Arrivals in the function at `at` where the path so far is not known.
    LostPaths = 5,
    /// The function at `at` has calling contexts, by its key `to`; has no cell.
    Context = 6,
}

impl CellKind {
    /// Whether `to` is the function's key.
    pub(crate) fn has_key(self) -> bool {
        matches!(self, CellKind::HashedPaths | CellKind::Context)
    }

    pub(crate) fn from_u8(number: u8) -> Option<CellKind> {
        use CellKind::{Block, Context, Edge, HashedPaths, LostPaths, Paths, Target};
        [Block, Edge, Target, Paths, HashedPaths, LostPaths, Context].into_iter().find(|&kind| kind as u8 == number)
    }
}

impl Cell {
    /// Number of counters.
    #[must_use]
    pub fn n_cells(&self) -> u32 {
        match self.kind {
            CellKind::Block | CellKind::Edge | CellKind::LostPaths => 1,
            CellKind::Target => 2,
            CellKind::Paths => self.to,
            CellKind::HashedPaths | CellKind::Context => 0,
        }
    }
}
