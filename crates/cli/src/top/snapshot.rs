//! What the live view shows of a profile, as text. Drawing needs the profile no more.

use profile::model::FunctionId;
use profile::query::{
    ContextOptions, PathRank, context_tree, functions as hot_functions, paths as hot_paths, scale_factor, totals,
};
use profile::{Estimate, Profile};

use crate::figures::{bare_percent, count, duration, share};
use crate::top::names::KnownNames;

/// Rows of a table; nobody scrolls further in a view that changes every second.
const MAX_ROWS: usize = 200;
/// Contexts with less of the CPU time are not shown.
const MIN_CONTEXT_SHARE: f64 = 0.005;

/// A profile at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub command: String,
    /// CPU time, user and kernel.
    pub time: String,
    /// What recording cost so far.
    pub cost: String,
    /// How far counts can be off; empty if they are exact.
    pub counts: String,
    pub functions: Vec<Row>,
    pub paths: Vec<Row>,
    pub contexts: Vec<Row>,
}

/// A line of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Share of CPU time, for the bar.
    pub share: f64,
    /// The share with its error bar, and two more.
    pub figures: [String; 3],
    pub name: String,
}

impl Snapshot {
    pub fn of(profile: &Profile, names: &mut KnownNames) -> Snapshot {
        let totals = totals(profile);
        let kernel_share = profile::query::share(totals.kernel_ns, totals.cpu_ns);
        Snapshot {
            command: command(profile),
            time: format!("{} CPU, {} in the kernel", duration(totals.cpu_ns.value), bare_percent(kernel_share.value)),
            cost: cost(profile),
            counts: counts(profile),
            functions: functions(profile, names),
            paths: paths(profile, names),
            contexts: contexts(profile, names),
        }
    }
}

fn command(profile: &Profile) -> String {
    let of_thread = || profile.threads.first().map(|thread| thread.command.clone());
    profile.facts.get("command").cloned().or_else(of_thread).unwrap_or_else(|| "?".to_owned())
}

/// The share of CPU time that recording cost, and what came of ticks.
fn cost(profile: &Profile) -> String {
    let cost = profile.facts.get("cost_percent").map_or("not known yet".to_owned(), |cost| format!("{cost} %"));
    let n_ticks: u64 = profile.ticks.values().sum();
    let n_bursts = profile.ticks.get("burst").copied().unwrap_or(0);
    format!("cost {cost}, {} ticks, {} bursts", count(n_ticks as f64), count(n_bursts as f64))
}

fn counts(profile: &Profile) -> String {
    let factor = scale_factor(profile);
    if 1.0 < factor { format!("counts right within a factor of {factor:.1}") } else { String::new() }
}

/// There is no room for errors: the heading says how right counts are.
fn entries(entries: Estimate) -> String {
    if entries == Estimate::default() { "-".to_owned() } else { count(entries.value) }
}

fn functions(profile: &Profile, names: &mut KnownNames) -> Vec<Row> {
    let mut rows = hot_functions(profile);
    rows.truncate(MAX_ROWS);
    let ids: Vec<FunctionId> = rows.iter().map(|row| row.function).collect();
    let named = rows.iter().zip(names.of(profile, &ids));
    let shown = named.map(|(row, name)| Row {
        share: row.self_share.value,
        figures: [share(row.self_share), bare_percent(row.total_share.value), entries(row.entries)],
        name,
    });
    shown.collect()
}

fn paths(profile: &Profile, names: &mut KnownNames) -> Vec<Row> {
    let mut rows = hot_paths(profile, None, PathRank::Time);
    rows.truncate(MAX_ROWS);
    let ids: Vec<FunctionId> = rows.iter().map(|row| row.function).collect();
    let named = rows.iter().zip(names.of(profile, &ids));
    let shown = named.map(|(row, name)| {
        let path = &profile.paths[row.path.index()];
        let start = path.blocks.first().map_or(0, |id| profile.blocks[id.index()].address);
        Row {
            share: row.time_share.value,
            figures: [share(row.time_share), bare_percent(row.share_of_function.value), count(row.count.value)],
            name: format!("{name} from {start:#x}, {} blocks", path.blocks.len()),
        }
    });
    shown.collect()
}

fn contexts(profile: &Profile, names: &mut KnownNames) -> Vec<Row> {
    let mut nodes = context_tree(profile, ContextOptions { min_share: MIN_CONTEXT_SHARE, root: None });
    nodes.truncate(MAX_ROWS);
    let ids: Vec<FunctionId> = nodes.iter().map(|node| node.function).collect();
    let named = nodes.iter().zip(names.of(profile, &ids));
    let shown = named.map(|(node, name)| Row {
        share: node.share.value,
        figures: [share(node.share), duration((node.self_ns + node.kernel_ns).value), entries(node.entries)],
        name: format!("{}{name}", "  ".repeat(node.depth as usize)),
    });
    shown.collect()
}
