//! Claim F4: table 3 of the paper, the shape of calling context trees.

use std::collections::BTreeSet;
use std::fs;

use profile::model::FunctionId;
use profile::query::{CallSites, Metric, TreeStatistics, tree_statistics};
use serde::{Deserialize, Serialize};

use super::{Judged, code, judged};
use crate::accuracy::What;
use crate::claims::{Finding, Verdict, Workbench};
use crate::corpus::Workload;
use crate::resample::mean;
use crate::table::{Table, grouped};

/// The tree of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Tree {
    program: String,
    /// Of the profile.
    n_bytes: u64,
    n_nodes: usize,
    mean_degree: f64,
    mean_height: f64,
    max_height: usize,
    max_replication: usize,
    /// Call sites of all contexts, those that were reached, and those that one path reached.
    n_call_sites: usize,
    n_used: usize,
    n_on_one_path: usize,
    /// What tables had no room for.
    n_lost: f64,
}

fn tree(bench: &Workbench, workload: &Workload) -> anyhow::Result<Option<Tree>> {
    let recordings = bench.exact_bench(&[*workload])?;
    // Misses are of no use here, but other claims have this recording, too.
    let (what, counted) = match recordings.counted_program(workload, What::ContextPathMisses)? {
        Some(profile) => (What::ContextPathMisses, Some(profile)),
        None => (What::ContextPaths, recordings.counted_program(workload, What::ContextPaths)?),
    };
    let Some(profile) = counted else { return Ok(None) };
    let n_bytes = fs::metadata(recordings.counted_file(workload, what)?)?.len();
    let found: TreeStatistics = tree_statistics(&profile, Metric::Executions, 0.0);
    let CallSites { n_used, n_on_one_path } = found.call_sites.unwrap_or_default();
    let functions: BTreeSet<FunctionId> = profile.contexts.iter().map(|row| row.function).collect();
    let allowed = code::allowed(&profile, |id| functions.contains(&id))?;
    let sites = profile.contexts.iter().filter_map(|row| allowed.get(&row.function));
    let lost = |name: &str| profile.facts.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    Ok(Some(Tree {
        program: workload.name.to_owned(),
        n_bytes,
        n_nodes: found.n_nodes,
        mean_degree: found.mean_degree,
        mean_height: found.mean_height,
        max_height: found.max_height,
        max_replication: found.max_replication,
        n_call_sites: sites.map(|each| each.n_call_sites).sum(),
        n_used,
        n_on_one_path,
        n_lost: lost("lost_contexts") + lost("lost_paths"),
    }))
}

/// F4: statistics of calling context trees.
pub fn statistics(bench: &Workbench) -> anyhow::Result<Finding> {
    let measure = |workload: &Workload| bench.kept(&format!("tree/{}.json", workload.name), || tree(bench, workload));
    let Judged { found: trees, left_out } = judged(&bench.programs()?, measure)?;
    let mut table = Table::new(&[
        "program",
        "profile MB",
        "nodes",
        "degree",
        "height avg",
        "max",
        "max replication",
        "call sites",
        "used",
        "one path",
        "of used %",
        "lost",
    ]);
    for tree in &trees {
        table.row([
            tree.program.clone(),
            format!("{:.1}", tree.n_bytes as f64 / 1e6),
            grouped(tree.n_nodes as u64),
            format!("{:.1}", tree.mean_degree),
            format!("{:.1}", tree.mean_height),
            tree.max_height.to_string(),
            grouped(tree.max_replication as u64),
            grouped(tree.n_call_sites as u64),
            grouped(tree.n_used as u64),
            grouped(tree.n_on_one_path as u64),
            format!("{:.1}", one_path_percent(tree)),
            format!("{}", tree.n_lost),
        ]);
    }
    let one_path: Vec<f64> = trees.iter().map(one_path_percent).collect();
    let degrees: Vec<f64> = trees.iter().map(|tree| tree.mean_degree).collect();
    let heights: Vec<f64> = trees.iter().map(|tree| tree.mean_height).collect();
    let nodes = trees.iter().map(|tree| tree.n_nodes as u64);
    let ours = format!(
        "{}-{} nodes, degree {:.1}, height {:.1} on average; one path reaches {:.0} % of the call sites that are reached",
        grouped(nodes.clone().min().unwrap_or(0)),
        grouped(nodes.max().unwrap_or(0)),
        mean(&degrees),
        mean(&heights),
        mean(&one_path)
    );
    let is_complete = trees.iter().all(|tree| tree.n_lost == 0.0);
    let mut finding = Finding::new(ours, "", Verdict::of(is_complete));
    finding.notes.push(
        "Paths by calling context of all modules; calls of one function from different places of another lead to the same node. Call sites are counted in each \
         node by itself; *one path*: reached on one path of the node only, which came from the procedure's entry. *Lost* are contexts and paths that tables had no \
         room for; the claim holds if there are none."
            .to_owned(),
    );
    finding.notes.extend(left_out);
    finding.tables.push(("Calling context trees (table 3)".to_owned(), table));
    Ok(finding)
}

fn one_path_percent(tree: &Tree) -> f64 {
    100.0 * tree.n_on_one_path as f64 / tree.n_used.max(1) as f64
}
