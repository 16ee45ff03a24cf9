//! What the code of a program would allow: paths that could run, and calls that could be made.

use std::collections::BTreeMap;
use std::path::Path;

use flow::Transfer;
use flow::paths::{DEFAULT_MAX_PATHS, EdgeOrder, PathPlan, PlanOptions, Truncation};
use image::Svma;
use profile::Profile;
use profile::model::FunctionId;
use recorder::Threads;

use crate::module::with_analysis;

/// What a function's code would allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Logarithm to base 2 of the number of its Ball-Larus paths.
    pub log2_paths: f64,
    /// Blocks that end in a call.
    pub n_call_sites: usize,
}

/// Functions of a profile whose files are there.
pub fn allowed(profile: &Profile, of: impl Fn(FunctionId) -> bool) -> anyhow::Result<BTreeMap<FunctionId, Allowed>> {
    let mut by_module: BTreeMap<usize, Vec<(FunctionId, Svma)>> = BTreeMap::new();
    for (id, function) in (0..).map(FunctionId).zip(&profile.functions).filter(|&(id, _)| of(id)) {
        by_module.entry(function.module.index()).or_default().push((id, Svma(function.address)));
    }
    let mut all = BTreeMap::new();
    for (module, wanted) in by_module {
        let path = Path::new(&profile.modules[module].path);
        if !path.is_file() {
            continue;
        }
        let found = with_analysis(path, &Threads::available(), |_, flow| {
            let look = |&(id, entry): &(FunctionId, Svma)| {
                let index = flow.functions.binary_search_by_key(&entry, |function| function.entry).ok()?;
                Some((id, of_function(&flow.functions[index])))
            };
            wanted.iter().filter_map(look).collect::<Vec<_>>()
        })?;
        all.extend(found);
    }
    Ok(all)
}

fn of_function(function: &flow::FunctionFlow) -> Allowed {
    let weights = function.path_weights();
    let options = PlanOptions {
        truncation: Truncation::BackEdges,
        order: EdgeOrder::Smart(&weights),
        max_paths: DEFAULT_MAX_PATHS,
    };
    let plan = PathPlan::new(&function.cfg.graph, &options);
    let is_call = |block: &&flow::cfg::Block| matches!(block.transfer, Transfer::Call(_) | Transfer::IndirectCall);
    Allowed {
        log2_paths: plan.log2_paths_before_extra_cuts(),
        n_call_sites: function.cfg.blocks.iter().filter(is_call).count(),
    }
}

/// The logarithm to base 10 of the sum of numbers whose logarithms to base 2 are given; nothing if
/// there are none.
#[must_use]
pub fn log10_of_sum(log2: &[f64]) -> Option<f64> {
    let most = log2.iter().copied().reduce(f64::max)?;
    let sum: f64 = log2.iter().map(|each| (each - most).exp2()).sum();
    Some((most + sum.log2()) * std::f64::consts::LOG10_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_large_numbers_are_known_by_their_logarithms() {
        assert_eq!(log10_of_sum(&[]), None);
        let sum = log10_of_sum(&[3.0, 1.0]).expect("a sum");
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        let large = log10_of_sum(&[2000.0, 2000.0]).expect("a sum");
        assert!((large - 2001.0 * 2f64.log10()).abs() < 1e-9, "{large}");
    }
}
