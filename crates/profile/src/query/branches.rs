//! Conditional branches: which way they go, and how predictable that is.
//!
//! The *bias* is the share of executions that take the branch. Its entropy says how much one
//! outcome tells if nothing else is known; the entropy *given the history* says how much is left to
//! tell to someone who knows the last [`HISTORY_BITS`] outcomes, as a predictor does:
//! `sum over h of p(h) * H(taken | h)`. The second is computed from raw counts of what bursts saw.
//! With few outcomes it comes out too low, so the number of outcomes goes with it.
//!
//! [`HISTORY_BITS`]: crate::model::HISTORY_BITS

use crate::estimate::Estimate;
use crate::model::{BlockEnd, BlockId, EdgeKind, FunctionId, Profile};
use crate::query::{share, sort_hottest_first};

/// A conditional branch.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchRow {
    /// The block that ends in it.
    pub block: BlockId,
    /// Its function.
    pub function: FunctionId,
    /// How often it was taken.
    pub taken: Estimate,
    /// How often it was not.
    pub not_taken: Estimate,
    /// Share of executions that took it.
    pub bias: Estimate,
    /// Entropy of the outcome, in bits: 0 if it always goes the same way, 1 if either way is as
    /// likely.
    pub entropy_bits: f64,
    /// Entropy of the outcome given the branches before it, in bits; nothing if no history was
    /// seen.
    pub conditional_entropy_bits: Option<f64>,
    /// Outcomes with a history.
    pub n_outcomes: u64,
}

/// Branches by how often they ran; all that did, or those of one function.
#[must_use]
pub fn branches(profile: &Profile, function: Option<FunctionId>) -> Vec<BranchRow> {
    let surprise = surprise_by_block(profile);
    let rows = outcomes(profile).into_iter().map(|Outcomes { block, taken, not_taken }| {
        let bias = share(taken, taken + not_taken);
        let (bits, n_outcomes) = surprise[block.index()];
        BranchRow {
            block,
            function: profile.blocks[block.index()].function,
            taken,
            not_taken,
            bias,
            entropy_bits: binary_entropy_bits(bias.value),
            conditional_entropy_bits: (0 < n_outcomes).then(|| bits / n_outcomes as f64),
            n_outcomes,
        }
    });
    let mut rows: Vec<BranchRow> = rows.filter(|row| function.is_none_or(|id| id == row.function)).collect();
    sort_hottest_first(&mut rows, |row| (row.taken + row.not_taken).value, |row| row.block.0);
    rows
}

/// Ways of one conditional branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcomes {
    pub block: BlockId,
    pub taken: Estimate,
    pub not_taken: Estimate,
}

/// Outcomes of all branches that ran, by block. A branch that leaves the function when taken has
/// its count among the tail calls.
pub(crate) fn outcomes(profile: &Profile) -> Vec<Outcomes> {
    let mut ways = vec![(Estimate::default(), Estimate::default()); profile.blocks.len()];
    for edge in &profile.edges {
        let (taken, not_taken) = &mut ways[edge.from.index()];
        match edge.kind {
            EdgeKind::Taken => *taken += edge.count,
            EdgeKind::FallThrough => *not_taken += edge.count,
            EdgeKind::Table | EdgeKind::PastCall | EdgeKind::NonLocal => {}
        }
    }
    for call in profile.calls.iter().filter(|call| call.is_tail) {
        ways[call.site.index()].0 += call.count;
    }
    let rows = profile.blocks.iter().zip(ways).enumerate().filter(|(_, (block, _))| block.end == BlockEnd::Branch);
    let rows = rows.map(|(index, (_, (taken, not_taken)))| Outcomes { block: BlockId(index as u32), taken, not_taken });
    rows.filter(|row| 0.0 < row.taken.value + row.not_taken.value).collect()
}

/// Per block the sum over histories of outcomes times their entropy, and the outcomes.
fn surprise_by_block(profile: &Profile) -> Vec<(f64, u64)> {
    let mut sums = vec![(0.0, 0u64); profile.blocks.len()];
    for row in &profile.histories {
        let n = row.n_taken.saturating_add(row.n_not_taken);
        let (bits, n_outcomes) = &mut sums[row.block.index()];
        *bits += n as f64 * binary_entropy_bits(row.n_taken as f64 / n.max(1) as f64);
        *n_outcomes = n_outcomes.saturating_add(n);
    }
    sums
}

/// Entropy of an event of probability `p`.
fn binary_entropy_bits(p: f64) -> f64 {
    let term = |p: f64| if 0.0 < p { -p * p.log2() } else { 0.0 };
    term(p) + term(1.0 - p)
}
