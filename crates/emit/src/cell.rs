//! What the counters of a copy count.
//!
//! Copies list it, in the order of the counters, so that whoever reads them needs no more than the
//! list.

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
    /// Executions of the block `at`, but for those after an edge that has a cell.
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
    /// The call at `at` has, likewise.
    CallSite = 7,
    /// The first of `to` cells behind those of [`CellKind::Paths`]: misses on each path of the
    /// function at `at`.
    PathMisses = 8,
    /// Times that the jump at the end of block `at` went to block `to` of the same function. The
    /// cell of that block leaves them out.
    InnerEdge = 9,
    /// The indirect call at `at` counts whom it calls in the path table, by its key `to`; has no
    /// cell.
    Callees = 10,
}

impl CellKind {
    /// Whether `to` is a key.
    #[must_use]
    pub fn has_key(self) -> bool {
        matches!(self, CellKind::HashedPaths | CellKind::Context | CellKind::CallSite | CellKind::Callees)
    }

    /// Whether `to` is where an edge leads.
    #[must_use]
    pub fn is_edge(self) -> bool {
        matches!(self, CellKind::Edge | CellKind::InnerEdge)
    }

    pub(crate) fn from_u8(number: u8) -> Option<CellKind> {
        use CellKind::{
            Block, CallSite, Callees, Context, Edge, HashedPaths, InnerEdge, LostPaths, PathMisses, Paths, Target,
        };
        [Block, Edge, Target, Paths, HashedPaths, LostPaths, Context, CallSite, PathMisses, InnerEdge, Callees]
            .into_iter()
            .find(|&kind| kind as u8 == number)
    }
}

impl Cell {
    /// Number of counters.
    #[must_use]
    pub fn n_cells(&self) -> u32 {
        match self.kind {
            CellKind::Block | CellKind::Edge | CellKind::InnerEdge | CellKind::LostPaths => 1,
            CellKind::Target => 2,
            CellKind::Paths | CellKind::PathMisses => self.to,
            CellKind::HashedPaths | CellKind::Context | CellKind::CallSite | CellKind::Callees => 0,
        }
    }
}
