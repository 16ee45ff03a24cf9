//! Hot paths, by time or by flow.

use rustc_hash::FxHashMap;

use crate::estimate::Estimate;
use crate::model::{ContextPath, FunctionId, PathId, Profile};
use crate::query::{share, sort_hottest_first, totals};

/// What makes a path hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRank {
    /// CPU time in its blocks.
    Time,
    /// Flow: how often it ran, times its branches. What an optimizer of branches has to gain from
    /// it.
    Flow,
}

/// A path among the others.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRow {
    /// The path.
    pub path: PathId,
    /// Its function.
    pub function: FunctionId,
    /// How often it ran.
    pub count: Estimate,
    /// User CPU time in its blocks, callees not included.
    pub self_ns: Estimate,
    /// `self_ns` as a share of CPU time.
    pub time_share: Estimate,
    /// Count times branches.
    pub flow: Estimate,
    /// `flow` as a share of the flow of all paths.
    pub flow_share: Estimate,
    /// `count` as a share of the function's paths.
    pub share_of_function: Estimate,
}

/// All paths, or those of one function.
#[must_use]
pub fn paths(profile: &Profile, function: Option<FunctionId>, rank: PathRank) -> Vec<PathRow> {
    let cpu_ns = totals(profile).cpu_ns;
    let flow_of = |index: usize| {
        let path = &profile.paths[index];
        path.count.scaled(f64::from(path.n_branches))
    };
    let all_flow: Estimate = (0..profile.paths.len()).map(flow_of).sum();
    let mut counts = vec![Estimate::default(); profile.functions.len()];
    for path in &profile.paths {
        counts[path.function.index()] += path.count;
    }
    let wanted = profile.paths.iter().enumerate().filter(|(_, path)| function.is_none_or(|id| id == path.function));
    let rows = wanted.map(|(index, path)| PathRow {
        path: PathId(index as u32),
        function: path.function,
        count: path.count,
        self_ns: path.self_ns,
        time_share: share(path.self_ns, cpu_ns),
        flow: flow_of(index),
        flow_share: share(flow_of(index), all_flow),
        share_of_function: share(path.count, counts[path.function.index()]),
    });
    let mut rows: Vec<PathRow> = rows.collect();
    let figure = |row: &PathRow| match rank {
        PathRank::Time => row.self_ns.value,
        PathRank::Flow => row.flow.value,
    };
    sort_hottest_first(&mut rows, figure, |row| row.path.0);
    rows
}

/// The contexts that each of these paths ran in, the one where it ran most often first.
#[must_use]
pub fn contexts_of_paths<'a>(profile: &'a Profile, paths: &[PathId]) -> Vec<Vec<&'a ContextPath>> {
    let places: FxHashMap<PathId, usize> = paths.iter().copied().zip(0..).collect();
    let mut contexts = vec![Vec::new(); paths.len()];
    for row in &profile.context_paths {
        if let Some(&place) = places.get(&row.path) {
            contexts[place].push(row);
        }
    }
    for rows in &mut contexts {
        sort_hottest_first(rows, |row| row.count.value, |row| row.context.0);
    }
    contexts
}
