//! What the numbers mean by which copies count the paths of a function.
//!
//! Numbers below `n_paths` are those of a [`PathPlan`], made as `emit` makes it: smart numbering by estimated weights, cut at back edges, so that
//! the same graph gives the same numbers. Numbers beyond are paths of which only the rest is known, from a return site on that was reached
//! without a noted return. The distinct return sites, in the order of the edges that lead to them, have `paths_from` numbers each.
//!
//! Copies have 32 bits for a number. A function whose numbers need more cannot be told from wrapped ones ([`Numbering::is_ambiguous`]).

use flow::cfg::{Cfg, EdgeKind};
use flow::graph::BlockId;
use flow::loops::Loops;
use flow::paths::{
    DEFAULT_MAX_PATHS, EdgeOrder, Path, PathId, PathPlan, Placement, PlanOptions, Truncation, estimate_weights,
};

/// The numbering of one function.
#[derive(Debug)]
pub struct Numbering {
    pub plan: PathPlan,
    pub placement: Placement,
    /// Return sites with the first of their numbers, ascending.
    sites: Vec<(BlockId, u64)>,
    /// All numbers are below this.
    pub n_ids: u64,
}

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// All of a path, from where it started.
    Whole(T),
    /// What came after a return site; the rest is not known.
    Rest(T),
}

impl Numbering {
    pub fn new(cfg: &Cfg, loops: &Loops) -> Numbering {
        let weights = estimate_weights(&cfg.graph, loops);
        let options = PlanOptions {
            truncation: Truncation::BackEdges,
            order: EdgeOrder::Smart(&weights),
            max_paths: DEFAULT_MAX_PATHS,
        };
        let plan = PathPlan::new(&cfg.graph, &options);
        let placement = Placement::spanning_tree(&plan, &weights);
        let mut n_ids = plan.n_paths();
        let mut sites: Vec<(BlockId, u64)> = Vec::new();
        let mut is_site = vec![false; cfg.graph.n_blocks()];
        for edge in cfg.graph.edge_ids().filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call) {
            if let Some(to) = cfg.graph.edge(edge).to
                && !std::mem::replace(&mut is_site[to.index()], true)
            {
                sites.push((to, n_ids));
                n_ids = n_ids.saturating_add(plan.paths_from(to));
            }
        }
        Numbering { plan, placement, sites, n_ids }
    }

    /// Whether 32 bits are too few for the numbers.
    pub fn is_ambiguous(&self) -> bool {
        self.n_ids > 1 << 32
    }

    /// The path with a number; nothing if no path has it.
    pub fn decode(&self, id: u64) -> Option<Decoded<Path>> {
        match self.site_of(id) {
            None => self.plan.decode(PathId(id)).map(Decoded::Whole),
            Some((site, first)) => self.plan.decode_from(site, id - first).map(Decoded::Rest),
        }
    }

    /// The blocks of a path that has come to a block, which is the last of them, given the path register on arrival there.
    pub fn decode_unfinished(&self, at: BlockId, register: i32) -> Option<Decoded<Vec<BlockId>>> {
        let sum = u64::from(self.placement.prefix_sum(at, i64::from(register)) as u32);
        match self.site_of(sum) {
            None => self.plan.decode_partial(at, sum).map(Decoded::Whole),
            Some((site, first)) => self.plan.decode_partial_from(site, at, sum - first).map(Decoded::Rest),
        }
    }

    fn site_of(&self, id: u64) -> Option<(BlockId, u64)> {
        self.sites.get(self.sites.partition_point(|&(_, first)| first <= id).checked_sub(1)?).copied()
    }
}
