//! Questions to a profile, answered with plain data for whoever shows it: text, terminal, web page,
//! server.
//!
//! Rows come hottest first and name things by handle; ties go by handle, so that the same profile
//! always gives the same answer. Shares are of CPU time, user and kernel, unless they say
//! otherwise. Every query takes one pass over the tables it needs.

mod branches;
mod calls;
mod contexts;
mod detail;
mod edges;
mod functions;
mod hotness;
mod kernel;
mod loops;
mod methods;
mod paths;
mod ratio;
mod regions;
mod targets;
mod totals;
mod tree_statistics;
mod values;

use std::cmp::Ordering;

pub use branches::{BranchRow, branches};
pub use calls::{CallRow, CallsWithoutCallee, Neighbour, Neighbours, calls, calls_without_callee, neighbours};
pub use contexts::{ContextNode, ContextOptions, context_tree, inclusive_ns, is_timeless};
pub use detail::{BlockDetail, FunctionDetail, function_detail};
pub use edges::{EdgeRow, edges};
pub use functions::{FunctionRow, functions};
pub use hotness::{Class, Classes, HotPath, Hotness, Metric, hotness, hotness_by_context};
pub use kernel::{SystemCallSite, system_call_sites, threads};
pub use loops::{LoopRow, loops};
pub use methods::{MethodRow, methods};
pub use paths::{PathRank, PathRow, contexts_of_paths, paths};
pub use ratio::{ratio, share};
pub use regions::{RegionRow, regions};
pub use totals::{Totals, account, scale_factor, totals};
pub use tree_statistics::{CallSites, TreeStatistics, tree_statistics};
pub use values::{SeenValue, ValueSite, value_sites};

pub(crate) use branches::{Outcomes, outcomes};
pub(crate) use totals::cpu_time;

/// Sorts rows by a figure, the largest first, and by handle among equals.
fn sort_hottest_first<T>(rows: &mut [T], figure: impl Fn(&T) -> f64, handle: impl Fn(&T) -> u32) {
    rows.sort_by(|a, b| match figure(b).total_cmp(&figure(a)) {
        Ordering::Equal => handle(a).cmp(&handle(b)),
        unequal => unequal,
    });
}
