//! Additions to the path register, by how paths are numbered and where additions are placed: from
//! an exact profile of paths and the code that ran. Nothing runs.
//!
//! *Classic* gives values to the edges out of a block in the order in which they are found, *smart*
//! to the hottest first, which then has 0 ([`flow::paths`]). An edge adds its own value (*direct*,
//! as in PEP), or what a spanning tree of hot edges leaves to add (*tree*, Ball and Larus). What is
//! hot is guessed from loops, or known from the profile itself. Copies are numbered smart with a
//! tree, and guess unless they have a guide.

use std::path::Path;

use flow::FunctionFlow;
use flow::graph::{Edge, EdgeId};
use flow::paths::{EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, max_paths_with_restarts};
use image::Svma;
use profile::Profile;
use recorder::Threads;
use rustc_hash::FxHashMap;

use crate::module::with_analysis;

/// What is known of hot edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weights {
    Guessed,
    Known,
}

/// A way to number and to place.
#[derive(Clone, Copy, Debug)]
struct Arm {
    name: &'static str,
    /// Nothing: classic.
    smart: Option<Weights>,
    /// Nothing: direct.
    tree: Option<Weights>,
}

const ARMS: [Arm; N_ARMS] = [
    Arm { name: "classic, direct", smart: None, tree: None },
    Arm { name: "smart, direct", smart: Some(Weights::Guessed), tree: None },
    Arm { name: "smart and guided, direct", smart: Some(Weights::Known), tree: None },
    Arm { name: "classic, tree", smart: None, tree: Some(Weights::Guessed) },
    Arm { name: "smart, tree", smart: Some(Weights::Guessed), tree: Some(Weights::Guessed) },
    Arm { name: "smart and guided, tree", smart: Some(Weights::Known), tree: Some(Weights::Known) },
];
/// Ways to number and to place.
pub const N_ARMS: usize = 6;

/// Their names.
#[must_use]
pub fn names() -> [&'static str; N_ARMS] {
    ARMS.map(|arm| arm.name)
}

/// Additions per path that ended, by arm.
pub fn per_path(profile: &Profile) -> anyhow::Result<[f64; N_ARMS]> {
    let mut sums = [0u128; N_ARMS];
    let mut n_paths = 0.0;
    for (index, module) in profile.modules.iter().enumerate() {
        let path = Path::new(&module.path);
        if !path.is_file() {
            continue;
        }
        let ran = Ran::of_module(profile, index);
        n_paths += with_analysis(path, &Threads::available(), |_, flow| {
            let with_paths = flow.functions.iter().filter_map(|each| Some((each, *ran.paths.get(&each.entry)?)));
            with_paths.fold(0.0, |n_paths, (function, n)| {
                let additions = of_function(function, &ran.weights(function));
                sums.iter_mut().zip(additions).for_each(|(sum, n)| *sum += n);
                n_paths + n
            })
        })?;
    }
    Ok(sums.map(|sum| sum as f64 / f64::max(n_paths, 1.0)))
}

/// What ran in a module.
#[derive(Debug, Default)]
struct Ran {
    /// Path ends by the function's entry.
    paths: FxHashMap<Svma, f64>,
    blocks: FxHashMap<Svma, u64>,
    edges: FxHashMap<(Svma, Svma), u64>,
}

impl Ran {
    fn of_module(profile: &Profile, module: usize) -> Ran {
        let is_here =
            |function: profile::model::FunctionId| profile.functions[function.index()].module.index() == module;
        let address = |block: profile::model::BlockId| Svma(profile.blocks[block.index()].address);
        let mut ran = Ran::default();
        for path in profile.paths.iter().filter(|path| is_here(path.function)) {
            let entry = Svma(profile.functions[path.function.index()].address);
            *ran.paths.entry(entry).or_default() += path.count.value;
        }
        let blocks = profile.blocks.iter().filter(|block| is_here(block.function));
        ran.blocks.extend(blocks.map(|block| (Svma(block.address), block.count.value as u64)));
        for edge in profile.edges.iter().filter(|edge| is_here(profile.blocks[edge.from.index()].function)) {
            *ran.edges.entry((address(edge.from), address(edge.to))).or_default() += edge.count.value as u64;
        }
        ran
    }

    /// How often each edge ran. Those out of the function share what is left of their block.
    fn weights(&self, function: &FunctionFlow) -> Vec<u64> {
        let cfg = &function.cfg;
        let start = |block| cfg.block(block).range.start;
        let inside =
            |edge: Edge| edge.to.map_or(0, |to| self.edges.get(&(start(edge.from), start(to))).copied().unwrap_or(0));
        let weight = |id: EdgeId| {
            let edge = cfg.graph.edge(id);
            if edge.to.is_some() {
                return inside(edge);
            }
            let around = || cfg.graph.out_edges(edge.from).map(|other| cfg.graph.edge(other));
            let n_exits = around().filter(|other| other.to.is_none()).count() as u64;
            let all = self.blocks.get(&start(edge.from)).copied().unwrap_or(0);
            all.saturating_sub(around().map(inside).sum()) / n_exits
        };
        cfg.graph.edge_ids().map(weight).collect()
    }
}

/// Additions that are executed if edges run this often.
fn of_function(function: &FunctionFlow, known: &[u64]) -> [u128; N_ARMS] {
    let guessed = function.path_weights();
    let weights = |which| match which {
        Weights::Guessed => guessed.as_slice(),
        Weights::Known => known,
    };
    ARMS.map(|Arm { smart, tree, .. }| {
        let options = PlanOptions {
            truncation: Truncation::BackEdges,
            order: smart.map_or(EdgeOrder::Classic, |which| EdgeOrder::Smart(weights(which))),
            max_paths: max_paths_with_restarts(function.cfg.return_sites().len()),
        };
        let plan = PathPlan::new(&function.cfg.graph, &options);
        let placement = match tree {
            Some(which) => Placement::spanning_tree(&plan, weights(which)),
            None => Placement::direct(&plan),
        };
        placement.weighted_additions(known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges without additions are a forest, and no forest weighs more than the tree that is chosen
    /// by the true weights.
    #[test]
    fn nothing_adds_less_than_the_tree_of_what_ran() {
        let arm = |name: &str| names().iter().position(|&each| each == name).expect("an arm");
        let [classic, best] = [arm("classic, direct"), arm("smart and guided, tree")];
        let (mut n_better, mut seed) = (0, 1u64);
        with_analysis(Path::new("/bin/true"), &Threads::available(), |_, flow| {
            for function in &flow.functions {
                let n_edges = function.cfg.graph.n_edges();
                let known: Vec<u64> = (0..n_edges)
                    .map(|_| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        seed >> 54
                    })
                    .collect();
                let options = PlanOptions {
                    truncation: Truncation::BackEdges,
                    order: EdgeOrder::Classic,
                    max_paths: max_paths_with_restarts(function.cfg.return_sites().len()),
                };
                if !PathPlan::new(&function.cfg.graph, &options).extra_cuts().is_empty() {
                    continue;
                }
                let found = of_function(function, &known);
                assert!(found.iter().all(|&n| found[best] <= n), "{found:?}");
                n_better += usize::from(found[best] < found[classic]);
            }
        })
        .expect("/bin/true");
        assert!(n_better > 10, "{n_better}");
    }
}
