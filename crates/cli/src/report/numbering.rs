//! The paths of one function: how many, where they start and are cut, and what each of them
//! executes.

use flow::FunctionFlow;
use flow::graph::{BlockId, EdgeId};
use flow::order::Order;
use flow::paths::{
    DEFAULT_MAX_PATHS, EdgeAction, EdgeOrder, PathId, PathPlan, Placement, PlanOptions, estimate_weights,
};
use serde::Serialize;

use crate::props::{self, NumberingProps};
use crate::report::SourcePlace;

/// A function's path plan, and where its additions go.
#[derive(Debug)]
pub struct Numbering {
    pub props: NumberingProps,
    /// The depth-first order that back edges are relative to.
    pub order: Order,
    pub plan: PathPlan,
    pub placement: Placement,
    /// Additions if each edge added its own value.
    pub n_direct_additions: usize,
}

impl Numbering {
    pub fn new(function: &FunctionFlow, props: NumberingProps) -> Numbering {
        let graph = &function.cfg.graph;
        let order = Order::new(graph);
        let weights = estimate_weights(graph, &function.loops);
        let options = PlanOptions {
            truncation: match props.truncation {
                props::Truncation::BackEdges => flow::paths::Truncation::BackEdges,
                props::Truncation::Headers => flow::paths::Truncation::LoopHeaders,
            },
            order: match props.order {
                props::Order::Classic => EdgeOrder::Classic,
                props::Order::Smart => EdgeOrder::Smart(&weights),
            },
            max_paths: DEFAULT_MAX_PATHS,
        };
        let plan = PathPlan::with_order(graph, &order, &options);
        let placement = Placement::spanning_tree(&plan, &weights);
        let n_direct_additions = Placement::direct(&plan).n_additions();
        Numbering { props, order, plan, placement, n_direct_additions }
    }

    /// What an inner edge adds to the path register; `None` for an edge that ends paths.
    pub fn addition(&self, edge: EdgeId) -> Option<i64> {
        match self.placement.action(edge) {
            EdgeAction::Pass => Some(0),
            EdgeAction::Add(amount) => Some(amount),
            EdgeAction::End { .. } => None,
        }
    }
}

/// How the paths of a function are numbered.
#[derive(Debug, Serialize)]
pub struct PathsReport {
    /// Path ids are below this.
    pub count: u64,
    /// Logarithm to base 2 of the number of paths before edges were cut because there were too
    /// many.
    pub log2_before_cuts: f64,
    pub truncation: &'static str,
    pub order: &'static str,
    pub starts: Vec<StartReport>,
    /// Edges cut only because there were too many paths.
    pub extra_cuts: Vec<u32>,
    /// Edges that carry an addition with the value of each edge, and with the placement shown.
    pub additions_direct: usize,
    pub additions: usize,
}

#[derive(Debug, Serialize)]
pub struct StartReport {
    pub block: u32,
    /// Least id of a path that starts there.
    pub first_id: u64,
}

impl PathsReport {
    pub fn new(numbering: &Numbering) -> PathsReport {
        let plan = &numbering.plan;
        let start = |start: &flow::paths::Start| StartReport { block: start.block.0, first_id: start.value };
        PathsReport {
            count: plan.n_paths(),
            log2_before_cuts: plan.log2_paths_before_extra_cuts(),
            truncation: match numbering.props.truncation {
                props::Truncation::BackEdges => "back-edges",
                props::Truncation::Headers => "headers",
            },
            order: match numbering.props.order {
                props::Order::Classic => "classic",
                props::Order::Smart => "smart",
            },
            starts: plan.starts().iter().map(start).collect(),
            extra_cuts: plan.extra_cuts().iter().map(|edge| edge.0).collect(),
            additions_direct: numbering.n_direct_additions,
            additions: numbering.placement.n_additions(),
        }
    }
}

/// One path, block by block.
#[derive(Debug, Serialize)]
pub struct PathReport {
    pub id: u64,
    pub blocks: Vec<PathStep>,
    /// The edge that ends it.
    pub end: u32,
    /// The block at which the next path starts; `None` if the function is left.
    pub next_start: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct PathStep {
    pub block: u32,
    /// Places in the source that the block's instructions come from, in order of execution.
    pub places: Vec<SourcePlace>,
}

impl PathReport {
    /// `None` if there are not so many paths.
    pub fn new(plan: &PathPlan, id: u64, places: impl Fn(BlockId) -> Vec<SourcePlace>) -> Option<PathReport> {
        let path = plan.decode(PathId(id))?;
        let step = |&block: &BlockId| PathStep { block: block.0, places: places(block) };
        Some(PathReport {
            id,
            blocks: path.blocks.iter().map(step).collect(),
            end: path.end.0,
            next_start: plan.graph().edge(path.end).to.map(|block| block.0),
        })
    }
}
