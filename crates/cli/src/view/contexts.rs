//! `strobe contexts`: CPU time by calling context.

use std::io::{self, Write};

use profile::Estimate;
use profile::model::{ContextId, FunctionId, Profile};
use profile::query::{self, ContextNode, ContextOptions};
use serde::Serialize;

use crate::figures::Figure;
use crate::view::subject::{FunctionLabel, Place, Spot, Subject};
use crate::view::table::{TITLE, Table, heat};
use crate::view::{View, nothing};

/// Levels beyond which the tree is not moved further to the right.
const MAX_INDENT: usize = 40;

#[derive(Debug, Serialize)]
pub struct ContextsView {
    /// Whether the children of a node are its callers.
    pub inverted: bool,
    /// Whether there are calls but no times.
    pub is_timeless: bool,
    /// Smallest share of CPU time that is shown.
    pub min_share: f64,
    /// Nodes before the end was cut off.
    pub n_nodes: usize,
    /// The nodes in preorder, the hottest child first.
    pub nodes: Vec<NodeLine>,
}

#[derive(Debug, Serialize)]
pub struct NodeLine {
    pub function: FunctionLabel,
    pub depth: u32,
    /// Where the parent calls it, if contexts are told apart by that.
    pub call_site: Option<Spot>,
    /// How often it was entered from its parent; unknown in an inverted tree.
    pub entries: Option<Figure>,
    /// Calls from below back to this node.
    pub recursive_calls: Option<Figure>,
    pub self_ns: Figure,
    pub kernel_ns: Figure,
    pub total_ns: Figure,
    /// Calls of it and below it; unknown in an inverted tree.
    pub total_calls: Option<Figure>,
    /// `total_ns` as a share of CPU time, or `total_calls` as one of calls, if times are not known.
    pub share: Figure,
    /// Children that are too small to be shown.
    pub n_pruned: u32,
    pub pruned_ns: Figure,
}

/// Which part of the tree to show.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub min_share: f64,
    pub caller: Option<FunctionId>,
    pub callee: Option<FunctionId>,
    pub n: usize,
}

pub fn view(subject: &mut Subject, part: Part) -> ContextsView {
    let kept = part.callee.map(|callee| leading_to(&subject.profile, callee));
    let profile = kept.as_ref().unwrap_or(&subject.profile);
    let options = ContextOptions { min_share: smallest_share(&subject.profile, profile, part), root: part.caller };
    let mut nodes = query::context_tree(profile, options);
    let n_nodes = nodes.len();
    nodes.truncate(part.n);
    let recursions = recursions(&subject.profile);
    let calls: Vec<Option<Place>> = nodes.iter().map(|node| call_site(&subject.profile, node.context)).collect();
    subject.resolve(nodes.iter().map(|node| node.function), calls.iter().copied().flatten());
    let is_timeless = query::is_timeless(&subject.profile);
    let cpu_ns = query::totals(&subject.profile).cpu_ns;
    let line = |(node, call): (&ContextNode, &Option<Place>)| NodeLine {
        function: subject.label(node.function),
        depth: node.depth,
        call_site: call.map(|place| subject.spot(place)),
        entries: Some(node.entries.into()),
        recursive_calls: recursions.get(node.context.index()).copied().flatten().map(Figure::from),
        self_ns: node.self_ns.into(),
        kernel_ns: node.kernel_ns.into(),
        total_ns: node.total_ns.into(),
        total_calls: Some(node.total_calls.into()),
        share: if is_timeless { node.share } else { query::share(node.total_ns, cpu_ns) }.into(),
        n_pruned: node.n_pruned,
        pruned_ns: node.pruned_ns.into(),
    };
    ContextsView {
        inverted: false,
        is_timeless,
        min_share: part.min_share,
        n_nodes,
        nodes: nodes.iter().zip(&calls).map(line).collect(),
    }
}

/// The tree query takes shares of the profile it is given; ours are of the whole one. What leads
/// nowhere is not shown at all.
fn smallest_share(whole: &Profile, shown: &Profile, part: Part) -> f64 {
    let [whole_ns, shown_ns] = [whole, shown].map(|profile| query::totals(profile).cpu_ns.value);
    let least = if part.callee.is_some() { f64::MIN_POSITIVE } else { 0.0 };
    let factor = match 0.0 < shown_ns {
        true => whole_ns / shown_ns,
        false if query::is_timeless(whole) => 1.0,
        false => 0.0,
    };
    (part.min_share * factor).max(least)
}

/// A profile of the time in and below contexts of `callee` only. All contexts are still there.
fn leading_to(profile: &Profile, callee: FunctionId) -> Profile {
    let is_timeless = query::is_timeless(profile);
    let mut is_below = Vec::with_capacity(profile.contexts.len());
    let mut contexts = profile.contexts.clone();
    for row in &mut contexts {
        let below = row.function == callee || row.parent.is_some_and(|parent| is_below[parent.index()]);
        is_below.push(below);
        if !below {
            (row.self_ns, row.kernel_ns) = (Estimate::default(), Estimate::default());
            if is_timeless {
                row.entries = Estimate::default();
            }
        }
    }
    // The query takes user time from functions.
    let mut functions = profile.functions.clone();
    functions.iter_mut().for_each(|row| row.self_ns = Estimate::default());
    for row in &contexts {
        functions[row.function.index()].self_ns += row.self_ns;
    }
    Profile { contexts, functions, ..Profile::default() }
}

/// Where the call is that leads to a context, if that is known.
fn call_site(profile: &Profile, context: ContextId) -> Option<Place> {
    let row = &profile.contexts[context.index()];
    let caller = profile.contexts[row.parent?.index()].function;
    Some((profile.functions[caller.index()].module, row.call_site?))
}

/// Calls back to each context from below.
fn recursions(profile: &Profile) -> Vec<Option<Estimate>> {
    let mut sums: Vec<Option<Estimate>> = vec![None; profile.contexts.len()];
    for row in &profile.recursions {
        *sums[row.to.index()].get_or_insert_default() += row.count;
    }
    sums
}

/// Functions from the root to a context.
pub fn stack(profile: &Profile, context: ContextId) -> Vec<FunctionId> {
    let row = |id: ContextId| &profile.contexts[id.index()];
    let mut stack: Vec<FunctionId> =
        std::iter::successors(Some(context), |&id| row(id).parent).map(|id| row(id).function).collect();
    stack.reverse();
    stack
}

/// Looks up what [`stack_names`] of these contexts needs.
pub fn resolve_stacks(subject: &mut Subject, contexts: impl Iterator<Item = ContextId>) {
    let mut functions: Vec<FunctionId> = contexts.flat_map(|context| stack(&subject.profile, context)).collect();
    functions.sort_unstable();
    functions.dedup();
    subject.resolve(functions, []);
}

/// Names of the functions around a context and of its own, from the root on.
pub fn stack_names(subject: &Subject, context: ContextId) -> Vec<String> {
    stack(&subject.profile, context).into_iter().map(|id| subject.label(id).short()).collect()
}

impl View for ContextsView {
    const KIND: &'static str = "contexts";

    fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.nodes.is_empty() {
            return nothing(out, "contexts of this size");
        }
        let what = if self.inverted { "Functions and their callers" } else { "Calling contexts" };
        let least = crate::figures::bare_percent(self.min_share);
        let cut = if self.nodes.len() < self.n_nodes {
            format!(", {} of {} lines", self.nodes.len(), self.n_nodes)
        } else {
            String::new()
        };
        let of = if self.is_timeless { "calls" } else { "CPU time" };
        writeln!(out, "{TITLE}{what}{TITLE:#} (from {least} of {of}{cut})")?;
        let mut table = match self.inverted {
            true => Table::new(&["TOTAL", "TIME", "FUNCTION, BELOW IT ITS CALLERS"]),
            false if self.is_timeless => Table::new(&["TOTAL", "CALLS BELOW", "ENTRIES", "CONTEXT"]),
            false => Table::new(&["TOTAL", "SELF", "KERNEL", "ENTRIES", "CONTEXT"]),
        };
        for node in &self.nodes {
            let figures = match (self.inverted, self.is_timeless) {
                (true, _) => node.inverted_figures(),
                (false, true) => node.figures_of_calls(),
                (false, false) => node.figures(),
            };
            table.row(heat(node.share.value), figures.into_iter().chain([node.name()]));
        }
        table.print(out)
    }
}

impl NodeLine {
    fn figures(&self) -> Vec<String> {
        let entries = self.entries.map_or_else(|| "-".to_owned(), Figure::count_if_seen);
        vec![self.share.percent(), self.self_ns.time(), self.kernel_ns.time(), entries]
    }

    fn figures_of_calls(&self) -> Vec<String> {
        let count = |figure: Option<Figure>| figure.map_or_else(|| "-".to_owned(), Figure::count);
        vec![self.share.percent(), count(self.total_calls), count(self.entries)]
    }

    fn inverted_figures(&self) -> Vec<String> {
        vec![self.share.percent(), self.total_ns.time()]
    }

    fn name(&self) -> String {
        let indent = (self.depth as usize).min(MAX_INDENT);
        let again = self.recursive_calls.map(|calls| format!(", {} calls back from below", calls.count()));
        let pruned = (0 < self.n_pruned).then(|| match self.pruned_ns.value {
            0.0 => format!("  (+{} smaller)", self.n_pruned),
            _ => format!("  (+{} smaller, {})", self.n_pruned, self.pruned_ns.time()),
        });
        let call = self.call_site.as_ref().map(|spot| format!(", called at {}", spot.text()));
        let [call, again, pruned] = [call, again, pruned].map(Option::unwrap_or_default);
        format!("{:width$}{}{call}{again}{pruned}", "", self.function.text(), width = 2 * indent)
    }
}
