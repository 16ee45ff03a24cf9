//! What the probes of one function do.

use flow::cfg::{EdgeFacts, EdgeKind};
use flow::graph::{BlockId, Edge, EdgeId};
use flow::{FunctionFlow, Transfer};

use super::code::{Paths, RowEntry};
use super::{Code, Counting, paths, trigger};
use crate::cell::{Cell, CellKind};
use crate::chunk::{Chunk, Owner};
use crate::module::Module;
use flow::callgraph::FunctionId;

/// What the probes of one function do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// By block: what control does that finds the block by its address.
    arrivals: Vec<Code>,
    /// By block: what control does that comes from a jump table of the function, if that is
    /// something else.
    table_arrivals: Vec<Option<Code>>,
    /// By block: what a jump through a table leaves for the block that it leads to, if that has to
    /// know.
    rows: Vec<(BlockId, Vec<RowEntry>)>,
    /// By edge.
    edges: Vec<Code>,
    /// Whether control that comes over a known edge passes the code for arrivals, too, unless the
    /// edge has code of its own.
    pub edges_arrive: bool,
    /// By block: whether no values are noted there, where there are such blocks.
    silent: Vec<bool>,
}

impl Plan {
    /// `has_context` says whether the function has calling contexts of its own.
    pub fn new(
        module: &Module<'_, '_>,
        id: FunctionId,
        counting: Counting,
        has_context: bool,
        chunk: &mut Chunk,
    ) -> Plan {
        match counting {
            Counting::Nothing => Plan::nothing(module.function(id)),
            Counting::Blocks => Plan::blocks(module, id, chunk),
            Counting::Paths | Counting::HeaderPaths | Counting::PathMetric(_) | Counting::TracedPaths => {
                let plan = paths::plan(module, id, counting.truncation(), None, chunk);
                plan.unwrap_or_else(|| Plan::blocks(module, id, chunk))
            }
            Counting::SampledPaths => {
                let plan = paths::plan(module, id, counting.truncation(), None, chunk);
                plan.unwrap_or_else(|| Plan::nothing(module.function(id)))
            }
            Counting::Contexts(contexts) if contexts.paths && has_context => {
                let paths = Paths::Table { owner: Owner::Context, metric: contexts.metric };
                let plan = paths::plan(module, id, counting.truncation(), Some(paths), chunk);
                plan.unwrap_or_else(|| Plan::apart(module.function(id)))
            }
            Counting::Contexts(_) => Plan::apart(module.function(id)),
            Counting::Triggered(trigger) => trigger::plan(module, id, &trigger),
        }
    }

    fn nothing(function: &FunctionFlow) -> Plan {
        let cfg = &function.cfg;
        Plan {
            arrivals: vec![Code::Nothing; cfg.blocks.len()],
            table_arrivals: Vec::new(),
            rows: Vec::new(),
            edges: vec![Code::Nothing; cfg.graph.n_edges()],
            edges_arrive: true,
            silent: Vec::new(),
        }
    }

    /// Nothing, but known edges and jumps through tables skip what arrivals do.
    fn apart(function: &FunctionFlow) -> Plan {
        let mut table_arrivals = vec![None; function.cfg.blocks.len()];
        for (_, to) in paths::table_edges(&function.cfg) {
            table_arrivals[to.index()] = Some(Code::Nothing);
        }
        Plan { table_arrivals, edges_arrive: false, ..Plan::nothing(function) }
    }

    pub(super) fn paths(
        arrivals: Vec<Code>,
        table_arrivals: Vec<Option<Code>>,
        rows: Vec<(BlockId, Vec<RowEntry>)>,
        edges: Vec<Code>,
    ) -> Plan {
        Plan { arrivals, table_arrivals, rows, edges, edges_arrive: false, silent: Vec::new() }
    }

    /// Control passes what arrivals do unless its edge has something of its own. In blocks that are
    /// `silent`, no values are noted.
    pub(super) fn arriving(arrivals: Vec<Code>, edges: Vec<Code>, silent: Vec<bool>) -> Plan {
        Plan { arrivals, table_arrivals: Vec::new(), rows: Vec::new(), edges, edges_arrive: true, silent }
    }

    fn blocks(module: &Module<'_, '_>, id: FunctionId, chunk: &mut Chunk) -> Plan {
        let function = module.function(id);
        let cfg = &function.cfg;
        let mut plan = Plan::nothing(function);
        let start = |block: BlockId| module.original(cfg.block(block).range.start).0;
        for block in cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
            let cell = chunk.new_cells(Cell { kind: CellKind::Block, at: start(block), to: 0 });
            plan.arrivals[block.index()] = Code::Count(cell);
        }
        for edge in cfg.graph.edge_ids() {
            let Edge { from, to } = cfg.graph.edge(edge);
            let EdgeFacts { kind, target: Some(target) } = cfg.edge_facts(edge) else { continue };
            let is_only_way_in = to.is_some_and(|to| {
                let is_inner = module.is_owned(id, to) && !cfg.graph.is_entry(to) && !module.is_reached(target);
                is_inner && cfg.graph.in_edges(to).len() == 1
            });
            let follows = is_only_way_in || cfg.graph.out_edges(from).count() == 1;
            let is_taken = kind != EdgeKind::FallThrough && cfg.block(from).transfer == Transfer::Branch(target);
            if is_taken && !follows && module.is_owned(id, from) && module.is_in_reach(target) {
                let (at, to) = (start(from), module.original(target).0);
                let is_inner = module.owned_block_at(id, target).is_some();
                let kind = if is_inner { CellKind::InnerEdge } else { CellKind::Edge };
                plan.edges[edge.index()] = Code::Count(chunk.new_cells(Cell { kind, at, to }));
            }
        }
        plan
    }

    /// What happens on arrival at a block by its address.
    pub fn arrival(&self, block: BlockId) -> Code {
        self.arrivals[block.index()]
    }

    /// What happens on arrival at a block through a jump table; `None` if that is the same.
    pub fn table_arrival(&self, block: BlockId) -> Option<Code> {
        self.table_arrivals.get(block.index()).copied().flatten()
    }

    /// The row of the jump through a table at the end of a block, if it needs one.
    pub fn row(&self, block: BlockId) -> Option<&[RowEntry]> {
        let index = self.rows.binary_search_by_key(&block, |&(source, _)| source).ok()?;
        Some(&self.rows[index].1)
    }

    /// Whether control that comes over an edge to a block of the function passes the code for
    /// arrivals there.
    pub fn arrives(&self, edge: Option<EdgeId>) -> bool {
        self.edges_arrive && edge.is_none_or(|edge| self.edge(edge) == Code::Nothing)
    }

    /// Whether values are noted in a block.
    pub fn notes(&self, block: BlockId) -> bool {
        !self.silent.get(block.index()).copied().unwrap_or(false)
    }

    /// What happens on an edge.
    pub fn edge(&self, edge: EdgeId) -> Code {
        self.edges[edge.index()]
    }
}
