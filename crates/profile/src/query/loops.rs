//! Loops: how often they turn and what a turn costs.

use crate::estimate::Estimate;
use crate::model::{FunctionId, LoopId, Profile};
use crate::query::{is_timeless, ratio, share, sort_hottest_first, totals};

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopRow {
    /// The loop.
    pub id: LoopId,
    /// Its function.
    pub function: FunctionId,
    /// Loops around it.
    pub depth: u32,
    /// How often it was entered from outside.
    pub entries: Estimate,
    /// How often its header ran.
    pub iterations: Estimate,
    /// Iterations per entry; nothing if no entry was seen.
    pub mean_trips: Option<Estimate>,
    /// Complete visits by the number of iterations: `trips[k]` counts those of `2^k` to
    /// `2^(k+1) - 1`.
    pub trips: Vec<u64>,
    /// Visits that were seen in part only.
    pub n_partial_visits: u64,
    /// User CPU time in its blocks, nested loops included, callees not.
    pub self_ns: Estimate,
    /// CPU time of one iteration.
    pub ns_per_iteration: Option<Estimate>,
    /// `self_ns` as a share of CPU time.
    pub share: Estimate,
    /// `self_ns` as a share of the function's own time.
    pub share_of_function: Estimate,
}

/// Loops by time, or by iterations if times are not known; all, or those of one function.
#[must_use]
pub fn loops(profile: &Profile, function: Option<FunctionId>) -> Vec<LoopRow> {
    let cpu_ns = totals(profile).cpu_ns;
    let depths = depths(profile);
    let wanted = profile.loops.iter().zip(depths).enumerate();
    let wanted = wanted.filter(|(_, (row, _))| function.is_none_or(|id| id == row.function));
    let rows = wanted.map(|(index, (row, depth))| LoopRow {
        id: LoopId(index as u32),
        function: row.function,
        depth,
        entries: row.entries,
        iterations: row.iterations,
        mean_trips: ratio(row.iterations, row.entries),
        trips: row.trips.clone(),
        n_partial_visits: row.n_partial_visits,
        self_ns: row.self_ns,
        ns_per_iteration: ratio(row.self_ns, row.iterations),
        share: share(row.self_ns, cpu_ns),
        share_of_function: share(row.self_ns, profile.functions[row.function.index()].self_ns),
    });
    let mut rows: Vec<LoopRow> = rows.collect();
    let has_times = !is_timeless(profile);
    let heat = |row: &LoopRow| if has_times { row.self_ns.value } else { row.iterations.value };
    sort_hottest_first(&mut rows, heat, |row| row.id.0);
    rows
}

/// Parents come first, so one pass is enough.
fn depths(profile: &Profile) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(profile.loops.len());
    for row in &profile.loops {
        depths.push(row.parent.map_or(0, |parent| depths[parent.index()] + 1));
    }
    depths
}
