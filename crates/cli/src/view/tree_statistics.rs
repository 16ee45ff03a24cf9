//! `strobe contexts --metric M`: the shape of the calling context tree.

use std::io::{self, Write};

use profile::query;
use serde::Serialize;

use crate::figures::bare_percent;
use crate::view::View;
use crate::view::hotness::share;
use crate::view::props::MetricName;
use crate::view::subject::{FunctionLabel, Subject};
use crate::view::table::TITLE;

#[derive(Debug, Serialize)]
pub struct TreeView {
    /// `executions` (calls), `instructions`, `branches`, `cycles` or `L1d misses`.
    pub metric: &'static str,
    /// Share of the metric from which on a context is hot.
    pub hot_share: f64,
    /// What all contexts have of the metric; cycles as nanoseconds.
    pub total: f64,
    pub n_hot: usize,
    /// What hot contexts have of the metric.
    pub hot_metric_share: f64,
    pub n_nodes: usize,
    pub n_roots: usize,
    pub n_leaves: usize,
    pub n_functions: usize,
    /// Pairs of contexts between which there were recursive calls.
    pub n_back_edges: usize,
    /// Children of a context that has any.
    pub mean_degree: f64,
    /// Of leaves.
    pub mean_height: f64,
    pub max_height: usize,
    /// Most contexts of one function.
    pub max_replication: usize,
    /// That function.
    pub most_replicated: Option<FunctionLabel>,
    /// Call sites that were reached, each context by itself; unknown without paths by context.
    pub n_call_sites: Option<usize>,
    /// Those that were reached on one path only, which came from the function's entry.
    pub n_on_one_path: Option<usize>,
}

pub fn view(subject: &mut Subject, metric: MetricName, hot_share: f64) -> TreeView {
    let found = query::tree_statistics(&subject.profile, metric.query(), hot_share);
    subject.resolve(found.most_replicated, []);
    TreeView {
        metric: metric.text(),
        hot_share,
        total: found.metric,
        n_hot: found.n_hot,
        hot_metric_share: share(found.hot_metric, found.metric),
        n_nodes: found.n_nodes,
        n_roots: found.n_roots,
        n_leaves: found.n_leaves,
        n_functions: found.n_functions,
        n_back_edges: found.n_back_edges,
        mean_degree: found.mean_degree,
        mean_height: found.mean_height,
        max_height: found.max_height,
        max_replication: found.max_replication,
        most_replicated: found.most_replicated.map(|id| subject.label(id)),
        n_call_sites: found.call_sites.map(|sites| sites.n_used),
        n_on_one_path: found.call_sites.map(|sites| sites.n_on_one_path),
    }
}

impl View for TreeView {
    const KIND: &'static str = "context tree";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{TITLE}Calling context tree{TITLE:#}")?;
        let sites = |number: Option<usize>| number.map_or_else(|| "not recorded".to_owned(), |n| n.to_string());
        let most = self.most_replicated.as_ref().map_or_else(String::new, |label| format!(", {}", label.text()));
        let (metric, least) = (self.metric, bare_percent(self.hot_share));
        let rows = [
            ("contexts", self.n_nodes.to_string()),
            ("of functions", self.n_functions.to_string()),
            ("roots (threads, handlers)", self.n_roots.to_string()),
            ("leaves", self.n_leaves.to_string()),
            ("back edges (recursion)", self.n_back_edges.to_string()),
            ("callees of inner contexts, average", format!("{:.1}", self.mean_degree)),
            ("height, average over leaves", format!("{:.1}", self.mean_height)),
            ("height, maximum", self.max_height.to_string()),
            ("contexts of one function, maximum", format!("{}{most}", self.max_replication)),
            ("call sites reached, by context", sites(self.n_call_sites)),
            ("of these, on one path only", sites(self.n_on_one_path)),
            ("hot contexts", format!("{} (from {least} of all {metric})", self.n_hot)),
            ("their share", format!("{} of all {metric}", bare_percent(self.hot_metric_share))),
        ];
        rows.iter().try_for_each(|(what, figure)| writeln!(out, "  {what:<36}{figure}"))
    }
}
