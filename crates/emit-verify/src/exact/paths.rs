//! What must be done so that the paths of one function are counted.
//!
//! [`flow::paths`] numbers the paths and says what edges do to the register; its own verifier shows
//! that this yields the numbers. Beyond that:
//!
//! * Arriving at an entry by its address starts a path.
//! * At a return site, a path starts in the middle. Such paths have numbers of their own behind
//!   those of the plan, as many for each return site, in the order of the calls, as there are paths
//!   from it.
//! * Elsewhere a cell counts that the path so far is lost, and the register becomes that of a path
//!   whose sum is 0 there: its number is below that of the paths from there, hence in range.
//! * If all jumps through tables do the same on the way to each of their targets, arriving there
//!   does it. Otherwise arriving does what the row of the jump says, which has a pair for each
//!   target: what to add, and whether that ends the path.

use emit::CellKind;
use flow::callgraph::FunctionId;
use flow::cfg::{Cfg, EdgeKind};
use flow::graph::{BlockId, EdgeId};
use flow::paths::verify::{verify_placement, verify_plan};
use flow::paths::{EdgeAction, EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, max_paths_with_restarts};

use super::cells::Cells;
use super::duties::{Duties, TableArrival};
use super::rows::Rows;
use super::state::{Done, End, Frame};
use crate::Fault;
use crate::module::Module;

/// Where the paths of a function are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    /// In so many cells from this one on.
    Cells { first: u32, n_cells: u32 },
    /// In the path table, by this key.
    Table { key: u32 },
    /// In the path table, by the thread's context.
    Context,
}

/// Registers and what is added to them are below this where paths have cells: no sum of two leaves
/// 32 bits.
const MAX_REGISTER: u64 = 1 << 27;

/// Where the copy says that the function's paths are counted; `None` if nowhere.
pub(super) fn counter(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Option<Counter>, Fault> {
    let entry = module.original(module.function(id).entry).0;
    match (cells.paths(entry), cells.key(entry)) {
        (Some((first, n_cells)), None) => Ok(Some(Counter::Cells { first, n_cells })),
        (None, Some(key)) => Ok(Some(Counter::Table { key })),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Fault::Cells),
    }
}

/// Where the function counts its paths that has contexts with this key; `None` if nowhere.
pub(super) fn context_counter(
    module: &Module<'_, '_>,
    id: FunctionId,
    cells: &Cells,
    key: Option<u32>,
) -> Option<Counter> {
    let entry = module.original(module.function(id).entry).0;
    let counts = key.is_some() && cells.find(CellKind::LostPaths, entry, 0).is_some();
    counts.then_some(Counter::Context)
}

/// What is done on arrival through tables where that is nothing.
pub(super) fn plain_tables(module: &Module<'_, '_>, id: FunctionId) -> Vec<Option<TableArrival>> {
    let cfg = &module.function(id).cfg;
    let mut tables = vec![None; cfg.blocks.len()];
    for (_, to) in table_edges(cfg) {
        tables[to.index()] = Some(TableArrival { done: Done::NOTHING, at_row_end: None });
    }
    tables
}

impl Counter {
    /// A value of the register, or a difference, as code has it.
    fn amount(self, amount: i64) -> Result<i32, Fault> {
        match self {
            Counter::Cells { .. } if amount.unsigned_abs() >= MAX_REGISTER => Err(Fault::Paths),
            // The number of a path in the table has 32 bits.
            _ => Ok(amount as i32),
        }
    }

    fn end(self, register: Frame, id_offset: i64) -> Result<End, Fault> {
        let amount = self.amount(id_offset)?;
        match self {
            Counter::Cells { first, .. } => Ok(End::Cell(i64::from(first) + i64::from(amount), register)),
            Counter::Table { key } => register.plus(amount).map(|path| End::Table(key, path)).ok_or(Fault::Paths),
            Counter::Context => register.plus(amount).map(End::OfContext).ok_or(Fault::Paths),
        }
    }

    fn done(self, action: EdgeAction) -> Result<Done, Fault> {
        Ok(match action {
            EdgeAction::Pass => Done::NOTHING,
            EdgeAction::Add(amount) => Done { frame: Frame::Kept(self.amount(amount)?), ..Done::NOTHING },
            EdgeAction::End { id_offset, restart } => {
                let end = Some(self.end(Frame::Kept(0), id_offset)?);
                Done { end, ..self.start(restart, Frame::Kept(0))? }
            }
        })
    }

    /// The register becomes this, if anything.
    fn start(self, register: Option<i64>, otherwise: Frame) -> Result<Done, Fault> {
        let frame = register.map(|register| self.amount(register).map(Frame::Is)).transpose()?;
        Ok(Done { frame: frame.unwrap_or(otherwise), ..Done::NOTHING })
    }
}

pub(super) fn duties(
    module: &Module<'_, '_>,
    id: FunctionId,
    cells: &Cells,
    truncation: Truncation,
    counter: Counter,
) -> Result<Duties, Fault> {
    let function = module.function(id);
    let cfg = &function.cfg;
    let weights = function.path_weights();
    let order = EdgeOrder::Smart(&weights);
    let max_paths = max_paths_with_restarts(n_return_sites(cfg));
    let plan = PathPlan::new(&cfg.graph, &PlanOptions { truncation, order, max_paths });
    let placement = Placement::spanning_tree(&plan, &weights);
    verify_plan(&plan).and_then(|()| verify_placement(&plan, &placement)).map_err(|_| Fault::Paths)?;

    let (restarts, n_ids) = restarts(cfg, &plan, &placement);
    let has_numbers = match counter {
        Counter::Cells { n_cells, .. } => u64::from(n_cells) == n_ids,
        // A number has 32 bits.
        Counter::Table { .. } | Counter::Context => n_ids <= 1 << 32,
    };
    has_numbers.then_some(()).ok_or(Fault::Paths)?;
    let lost = cells.find(CellKind::LostPaths, module.original(function.entry).0, 0).ok_or(Fault::Cells)?;
    let start_at =
        |block: BlockId| plan.start_value(block).map(|value| (value as i64).wrapping_sub(placement.potential(block)));
    let arrival = |block: BlockId| {
        let entry = if cfg.graph.is_entry(block) { start_at(block) } else { None };
        match entry.or(restarts[block.index()]) {
            Some(register) => counter.start(Some(register), Frame::Kept(0)),
            None => {
                let done = counter.start(Some(placement.potential(block).wrapping_neg()), Frame::Kept(0))?;
                done.count(lost).ok_or(Fault::Cells)
            }
        }
    };
    let edges: Vec<Done> =
        placement.actions().iter().map(|&action| counter.done(action)).collect::<Result<_, Fault>>()?;
    let mut duties = Duties {
        arrivals: cfg.graph.blocks().map(arrival).collect::<Result<_, Fault>>()?,
        tables: vec![None; cfg.blocks.len()],
        rows: rows(cfg, &placement, counter)?,
        skips_arrivals: true,
        passes: Vec::new(),
        boring: Vec::new(),
        n_listed: if matches!(counter, Counter::Context) { 1 } else { 2 },
        edges,
        n_path_cells: None,
    };
    for (edge, to) in table_edges(cfg) {
        let by_row = duties.rows.as_ref().map(|rows| arrival_by_row(rows, to, start_at(to), counter)).transpose()?;
        let arrival = by_row.unwrap_or(TableArrival { done: duties.done_on(Some(edge)), at_row_end: None });
        duties.tables[to.index()] = Some(arrival);
    }
    Ok(duties)
}

/// Blocks that calls return to.
fn n_return_sites(cfg: &Cfg) -> usize {
    let is_returned_to =
        |&block: &BlockId| cfg.graph.in_edges(block).iter().any(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call);
    cfg.graph.blocks().filter(is_returned_to).count()
}

/// The registers of paths that start at return sites, by block, and the number of all paths.
fn restarts(cfg: &Cfg, plan: &PathPlan, placement: &Placement) -> (Vec<Option<i64>>, u64) {
    let mut n_ids = plan.n_paths();
    let mut restarts = vec![None; cfg.blocks.len()];
    for edge in cfg.graph.edge_ids().filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call) {
        let Some(to) = cfg.graph.edge(edge).to else { continue };
        if restarts[to.index()].is_none() {
            restarts[to.index()] = Some((n_ids as i64).wrapping_sub(placement.potential(to)));
            n_ids = n_ids.saturating_add(plan.paths_from(to));
        }
    }
    (restarts, n_ids)
}

/// Edges of jump tables to blocks of the function, and where they lead.
fn table_edges(cfg: &Cfg) -> impl Iterator<Item = (EdgeId, BlockId)> {
    let edges = cfg.graph.edge_ids().filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::JumpTable);
    edges.filter_map(|edge| Some((edge, cfg.graph.edge(edge).to?)))
}

/// `None` if arriving somewhere does the same whichever jump led there.
fn rows(cfg: &Cfg, placement: &Placement, counter: Counter) -> Result<Option<Rows>, Fault> {
    let mut first: Vec<Option<EdgeAction>> = vec![None; cfg.blocks.len()];
    let agree = table_edges(cfg).all(|(edge, to)| {
        let action = placement.action(edge);
        *first[to.index()].get_or_insert(action) == action
    });
    if agree {
        return Ok(None);
    }
    let mut targets: Vec<BlockId> = table_edges(cfg).map(|(_, to)| to).collect();
    targets.sort_unstable();
    targets.dedup();
    let amount = |(edge, to): (EdgeId, BlockId)| {
        let (amount, is_end) = match placement.action(edge) {
            EdgeAction::Pass => (0, false),
            EdgeAction::Add(amount) => (amount, false),
            EdgeAction::End { id_offset, .. } => (id_offset, true),
        };
        Ok((cfg.graph.edge(edge).from, to, counter.amount(amount)?, is_end))
    };
    let mut amounts: Vec<_> = table_edges(cfg).map(amount).collect::<Result<_, Fault>>()?;
    amounts.sort_unstable();
    Ok(Some(Rows { targets, amounts }))
}

/// Arriving at a block through a table does what the row says.
fn arrival_by_row(rows: &Rows, to: BlockId, restart: Option<i64>, counter: Counter) -> Result<TableArrival, Fault> {
    let frame = Frame::PlusRow(rows.index_of(to).ok_or(Fault::Paths)?);
    let end = Some(counter.end(frame, 0)?);
    let at_row_end = Some(Done { end, ..counter.start(restart, frame)? });
    Ok(TableArrival { done: Done { frame, ..Done::NOTHING }, at_row_end })
}
