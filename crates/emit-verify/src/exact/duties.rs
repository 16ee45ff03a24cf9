//! What must be done on the ways of one function: at blocks that are found by their address, and on
//! edges.

use flow::graph::{BlockId, EdgeId};
use flow::loops::LoopId;

use super::rows::Rows;
use super::state::{Done, Left, Progress};

/// What a walk must have done where it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duty {
    /// At the block's probe, if the walk may end there.
    pub before: Option<Done>,
    /// Behind it, if the walk may end there.
    pub behind: Option<Done>,
    /// The same if the row of a jump through a table says that the path ends; then it must have
    /// been asked.
    pub at_row_end: Option<Done>,
    /// Where control is gone, to the gate or to an address that only the thread knows.
    pub gone: Done,
    /// What a call must leave for when it has returned.
    pub leaves: Left,
    /// Whether control goes through a jump table.
    pub by_table: bool,
}

impl Duty {
    /// Not to count anything.
    pub const NOTHING: Duty = Duty {
        before: Some(Done::NOTHING),
        behind: Some(Done::NOTHING),
        at_row_end: None,
        gone: Done::NOTHING,
        leaves: Left { has_path: false, has_context: false, has_metric: false, site: None, has_key: false },
        by_table: false,
    };

    /// To do this, and then go elsewhere: to another function by an address, or to the gate.
    pub fn elsewhere(done: Done) -> Duty {
        Duty { before: Some(done), behind: None, gone: done, ..Duty::NOTHING }
    }

    /// Whether `progress` is what is to be done behind the probe.
    pub fn is_behind(&self, progress: &Progress) -> bool {
        let expected = match (progress.row_ends, self.at_row_end) {
            (None, None) | (Some(false), Some(_)) => self.behind,
            (Some(true), end) => end,
            (None, Some(_)) | (Some(false), None) => None,
        };
        expected.is_some_and(|expected| progress.done.fulfils(expected))
    }
}

/// What must be done when a block is reached through a jump table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableArrival {
    pub done: Done,
    pub at_row_end: Option<Done>,
}

/// What must be done on the ways of one function. What is not listed must do nothing.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    pub(super) arrivals: Vec<Done>,
    pub(super) edges: Vec<Done>,
    pub(super) tables: Vec<Option<TableArrival>>,
    pub(super) rows: Option<Rows>,
    /// Whether control that comes over an edge skips what arrivals do.
    pub(super) skips_arrivals: bool,
    /// By edge: whether control that comes over it does, though it does nothing else.
    pub(super) passes: Vec<bool>,
    /// By loop: whether nothing is checked or recorded there.
    pub(super) boring: Vec<bool>,
    /// Cells of paths, if others behind them count misses.
    pub n_path_cells: Option<u32>,
    /// Entries of the copy's list of cells that the function has.
    pub n_listed: usize,
}

impl Duties {
    /// On the way through the probe of a block, whose address is all that is known.
    pub fn arrival(&self, block: BlockId) -> Duty {
        Duty { before: None, behind: Some(self.done_at(block)), ..Duty::NOTHING }
    }

    /// On the way to a block that was found in a jump table.
    pub fn table_arrival(&self, block: BlockId) -> Duty {
        match self.tables.get(block.index()).copied().flatten() {
            Some(TableArrival { done, at_row_end }) => {
                Duty { before: None, behind: Some(done), at_row_end, ..Duty::NOTHING }
            }
            None => Duty::elsewhere(Done::NOTHING),
        }
    }

    /// On the way over an edge to a block of the function.
    pub fn edge_to(&self, edge: Option<EdgeId>, to: BlockId) -> Duty {
        let done = self.done_on(edge);
        let passes = edge.is_some_and(|edge| self.passes.get(edge.index()) == Some(&true));
        if self.skips_arrivals || passes || done != Done::NOTHING {
            return Duty { before: None, behind: Some(done), ..Duty::NOTHING };
        }
        Duty { before: Some(done), behind: Some(self.done_at(to)), ..Duty::NOTHING }
    }

    /// Whether nothing is checked, recorded or noted in a loop.
    pub fn is_boring(&self, id: LoopId) -> bool {
        self.boring.get(id.index()) == Some(&true)
    }

    /// What must be done on an edge.
    pub fn done_on(&self, edge: Option<EdgeId>) -> Done {
        edge.and_then(|edge| self.edges.get(edge.index())).copied().unwrap_or(Done::NOTHING)
    }

    /// What must be done on arrival at a block by its address.
    pub fn done_at(&self, block: BlockId) -> Done {
        self.arrivals.get(block.index()).copied().unwrap_or(Done::NOTHING)
    }
}
