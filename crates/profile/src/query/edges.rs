//! Hot edges.

use crate::estimate::Estimate;
use crate::model::{EdgeId, FunctionId, Profile};
use crate::query::{share, sort_hottest_first};

/// An edge among the others.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeRow {
    /// The edge.
    pub edge: EdgeId,
    /// Its function.
    pub function: FunctionId,
    /// How often control went along it.
    pub count: Estimate,
    /// `count` as a share of all edges.
    pub share: Estimate,
    /// `count` as a share of the edges out of the same block.
    pub probability: Estimate,
}

/// All edges, or those of one function.
#[must_use]
pub fn edges(profile: &Profile, function: Option<FunctionId>) -> Vec<EdgeRow> {
    let all: Estimate = profile.edges.iter().map(|row| row.count).sum();
    let mut outflow = vec![Estimate::default(); profile.blocks.len()];
    for row in &profile.edges {
        outflow[row.from.index()] += row.count;
    }
    let rows = profile.edges.iter().enumerate().map(|(index, row)| EdgeRow {
        edge: EdgeId(index as u32),
        function: profile.blocks[row.from.index()].function,
        count: row.count,
        share: share(row.count, all),
        probability: share(row.count, outflow[row.from.index()]),
    });
    let mut rows: Vec<EdgeRow> = rows.filter(|row| function.is_none_or(|id| id == row.function)).collect();
    sort_hottest_first(&mut rows, |row| row.count.value, |row| row.edge.0);
    rows
}
