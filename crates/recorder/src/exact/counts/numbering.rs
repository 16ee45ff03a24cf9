//! What the numbers mean by which copies count the paths of a function.
//!
//! Numbers below `n_paths` are those of a [`PathPlan`], made as `emit` makes it: smart numbering by
//! the same weights, cut in the same way, so that the same graph gives the same numbers. Numbers
//! beyond are paths of which only the rest is known, from a return site on that was reached without
//! a noted return. The return sites have `paths_from` numbers each, in their order.
//!
//! Copies have 32 bits for a number, and count functions by blocks whose numbers need more.

use flow::cfg::Cfg;
use flow::graph::BlockId;
use flow::paths::{EdgeOrder, Path, PathId, PathPlan, Placement, PlanOptions, Truncation, max_paths_with_restarts};

/// The numbering of one function.
#[derive(Debug)]
pub struct Numbering {
    pub plan: PathPlan,
    pub placement: Placement,
    /// Return sites with the first of their numbers, ascending.
    sites: Vec<(BlockId, u64)>,
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
    /// `weights` are those of the function ([`flow::FunctionFlow::path_weights`]).
    pub fn new(cfg: &Cfg, weights: &[u64], truncation: Truncation) -> Numbering {
        let return_sites = cfg.return_sites();
        let options = PlanOptions {
            truncation,
            order: EdgeOrder::Smart(weights),
            max_paths: max_paths_with_restarts(return_sites.len()),
        };
        let plan = PathPlan::new(&cfg.graph, &options);
        let placement = Placement::spanning_tree(&plan, weights);
        let mut n_ids = plan.n_paths();
        let mut sites: Vec<(BlockId, u64)> = Vec::new();
        for site in return_sites {
            sites.push((site, n_ids));
            n_ids = n_ids.saturating_add(plan.paths_from(site));
        }
        Numbering { plan, placement, sites }
    }

    /// The path with a number; nothing if no path has it.
    pub fn decode(&self, id: u64) -> Option<Decoded<Path>> {
        match self.site_of(id) {
            None => self.plan.decode(PathId(id)).map(Decoded::Whole),
            Some((site, first)) => self.plan.decode_from(site, id - first).map(Decoded::Rest),
        }
    }

    /// The blocks of a path that has come to a block, which is the last of them, given the path
    /// register on arrival there.
    pub fn decode_unfinished(&self, at: BlockId, register: i32) -> Option<Decoded<Vec<BlockId>>> {
        let sum = u64::from(self.placement.prefix_sum(at, i64::from(register)) as u32);
        match self.site_of(sum) {
            None => self.plan.decode_partial(at, sum).map(Decoded::Whole),
            Some((site, first)) => self.plan.decode_partial_from(site, at, sum - first).map(Decoded::Rest),
        }
    }

    /// All numbers are below this.
    #[cfg(test)]
    pub fn n_ids(&self) -> u64 {
        self.sites.last().map_or(self.plan.n_paths(), |&(site, first)| first + self.plan.paths_from(site))
    }

    fn site_of(&self, id: u64) -> Option<(BlockId, u64)> {
        self.sites.get(self.sites.partition_point(|&(_, first)| first <= id).checked_sub(1)?).copied()
    }
}
