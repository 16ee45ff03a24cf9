//! `--guide`: paths numbered by how often edges ran in an earlier profile.
//!
//! Smart numbering gives the hottest way out of a block no addition, and keeps counters off hot
//! edges. Without a guide, what is hot is guessed from loops. A guide changes where copies add and
//! what numbers paths have, not what is counted.
//!
//! A module of the guide is the same if its build-id is, or its path if it has none. A function
//! that did not run then is numbered by the guess.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow};
use profile::Estimate;
use profile::model::Profile;
use rustc_hash::FxHashMap;

use crate::error::{Result, refused};

/// What ran in an earlier profile.
#[derive(Debug, Default)]
pub struct Guide {
    /// By build-id, or by path.
    modules: HashMap<String, Observed>,
    /// Whether what was hot is to be taken for cold: what numbering is worth shows in what the
    /// worst one costs.
    is_flipped: bool,
}

/// How often blocks and edges of a module ran, by addresses in the file.
#[derive(Debug, Default)]
struct Observed {
    blocks: FxHashMap<u64, u64>,
    edges: FxHashMap<(u64, u64), u64>,
}

impl Guide {
    /// Reads the guide from a profile.
    ///
    /// # Errors
    /// If it is not a profile, or has no counts of edges.
    pub fn read(path: &Path, is_flipped: bool) -> Result<Guide> {
        let guide = Guide { is_flipped, ..Guide::of(&store::open(path)?) };
        if guide.modules.values().all(|module| module.edges.is_empty()) {
            return refused(format!("{}: no edges in it; give a profile with counts", path.display()));
        }
        Ok(guide)
    }

    fn of(profile: &Profile) -> Guide {
        let mut modules: Vec<Observed> = profile.modules.iter().map(|_| Observed::default()).collect();
        let module_of = |block: &profile::model::Block| profile.functions[block.function.index()].module.index();
        let count = |estimate: Estimate| estimate.value.max(0.0).round() as u64;
        for block in &profile.blocks {
            *modules[module_of(block)].blocks.entry(block.address).or_default() += count(block.count);
        }
        for edge in &profile.edges {
            let [from, to] = [edge.from, edge.to].map(|id| &profile.blocks[id.index()]);
            *modules[module_of(from)].edges.entry((from.address, to.address)).or_default() += count(edge.count);
        }
        let named = profile.modules.iter().zip(modules);
        let key = |module: &profile::model::Module| {
            if module.build_id.is_empty() { module.path.clone() } else { module.build_id.clone() }
        };
        Guide { modules: named.map(|(module, observed)| (key(module), observed)).collect(), is_flipped: false }
    }

    /// Tells one guide from another, for a module.
    pub fn identity(&self, path: &Path, build_id: Option<&str>) -> u64 {
        let Some(observed) = self.of_module(path, build_id) else { return 0 };
        let mut edges: Vec<_> = observed.edges.iter().collect();
        let mut blocks: Vec<_> = observed.blocks.iter().collect();
        edges.sort_unstable();
        blocks.sort_unstable();
        let mut hasher = std::hash::DefaultHasher::new();
        (edges, blocks, self.is_flipped).hash(&mut hasher);
        hasher.finish()
    }

    /// Tells the functions of a module how often their edges ran.
    pub fn apply(&self, path: &Path, build_id: Option<&str>, flow: &mut ModuleFlow) {
        if let Some(observed) = self.of_module(path, build_id) {
            for function in &mut flow.functions {
                function.observed = observed.weights(function);
                if let Some(weights) = function.observed.as_mut().filter(|_| self.is_flipped) {
                    flip(weights);
                }
            }
        }
    }

    fn of_module(&self, path: &Path, build_id: Option<&str>) -> Option<&Observed> {
        self.modules.get(build_id.unwrap_or(path.to_str()?))
    }
}

/// The hottest edge becomes the coldest.
fn flip(weights: &mut [u64]) {
    let most = weights.iter().copied().max().unwrap_or(0);
    weights.iter_mut().for_each(|weight| *weight = most - *weight);
}

impl Observed {
    /// By edge; nothing if the function did not run.
    fn weights(&self, function: &FunctionFlow) -> Option<Vec<u64>> {
        let (cfg, graph) = (&function.cfg, &function.cfg.graph);
        let start = |block: BlockId| cfg.block(block).range.start.0;
        let has_run = graph.blocks().any(|block| self.blocks.get(&start(block)).is_some_and(|&count| count != 0));
        if !has_run {
            return None;
        }
        let mut weights = vec![0; graph.n_edges()];
        for block in graph.blocks() {
            let mut rest = self.blocks.get(&start(block)).copied().unwrap_or(0);
            for edge in graph.out_edges(block) {
                if let Some(to) = graph.edge(edge).to {
                    let count = self.edges.get(&(start(block), start(to))).copied().unwrap_or(0);
                    weights[edge.index()] = count;
                    rest = rest.saturating_sub(count);
                }
            }
            // What did not stay has left.
            for edge in graph.out_edges(block).filter(|&edge| graph.edge(edge).to.is_none()) {
                weights[edge.index()] = rest;
            }
        }
        Some(weights)
    }
}
