//! Hot, cold, dense and sparse paths and functions, as Ammons, Ball and Larus tell them apart.
//!
//! A path is *hot* if it has at least a given share of a metric of the whole program, else *cold*.
//! A hot path is *dense* if it has more of the metric per instruction than the program has on
//! average, and *sparse* if it has much of it only because it runs often. Functions likewise;
//! theirs is what their paths have. Paths that did not run are left out. Where paths were counted
//! by calling context, each path in each context can be judged by itself.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::model::{BlockId, ContextId, FunctionId, Path, PathId, Profile};
use crate::query::sort_hottest_first;

/// What paths and contexts are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// How often they ran.
    Executions,
    /// Instructions in them, callees not included. All have the same number of these per
    /// instruction, and so are dense.
    Instructions,
    /// Conditional and computed branches in them: what is called flow elsewhere.
    Branches,
    /// CPU time in them, callees not included, in nanoseconds.
    Time,
    /// Misses of a simulated data cache in them, callees not included.
    Misses,
}

impl Metric {
    fn of(self, profile: &Profile, ran: &Ran<'_>) -> f64 {
        match self {
            Metric::Time => ran.ns,
            Metric::Misses => ran.misses as f64,
            _ => self.per_execution(profile, ran.path).unwrap_or(0.0) * ran.count,
        }
    }

    /// What an execution of the path has, if all have the same.
    pub(super) fn per_execution(self, profile: &Profile, path: &Path) -> Option<f64> {
        match self {
            Metric::Executions => Some(1.0),
            Metric::Instructions => Some(length(profile, path)),
            Metric::Branches => Some(f64::from(path.n_branches)),
            Metric::Time | Metric::Misses => None,
        }
    }
}

/// The paths and functions of a program by what they have of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Hotness {
    /// The metric of the whole program.
    pub metric: f64,
    /// Instructions on all paths.
    pub instructions: f64,
    /// Classes of paths.
    pub paths: Classes,
    /// Classes of functions.
    pub functions: Classes,
    /// The paths that are hot, hottest first.
    pub hot_paths: Vec<HotPath>,
    /// Different paths that ran through a block of a hot path, on average.
    pub paths_through_hot_block: f64,
}

/// What all have, and what each class has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Classes {
    /// All of them, hot and cold.
    pub all: Class,
    /// Those with at least the share that makes hot.
    pub hot: Class,
    /// Those with less.
    pub cold: Class,
    /// Hot, with no less of the metric per instruction than the program.
    pub dense: Class,
    /// Hot, with less.
    pub sparse: Class,
}

/// A class of paths or functions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// How many.
    pub n: usize,
    /// Different paths that ran: for classes of functions, those of the functions; else the same as
    /// `n`.
    pub n_paths: usize,
    /// Their instructions.
    pub instructions: f64,
    /// What they have of the metric.
    pub metric: f64,
}

/// A hot path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotPath {
    /// The path.
    pub path: PathId,
    /// Its function.
    pub function: FunctionId,
    /// The context in which it is hot, if contexts are distinguished.
    pub context: Option<ContextId>,
    /// What it has of the metric.
    pub metric: f64,
    /// Its instructions, all its runs together.
    pub instructions: f64,
    /// Metric per instruction, relative to that of the whole program.
    pub density: f64,
}

/// A path that ran, anywhere or in a context.
struct Ran<'a> {
    id: PathId,
    path: &'a Path,
    context: Option<ContextId>,
    count: f64,
    ns: f64,
    misses: u64,
}

/// Sorts paths and functions into classes. `least` is the share of the metric that makes hot.
#[must_use]
pub fn hotness(profile: &Profile, metric: Metric, least: f64) -> Hotness {
    judged(profile, metric, least, &paths_that_ran(profile).collect::<Vec<_>>())
}

/// Sorts paths in their contexts into classes, as [`hotness`] does paths. Functions are what they
/// are without contexts.
#[must_use]
pub fn hotness_by_context(profile: &Profile, metric: Metric, least: f64) -> Hotness {
    let ran = profile.context_paths.iter().filter_map(|row| {
        let path = profile.paths.get(row.path.index()).filter(|_| row.count.value > 0.0)?;
        let (count, ns) = (row.count.value, row.self_ns.value);
        Some(Ran { id: row.path, path, context: Some(row.context), count, ns, misses: row.misses })
    });
    judged(profile, metric, least, &ran.collect::<Vec<_>>())
}

fn paths_that_ran(profile: &Profile) -> impl Iterator<Item = Ran<'_>> {
    let ran = (0..).map(PathId).zip(&profile.paths).filter(|(_, path)| path.count.value > 0.0);
    ran.map(|(id, path)| {
        let (count, ns) = (path.count.value, path.self_ns.value);
        Ran { id, path, context: None, count, ns, misses: path.misses }
    })
}

fn judged(profile: &Profile, metric: Metric, least: f64, ran: &[Ran<'_>]) -> Hotness {
    let class = |ran: &Ran<'_>| {
        let (instructions, metric) = (length(profile, ran.path) * ran.count, metric.of(profile, ran));
        Class { n: 1, n_paths: 1, instructions, metric }
    };
    let mut all = Class::default();
    let mut functions: BTreeMap<FunctionId, Class> = BTreeMap::new();
    for ran in paths_that_ran(profile) {
        let has = class(&ran);
        all.add(&has);
        let function = functions.entry(ran.path.function).or_default();
        function.add(&has);
        function.n = 1;
    }
    let judge = Judge { whole: all, least };
    let each: Vec<(&Ran<'_>, Class)> = ran.iter().map(|ran| (ran, class(ran))).collect();
    let hot = each.iter().filter(|(_, has)| judge.is_hot(has)).map(|(ran, has)| HotPath {
        path: ran.id,
        function: ran.path.function,
        context: ran.context,
        metric: has.metric,
        instructions: has.instructions,
        density: judge.density(has),
    });
    let mut hot_paths: Vec<HotPath> = hot.collect();
    sort_hottest_first(&mut hot_paths, |row| row.metric, |row| row.path.0);
    Hotness {
        metric: all.metric,
        instructions: all.instructions,
        paths: judge.classes(each.iter().map(|(_, has)| has)),
        functions: judge.classes(functions.values()),
        paths_through_hot_block: paths_through(profile, &hot_paths),
        hot_paths,
    }
}

/// Instructions of a path.
fn length(profile: &Profile, path: &Path) -> f64 {
    let blocks = path.blocks.iter().filter_map(|block| profile.blocks.get(block.index()));
    blocks.map(|block| f64::from(block.n_insns)).sum()
}

fn paths_through(profile: &Profile, hot: &[HotPath]) -> f64 {
    let distinct = |path: &Path| {
        let mut blocks: Vec<BlockId> = path.blocks.clone();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    };
    let hot_blocks = hot.iter().filter_map(|row| profile.paths.get(row.path.index())).flat_map(distinct);
    let mut n_paths: FxHashMap<BlockId, u64> = hot_blocks.map(|block| (block, 0)).collect();
    for block in paths_that_ran(profile).flat_map(|ran| distinct(ran.path)) {
        n_paths.entry(block).and_modify(|n| *n += 1);
    }
    n_paths.values().sum::<u64>() as f64 / n_paths.len().max(1) as f64
}

/// Knows what is much.
struct Judge {
    whole: Class,
    least: f64,
}

impl Judge {
    fn is_hot(&self, has: &Class) -> bool {
        has.metric > 0.0 && self.least * self.whole.metric <= has.metric
    }

    fn density(&self, has: &Class) -> f64 {
        let [own, whole] = [has, &self.whole].map(|has| has.metric / has.instructions);
        if own.is_finite() && whole > 0.0 { own / whole } else { 0.0 }
    }

    fn classes<'a>(&self, each: impl Iterator<Item = &'a Class>) -> Classes {
        let mut classes = Classes::default();
        for has in each {
            classes.all.add(has);
            if !self.is_hot(has) {
                classes.cold.add(has);
                continue;
            }
            classes.hot.add(has);
            let kind = if self.density(has) < 1.0 { &mut classes.sparse } else { &mut classes.dense };
            kind.add(has);
        }
        classes
    }
}

impl Class {
    fn add(&mut self, other: &Class) {
        self.n += other.n;
        self.n_paths += other.n_paths;
        self.instructions += other.instructions;
        self.metric += other.metric;
    }
}
