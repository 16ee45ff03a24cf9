//! What the probes of one function do.

use flow::FunctionFlow;
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};

use super::code::RowEntry;
use super::{Cell, CellKind, Code, Counting, paths};
use crate::chunk::Chunk;
use crate::module::Module;
use flow::callgraph::FunctionId;

/// What the probes of one function do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// By block: what control does that finds the block by its address.
    arrivals: Vec<Code>,
    /// By block: what control does that comes from a jump table of the function, if that is something else.
    table_arrivals: Vec<Option<Code>>,
    /// By block: what a jump through a table leaves for the block that it leads to, if that has to know.
    rows: Vec<(BlockId, Vec<RowEntry>)>,
    /// By edge.
    edges: Vec<Code>,
    /// Whether control that comes over a known edge passes the code for arrivals, too.
    pub edges_arrive: bool,
}

impl Plan {
    pub fn new(module: &Module<'_, '_>, id: FunctionId, counting: Counting, chunk: &mut Chunk) -> Plan {
        match counting {
            Counting::Nothing => Plan::nothing(module.function(id)),
            Counting::Blocks => Plan::blocks(module, id, chunk),
            Counting::Paths => paths::plan(module, id, chunk),
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
        }
    }

    pub(super) fn paths(
        arrivals: Vec<Code>,
        table_arrivals: Vec<Option<Code>>,
        rows: Vec<(BlockId, Vec<RowEntry>)>,
        edges: Vec<Code>,
    ) -> Plan {
        Plan { arrivals, table_arrivals, rows, edges, edges_arrive: false }
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
            let flow::graph::Edge { from, to: Some(to), .. } = cfg.graph.edge(edge) else { continue };
            let is_taken = cfg.edge_facts(edge).kind == EdgeKind::Taken;
            let follows =
                cfg.graph.out_edges(from).count() == 1 || cfg.graph.in_edges(to).len() == 1 && !cfg.graph.is_entry(to);
            if is_taken && !follows && module.is_owned(id, from) && module.is_owned(id, to) {
                let cell = chunk.new_cells(Cell { kind: CellKind::Edge, at: start(from), to: start(to) });
                plan.edges[edge.index()] = Code::Count(cell);
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

    /// What happens on an edge.
    pub fn edge(&self, edge: EdgeId) -> Code {
        self.edges[edge.index()]
    }
}
