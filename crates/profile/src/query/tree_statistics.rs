//! The shape of the calling context tree, as table 3 of Ammons, Ball and Larus has it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{BlockEnd, BlockId, ContextId, FunctionId, Profile};
use crate::query::Metric;

/// What there is to say about a tree of contexts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeStatistics {
    /// Contexts.
    pub n_nodes: usize,
    /// Contexts with nothing around them: threads and handlers.
    pub n_roots: usize,
    /// Contexts that call nothing.
    pub n_leaves: usize,
    /// Functions that have a context.
    pub n_functions: usize,
    /// Recursive calls, as pairs of contexts.
    pub n_back_edges: usize,
    /// Children of a context that has any, on average.
    pub mean_degree: f64,
    /// Contexts from the root to a leaf, on average over leaves.
    pub mean_height: f64,
    /// The same, at most.
    pub max_height: usize,
    /// Most contexts of one function.
    pub max_replication: usize,
    /// That function.
    pub most_replicated: Option<FunctionId>,
    /// Where calls were made, by context; nothing if paths by context are not known.
    pub call_sites: Option<CallSites>,
    /// What all contexts have of the metric.
    pub metric: f64,
    /// Contexts with at least the least share of it.
    pub n_hot: usize,
    /// What these have.
    pub hot_metric: f64,
}

/// Call sites of contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSites {
    /// That were reached.
    pub n_used: usize,
    /// That were reached on one path only, which came from the function's entry: there, contexts
    /// tell the whole path through the program.
    pub n_on_one_path: usize,
}

/// Looks at the tree. `least` is the share of the metric that makes a context hot.
#[must_use]
pub fn tree_statistics(profile: &Profile, metric: Metric, least: f64) -> TreeStatistics {
    let n_nodes = profile.contexts.len();
    let mut heights: Vec<usize> = Vec::with_capacity(n_nodes);
    let mut degrees = vec![0usize; n_nodes];
    let mut replication: FxHashMap<FunctionId, usize> = FxHashMap::default();
    for row in &profile.contexts {
        let parent = row.parent.filter(|parent| parent.index() < heights.len());
        heights.push(1 + parent.map_or(0, |parent| heights[parent.index()]));
        if let Some(parent) = parent {
            degrees[parent.index()] += 1;
        }
        *replication.entry(row.function).or_default() += 1;
    }
    let leaves: Vec<usize> =
        heights.iter().zip(&degrees).filter(|&(_, &degree)| degree == 0).map(|(&height, _)| height).collect();
    let n_roots = profile.contexts.iter().filter(|row| row.parent.is_none()).count();
    let most = replication.iter().max_by_key(|&(&function, &n)| (n, std::cmp::Reverse(function)));
    let has = of_contexts(profile, metric);
    let whole: f64 = has.iter().sum();
    let hot = || has.iter().copied().filter(|&own| own > 0.0 && least * whole <= own);
    TreeStatistics {
        n_nodes,
        n_roots,
        n_leaves: leaves.len(),
        n_functions: replication.len(),
        n_back_edges: profile.recursions.len(),
        mean_degree: ratio(n_nodes - n_roots, n_nodes - leaves.len()),
        mean_height: ratio(leaves.iter().sum(), leaves.len()),
        max_height: leaves.iter().copied().max().unwrap_or(0),
        max_replication: most.map_or(0, |(_, &n)| n),
        most_replicated: most.map(|(&function, _)| function),
        call_sites: (!profile.context_paths.is_empty()).then(|| call_sites(profile)),
        metric: whole,
        n_hot: hot().count(),
        hot_metric: hot().sum(),
    }
}

/// What each context has of a metric; instructions and branches are known if paths by context are.
fn of_contexts(profile: &Profile, metric: Metric) -> Vec<f64> {
    let rows = profile.contexts.iter();
    match metric {
        Metric::Executions => rows.map(|row| row.entries.value).collect(),
        Metric::Time => rows.map(|row| row.self_ns.value + row.kernel_ns.value).collect(),
        Metric::Misses => rows.map(|row| row.misses as f64).collect(),
        Metric::Instructions | Metric::Branches => {
            let mut sums = vec![0.0; profile.contexts.len()];
            for row in &profile.context_paths {
                let each = profile.paths.get(row.path.index()).and_then(|path| metric.per_execution(profile, path));
                if let Some((sum, each)) = sums.get_mut(row.context.index()).zip(each) {
                    *sum += each * row.count.value;
                }
            }
            sums
        }
    }
}

fn ratio(of: usize, by: usize) -> f64 {
    of as f64 / by.max(1) as f64
}

fn call_sites(profile: &Profile) -> CallSites {
    let is_call = |block: &BlockId| {
        let end = profile.blocks.get(block.index()).map(|row| row.end);
        matches!(end, Some(BlockEnd::Call | BlockEnd::IndirectCall))
    };
    // Paths through each site, and whether the last of them came from the entry.
    let mut sites: FxHashMap<(ContextId, BlockId), (usize, bool)> = FxHashMap::default();
    for row in &profile.context_paths {
        let Some(path) = profile.paths.get(row.path.index()) else { continue };
        let entry = profile.functions.get(path.function.index()).map(|function| function.address);
        let first = path.blocks.first().and_then(|block| profile.blocks.get(block.index())).map(|row| row.address);
        let own: FxHashSet<BlockId> = path.blocks.iter().copied().filter(is_call).collect();
        for block in own {
            let site = sites.entry((row.context, block)).or_default();
            *site = (site.0 + 1, first == entry);
        }
    }
    CallSites { n_used: sites.len(), n_on_one_path: sites.values().filter(|&&site| site == (1, true)).count() }
}
