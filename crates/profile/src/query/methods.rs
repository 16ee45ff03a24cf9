//! Methods as remote profiling counts them: invocations and backward branches taken, the two things
//! that make a function worth compiling.

use crate::estimate::Estimate;
use crate::model::{FunctionId, Profile};
use crate::query::sort_hottest_first;

/// A function as a method.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodRow {
    /// The function.
    pub function: FunctionId,
    /// How often it was entered.
    pub entries: Estimate,
    /// How often control went along its back edges.
    pub back_edges: Estimate,
    /// Both.
    pub count: Estimate,
}

/// Methods by count.
#[must_use]
pub fn methods(profile: &Profile) -> Vec<MethodRow> {
    let mut back_edges = vec![Estimate::default(); profile.functions.len()];
    for edge in profile.edges.iter().filter(|edge| edge.is_back) {
        back_edges[profile.blocks[edge.from.index()].function.index()] += edge.count;
    }
    let rows = profile.functions.iter().zip(back_edges).enumerate().map(|(index, (row, back_edges))| MethodRow {
        function: FunctionId(index as u32),
        entries: row.entries,
        back_edges,
        count: row.entries + back_edges,
    });
    let mut rows: Vec<MethodRow> = rows.collect();
    sort_hottest_first(&mut rows, |row| row.count.value, |row| row.function.0);
    rows
}
