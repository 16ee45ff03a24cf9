//! `strobe edges`: steps between blocks, by how often they were taken.

use std::io::{self, Write};

use profile::model::{EdgeKind, FunctionId};
use profile::query;
use serde::Serialize;

use crate::figures::Figure;
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, nothing, title};

#[derive(Debug, Serialize)]
pub struct EdgesView {
    /// Number of all edges, or of those of one function.
    pub n_edges: usize,
    pub edges: Vec<EdgeLine>,
}

#[derive(Debug, Serialize)]
pub struct EdgeLine {
    pub function: FunctionLabel,
    pub from: Spot,
    pub to: Spot,
    pub edge: &'static str,
    pub back: bool,
    pub count: Figure,
    /// Share of all edges.
    pub share: Figure,
    /// Share of the edges out of the same block.
    pub probability: Figure,
}

pub fn view(subject: &mut Subject, function: Option<FunctionId>, n: usize) -> EdgesView {
    let mut rows = query::edges(&subject.profile, function);
    let n_edges = rows.len();
    rows.truncate(n);
    let places: Vec<_> = rows.iter().flat_map(|row| subject.ends_of(row.edge)).collect();
    subject.resolve(rows.iter().map(|row| row.function), places);
    let edges = rows.iter().map(|row| {
        let edge = &subject.profile.edges[row.edge.index()];
        let [from, to] = subject.ends_of(row.edge).map(|place| subject.spot(place));
        EdgeLine {
            function: subject.label(row.function),
            from,
            to,
            edge: kind_name(edge.kind),
            back: edge.is_back,
            count: row.count.into(),
            share: row.share.into(),
            probability: row.probability.into(),
        }
    });
    EdgesView { n_edges, edges: edges.collect() }
}

pub fn kind_name(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::FallThrough => "fall-through",
        EdgeKind::Taken => "taken",
        EdgeKind::Table => "table",
        EdgeKind::PastCall => "past call",
        EdgeKind::NonLocal => "non-local",
    }
}

impl View for EdgesView {
    const KIND: &'static str = "edges";

    fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.edges.is_empty() {
            return nothing(out, "edges");
        }
        title(out, "Hot edges", self.edges.len(), self.n_edges)?;
        let mut table = Table::new(&["SHARE", "COUNT", "OF BLOCK", "KIND", "FROM -> TO"]);
        for line in &self.edges {
            let kind = if line.back { format!("{}, back", line.edge) } else { line.edge.to_owned() };
            let what = format!("{} -> {}  {}", line.from.text(), line.to.text(), line.function.text());
            let figures = [line.share.percent(), line.count.count(), line.probability.percent()];
            table.row(heat(line.share.value), figures.into_iter().chain([kind, what]));
        }
        table.print(out)
    }
}
