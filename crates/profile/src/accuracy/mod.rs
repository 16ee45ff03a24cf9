//! How well a sampled profile agrees with the exact one of the same program and input.
//!
//! Rows are matched by key, not by handle: [`compare`] numbers the rows of both profiles in common
//! and hands pairs of figures to the metrics. Rows that only one profile has count as 0 in the
//! other.
//!
//! * **Overlap**: `sum over x of min(share_P(x), share_Q(x))`, share = count / total; 1 is
//!   identical. Over edges it is the *absolute overlap* of edge profiles.
//! * **Relative overlap**: per conditional branch `1 - |bias_exact - bias_estimated|`, weighted by
//!   the exact count of the branch. A branch that was never sampled has the estimated bias 0.5.
//! * **Wall weight matching**: paths weigh their flow, `frequency * branches`. Hot are those above
//!   [`HOT_FLOW_SHARE`] of all flow. Of the paths with the largest estimated flow as many are taken
//!   as there are hot ones; the accuracy is the exact flow of those that are in both sets over that
//!   of the hot ones.
//! * **Element-wise error**: `sum |e(x) - n(x)| / sum n(x)`, with the estimate scaled to the same
//!   total.
//! * **Hot error**: the fraction of the true top [`HOT_ELEMENTS_SHARE`] of elements that are not in
//!   the estimated top of the same size.

mod honesty;
mod pairs;

use rustc_hash::FxHashMap;

use crate::merge::keys::{Handles, Keys};
use crate::model::{BlockEnd, BlockId, Context, Profile};
use crate::query::{Outcomes, methods, outcomes};
pub use honesty::{Coverage, Honesty, Of, Score, honesty, interval_score};
use pairs::{Pair, element_wise_error, hot_error, overlap, pair, scale, wall_weight};

/// Share of all flow above which a path is hot.
pub const HOT_FLOW_SHARE: f64 = 0.001_25;

/// Share of elements that are hot.
pub const HOT_ELEMENTS_SHARE: f64 = 0.15;

/// Bias of a branch about which nothing is known.
const UNKNOWN_BIAS: f64 = 0.5;

/// All metrics. Overlaps and matching are 1 at best, errors 0; nothing if the exact profile has
/// nothing of the kind, as one of blocks has no paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Estimated over exact number of executed blocks; 1 is best. All other metrics compare shares,
    /// and do not depend on it.
    pub scale: f64,
    /// Overlap of block counts.
    pub block_overlap: Option<f64>,
    /// Overlap of edge counts: the absolute overlap.
    pub edge_overlap: Option<f64>,
    /// Overlap of counts of call pairs: call site and callee.
    pub call_overlap: Option<f64>,
    /// Overlap of entries of calling contexts.
    pub context_overlap: Option<f64>,
    /// Overlap of time in calling contexts.
    pub context_time_overlap: Option<f64>,
    /// Overlap of path counts.
    pub path_overlap: Option<f64>,
    /// Agreement of branch biases.
    pub relative_overlap: Option<f64>,
    /// Wall weight matching of paths by flow.
    pub wall_weight: Option<f64>,
    /// Errors of the counts of conditional branches.
    pub branches: ElementErrors,
    /// Errors of the counts of methods: entries and back edges taken.
    pub methods: ElementErrors,
    /// Errors of the counts of call pairs.
    pub calls: ElementErrors,
}

/// Errors over the elements of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementErrors {
    /// Sum of absolute differences over the sum of exact counts; 2 at worst.
    pub element_wise: f64,
    /// Fraction of hot elements missed.
    pub hot: f64,
}

/// Judges `sampled` by `exact`. Both must satisfy [`Profile`]'s invariants.
#[must_use]
pub fn compare(exact: &Profile, sampled: &Profile) -> Accuracy {
    let common = Common::of(exact, sampled);
    let calls = common.calls();
    Accuracy {
        scale: scale(&common.blocks(|_| true)),
        block_overlap: overlap(&common.blocks(|_| true)),
        edge_overlap: overlap(&common.edges()),
        call_overlap: overlap(&calls),
        context_overlap: overlap(&common.contexts(|row| row.entries.value)),
        context_time_overlap: overlap(&common.contexts(|row| row.self_ns.value)),
        path_overlap: overlap(&common.paths(|_| 1.0)),
        relative_overlap: common.relative_overlap(),
        wall_weight: wall_weight(&common.paths(f64::from), HOT_FLOW_SHARE),
        branches: errors(&common.blocks(|end| end == BlockEnd::Branch)),
        methods: errors(&common.methods()),
        calls: errors(&calls),
    }
}

/// Two profiles with their rows numbered in common.
struct Common<'a> {
    exact: Side<'a>,
    sampled: Side<'a>,
}

struct Side<'a> {
    profile: &'a Profile,
    handles: Handles,
}

impl<'a> Common<'a> {
    fn of(exact: &'a Profile, sampled: &'a Profile) -> Common<'a> {
        let mut keys = Keys::default();
        // The sampled profile comes first: ties between estimates are then broken by its order,
        // which knows nothing of the truth.
        let sampled = Side { profile: sampled, handles: keys.handles(sampled) };
        let exact = Side { profile: exact, handles: keys.handles(exact) };
        Common { exact, sampled }
    }

    fn pairs(&self, figures: impl Fn(&Side<'a>) -> Vec<(usize, f64)>) -> Vec<Pair> {
        pair(&figures(&self.exact), &figures(&self.sampled))
    }

    fn blocks(&self, is_wanted: impl Fn(BlockEnd) -> bool) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = side.handles.blocks.iter().zip(&side.profile.blocks).filter(|(_, row)| is_wanted(row.end));
            rows.map(|(id, row)| (id.index(), row.count.value)).collect()
        })
    }

    fn edges(&self) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = side.handles.edges.iter().zip(&side.profile.edges);
            rows.map(|(id, row)| (id.index(), row.count.value)).collect()
        })
    }

    fn calls(&self) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = side.handles.calls.iter().zip(&side.profile.calls);
            rows.map(|(&index, row)| (index, row.count.value)).collect()
        })
    }

    fn contexts(&self, figure: impl Fn(&Context) -> f64) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = side.handles.contexts.iter().zip(&side.profile.contexts);
            rows.map(|(id, row)| (id.index(), figure(row))).collect()
        })
    }

    /// Path counts times a weight that depends on the number of branches.
    fn paths(&self, weight: impl Fn(u32) -> f64) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = side.handles.paths.iter().zip(&side.profile.paths);
            rows.map(|(id, row)| (id.index(), row.count.value * weight(row.n_branches))).collect()
        })
    }

    fn methods(&self) -> Vec<Pair> {
        self.pairs(|side| {
            let rows = methods(side.profile).into_iter();
            rows.map(|row| (side.handles.functions[row.function.index()].index(), row.count.value)).collect()
        })
    }

    fn relative_overlap(&self) -> Option<f64> {
        let bias = |row: &Outcomes| row.taken.value / (row.taken + row.not_taken).value;
        let sampled = outcomes(self.sampled.profile);
        let estimated: FxHashMap<BlockId, f64> =
            sampled.iter().map(|row| (self.sampled.handles.blocks[row.block.index()], bias(row))).collect();
        let (mut agreement, mut weight) = (0.0, 0.0);
        for row in outcomes(self.exact.profile) {
            let count = (row.taken + row.not_taken).value;
            let block = self.exact.handles.blocks[row.block.index()];
            let guess = estimated.get(&block).copied().unwrap_or(UNKNOWN_BIAS);
            agreement += count * (1.0 - (bias(&row) - guess).abs());
            weight += count;
        }
        (0.0 < weight).then(|| agreement / weight)
    }
}

fn errors(pairs: &[Pair]) -> ElementErrors {
    ElementErrors { element_wise: element_wise_error(pairs), hot: hot_error(pairs, HOT_ELEMENTS_SHARE) }
}
