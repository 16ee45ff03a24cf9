//! The tree of calling contexts.
//!
//! Parents come before their children in the table, so that one pass from its end sums up inclusive
//! times, however deep the tree is.

use std::cmp::Ordering;

use crate::estimate::Estimate;
use crate::model::{Context, ContextId, FunctionId, Profile};
use crate::query::{share, totals};

/// CPU time of each context and all below it, user and kernel, by context.
#[must_use]
pub fn inclusive_ns(profile: &Profile) -> Vec<Estimate> {
    inclusive_sums(profile, |row| row.self_ns + row.kernel_ns)
}

fn inclusive_sums(profile: &Profile, own: impl Fn(&Context) -> Estimate) -> Vec<Estimate> {
    let mut inclusive: Vec<Estimate> = profile.contexts.iter().map(own).collect();
    for (index, row) in profile.contexts.iter().enumerate().rev() {
        if let Some(parent) = row.parent {
            let below = inclusive[index];
            inclusive[parent.index()] += below;
        }
    }
    inclusive
}

/// Which part of the tree to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextOptions {
    /// Contexts with a smaller share of CPU time, callees included, are left out.
    pub min_share: f64,
    /// Only the trees below contexts of this function.
    pub root: Option<FunctionId>,
}

/// A context as a line of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextNode {
    /// The context.
    pub context: ContextId,
    /// The function.
    pub function: FunctionId,
    /// Contexts above it in this tree.
    pub depth: u32,
    /// How often it was entered from its parent.
    pub entries: Estimate,
    /// User CPU time in the context itself.
    pub self_ns: Estimate,
    /// Kernel CPU time in the context itself.
    pub kernel_ns: Estimate,
    /// CPU time in it and below it, user and kernel.
    pub total_ns: Estimate,
    /// Calls of it and below it, recursive ones not included.
    pub total_calls: Estimate,
    /// `total_ns` as a share of CPU time; of calls, if times are not known.
    pub share: Estimate,
    /// Children that were left out.
    pub n_pruned: u32,
    /// CPU time in and below those.
    pub pruned_ns: Estimate,
}

/// Whether contexts of the profile have calls but no times, as in exact recordings.
#[must_use]
pub fn is_timeless(profile: &Profile) -> bool {
    profile.contexts.iter().all(|row| row.self_ns.value == 0.0 && row.kernel_ns.value == 0.0)
}

/// The tree in preorder, the hottest child first; the one with the most calls, if times are not
/// known.
#[must_use]
pub fn context_tree(profile: &Profile, options: ContextOptions) -> Vec<ContextNode> {
    let inclusive = inclusive_ns(profile);
    let calls = inclusive_sums(profile, |row| row.entries);
    let (weights, total) = if is_timeless(profile) {
        (&calls, profile.contexts.iter().map(|row| row.entries).sum())
    } else {
        (&inclusive, totals(profile).cpu_ns)
    };
    let is_shown = |index: usize| options.min_share * total.value <= weights[index].value;
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); profile.contexts.len()];
    let mut pending: Vec<(usize, u32)> = Vec::new();
    for (index, row) in profile.contexts.iter().enumerate() {
        if let Some(parent) = row.parent {
            children[parent.index()].push(index);
        }
        let is_root = options.root.map_or(row.parent.is_none(), |root| root == row.function);
        if is_root && is_shown(index) {
            pending.push((index, 0));
        }
    }
    // The hottest comes off the stack first.
    let coldest_first = |&a: &usize, &b: &usize| match weights[a].value.total_cmp(&weights[b].value) {
        Ordering::Equal => b.cmp(&a),
        unequal => unequal,
    };
    pending.sort_by(|(a, _), (b, _)| coldest_first(a, b));
    let mut nodes = Vec::new();
    while let Some((index, depth)) = pending.pop() {
        let (mut shown, pruned): (Vec<usize>, Vec<usize>) = children[index].iter().partition(|&&child| is_shown(child));
        shown.sort_by(coldest_first);
        pending.extend(shown.into_iter().map(|child| (child, depth + 1)));
        let row = &profile.contexts[index];
        nodes.push(ContextNode {
            context: ContextId(index as u32),
            function: row.function,
            depth,
            entries: row.entries,
            self_ns: row.self_ns,
            kernel_ns: row.kernel_ns,
            total_ns: inclusive[index],
            total_calls: calls[index],
            share: share(weights[index], total),
            n_pruned: pruned.len() as u32,
            pruned_ns: pruned.into_iter().map(|child| inclusive[child]).sum(),
        });
    }
    nodes
}
