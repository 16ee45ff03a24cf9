//! What must be done on the ways of one function: at blocks that are found by their address, and on
//! edges.
//!
//! **Blocks.** Every block that is copied with the function has a cell, which goes up on every
//! arrival but those over edges that have cells. A conditional jump that is taken has a cell of its
//! own if the number of times does not follow from those of blocks: because it is the only way out
//! of its block, or the only way into its target, which is the function's own, no entry, and not
//! reached from other functions.

use emit::{CellKind, Counting, Probe};
use flow::callgraph::FunctionId;
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::loops::LoopId;
use flow::{FunctionFlow, Transfer};
use image::Svma;

use super::cells::Cells;
use super::paths::{self, Counter, Rows};
use super::state::{Done, Left, Progress};
use super::{clock, contexts, samples, trigger};
use crate::Fault;
use crate::module::Module;

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
    pub fn new(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Duties, Fault> {
        let Probe::Exact(counting) = module.options.probe else { return Ok(Duties::default()) };
        if counting.has_contexts() {
            let key = contexts::key(module, id, cells)?;
            let mut duties = match paths::context_counter(module, id, cells, key) {
                Some(counter) => paths::duties(module, id, cells, counting.truncation(), counter)?,
                None => Duties { tables: paths::plain_tables(module, id), ..Duties::default() },
            };
            if let Some(metric) = counting.metric().filter(|_| counting.has_path_metric()) {
                duties = clock::timed(duties, metric);
            }
            contexts::add(module, id, key, &mut duties);
            return Ok(duties);
        }
        match counting {
            Counting::Blocks => blocks(module, id, cells),
            Counting::PathMetric(metric) => match paths::counter(module, id, cells)? {
                Some(counter) => {
                    let duties = paths::duties(module, id, cells, counting.truncation(), counter)?;
                    let duties = clock::timed(duties, metric);
                    let n_path_cells = cells.missing_paths(module.original(module.function(id).entry).0);
                    Ok(Duties {
                        n_path_cells,
                        n_listed: duties.n_listed + usize::from(n_path_cells.is_some()),
                        ..duties
                    })
                }
                None => blocks(module, id, cells),
            },
            Counting::Paths | Counting::HeaderPaths => match paths::counter(module, id, cells)? {
                Some(counter) => paths::duties(module, id, cells, counting.truncation(), counter),
                None => blocks(module, id, cells),
            },
            Counting::TracedPaths => match paths::counter(module, id, cells)? {
                Some(counter @ Counter::Table { .. }) => {
                    paths::duties(module, id, cells, counting.truncation(), counter)
                }
                Some(_) => Err(Fault::Cells),
                None => blocks(module, id, cells),
            },
            Counting::SampledPaths => match paths::counter(module, id, cells)? {
                Some(counter @ Counter::Table { .. }) => {
                    paths::duties(module, id, cells, counting.truncation(), counter).map(samples::sampled)
                }
                Some(_) => Err(Fault::Cells),
                None => Ok(Duties::default()),
            },
            Counting::Triggered(trigger) => Ok(trigger::duties(module, id, trigger)),
            _ => Ok(Duties::default()),
        }
    }

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

fn blocks(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Duties, Fault> {
    let function = module.function(id);
    let cfg = &function.cfg;
    let mut duties = Duties {
        arrivals: vec![Done::NOTHING; cfg.blocks.len()],
        edges: vec![Done::NOTHING; cfg.graph.n_edges()],
        ..Duties::default()
    };
    let start = |block: BlockId| module.original(cfg.block(block).range.start).0;
    let mut counts = |kind, at, to| {
        duties.n_listed += 1;
        cells.find(kind, at, to).and_then(|cell| Done::NOTHING.count(cell)).ok_or(Fault::Cells)
    };
    for block in cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
        duties.arrivals[block.index()] = counts(CellKind::Block, start(block), 0)?;
    }
    for edge in cfg.graph.edge_ids() {
        let from = cfg.graph.edge(edge).from;
        let target = taken_to(function, edge).filter(|&target| module.is_in_reach(target));
        let Some(target) = target.filter(|_| module.is_owned(id, from)) else { continue };
        let is_only_way_out = cfg.graph.out_edges(from).count() == 1;
        if !is_only_way_out && !is_only_way_to(module, id, target) {
            let is_inner = module.owned_block_at(id, target).is_some();
            let kind = if is_inner { CellKind::InnerEdge } else { CellKind::Edge };
            duties.edges[edge.index()] = counts(kind, start(from), module.original(target).0)?;
        }
    }
    Ok(duties)
}

/// Where the edge leads if it is that of a conditional jump that is taken. Of the two ways out of a
/// block one follows from the other.
fn taken_to(function: &FunctionFlow, edge: EdgeId) -> Option<Svma> {
    let cfg = &function.cfg;
    let facts = cfg.edge_facts(edge);
    match cfg.block(cfg.graph.edge(edge).from).transfer {
        // What comes next may be another function.
        Transfer::Branch(target) if facts.kind != EdgeKind::FallThrough && facts.target == Some(target) => Some(target),
        _ => None,
    }
}

/// Whether the block at an address, if it is the function's own, is reached in one way only.
fn is_only_way_to(module: &Module<'_, '_>, id: FunctionId, target: Svma) -> bool {
    let graph = &module.function(id).cfg.graph;
    let block = module.owned_block_at(id, target).filter(|_| !module.is_reached(target));
    block.is_some_and(|block| graph.in_edges(block).len() == 1 && !graph.is_entry(block))
}
