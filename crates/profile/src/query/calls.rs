//! Calls: which functions call which.

use rustc_hash::FxHashMap;

use crate::estimate::Estimate;
use crate::model::{BlockEnd, BlockId, FunctionId, Profile};
use crate::query::{inclusive_ns, share, sort_hottest_first};

/// A call site and one of its callees.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    /// The block that ends in the call.
    pub site: BlockId,
    /// The function that it is in.
    pub caller: FunctionId,
    /// The function that is entered.
    pub callee: FunctionId,
    /// Whether the caller's frame is gone.
    pub is_tail: bool,
    /// How often.
    pub count: Estimate,
    /// `count` as a share of the calls from this site.
    pub share_of_site: Estimate,
    /// `count` as a share of the calls of this callee.
    pub share_of_callee: Estimate,
}

/// All calls by count.
#[must_use]
pub fn calls(profile: &Profile) -> Vec<CallRow> {
    let mut of_site = vec![Estimate::default(); profile.blocks.len()];
    let mut of_callee = vec![Estimate::default(); profile.functions.len()];
    for row in &profile.calls {
        of_site[row.site.index()] += row.count;
        of_callee[row.callee.index()] += row.count;
    }
    let rows = profile.calls.iter().map(|row| CallRow {
        site: row.site,
        caller: profile.blocks[row.site.index()].function,
        callee: row.callee,
        is_tail: row.is_tail,
        count: row.count,
        share_of_site: share(row.count, of_site[row.site.index()]),
        share_of_callee: share(row.count, of_callee[row.callee.index()]),
    });
    let mut rows: Vec<CallRow> = rows.collect();
    sort_hottest_first(&mut rows, |row| row.count.value, |row| row.site.0);
    rows
}

/// Calls of computed addresses whose callees are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallsWithoutCallee {
    /// How often.
    pub count: Estimate,
    /// Call sites that made them.
    pub n_sites: usize,
}

/// Calls of computed addresses that are not among [`calls`].
#[must_use]
pub fn calls_without_callee(profile: &Profile) -> CallsWithoutCallee {
    let mut is_known = vec![false; profile.blocks.len()];
    profile.calls.iter().for_each(|row| is_known[row.site.index()] = true);
    let mut sum = CallsWithoutCallee::default();
    for (block, is_known) in profile.blocks.iter().zip(is_known) {
        if block.end == BlockEnd::IndirectCall && !is_known && block.count.value > 0.0 {
            sum.count += block.count;
            sum.n_sites += 1;
        }
    }
    sum
}

/// A function next to another one in the graph of calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The caller or callee.
    pub function: FunctionId,
    /// Calls between the two.
    pub count: Estimate,
    /// CPU time below those calls, user and kernel; time in folded recursion excluded.
    pub total_ns: Estimate,
}

/// A function's callers and callees, by time below the calls, then by count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// Its callers.
    pub callers: Vec<Neighbour>,
    /// Its callees.
    pub callees: Vec<Neighbour>,
}

/// The callers and callees of a function.
#[must_use]
pub fn neighbours(profile: &Profile, function: FunctionId) -> Neighbours {
    let mut callers = Sums::default();
    let mut callees = Sums::default();
    for row in &profile.calls {
        let caller = profile.blocks[row.site.index()].function;
        if row.callee == function {
            callers.entry(caller).or_default().0 += row.count;
        }
        if caller == function {
            callees.entry(row.callee).or_default().0 += row.count;
        }
    }
    for (context, inclusive) in profile.contexts.iter().zip(inclusive_ns(profile)) {
        let Some(parent) = context.parent else { continue };
        let caller = profile.contexts[parent.index()].function;
        if context.function == function {
            callers.entry(caller).or_default().1 += inclusive;
        }
        if caller == function {
            callees.entry(context.function).or_default().1 += inclusive;
        }
    }
    Neighbours { callers: by_time(callers), callees: by_time(callees) }
}

/// Calls and time by function.
type Sums = FxHashMap<FunctionId, (Estimate, Estimate)>;

fn by_time(sums: Sums) -> Vec<Neighbour> {
    let rows = sums.into_iter().map(|(function, (count, total_ns))| Neighbour { function, count, total_ns });
    let mut rows: Vec<Neighbour> = rows.collect();
    sort_hottest_first(&mut rows, |row| row.count.value, |row| row.function.0);
    // Stable: among equal times the order by count remains.
    rows.sort_by(|a, b| b.total_ns.value.total_cmp(&a.total_ns.value));
    rows
}
