//! `strobe methods`: functions by what makes them worth optimizing, how often they are entered and
//! how often their loops turn.

use std::io::{self, Write};

use profile::Estimate;
use profile::query;
use serde::Serialize;

use crate::figures::Figure;
use crate::view::subject::{FunctionLabel, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, nothing, title};

#[derive(Debug, Serialize)]
pub struct MethodsView {
    pub n_methods: usize,
    pub methods: Vec<MethodLine>,
}

#[derive(Debug, Serialize)]
pub struct MethodLine {
    pub function: FunctionLabel,
    /// Entries and back edges.
    pub count: Figure,
    /// Share of those of all methods.
    pub share: Figure,
    pub entries: Figure,
    pub back_edges: Figure,
}

pub fn view(subject: &mut Subject, n: usize) -> MethodsView {
    let mut rows = query::methods(&subject.profile);
    rows.retain(|row| 0.0 < row.count.value);
    let all: Estimate = rows.iter().map(|row| row.count).sum();
    let n_methods = rows.len();
    rows.truncate(n);
    subject.resolve(rows.iter().map(|row| row.function), []);
    let methods = rows.iter().map(|row| MethodLine {
        function: subject.label(row.function),
        count: row.count.into(),
        share: query::share(row.count, all).into(),
        entries: row.entries.into(),
        back_edges: row.back_edges.into(),
    });
    MethodsView { n_methods, methods: methods.collect() }
}

impl View for MethodsView {
    const KIND: &'static str = "methods";

    fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.methods.is_empty() {
            return nothing(out, "methods");
        }
        title(out, "Methods by entries and back edges", self.methods.len(), self.n_methods)?;
        let mut table = Table::new(&["SHARE", "COUNT", "ENTRIES", "BACK EDGES", "FUNCTION"]);
        for line in &self.methods {
            let figures =
                [line.share.percent(), line.count.count(), line.entries.count_if_seen(), line.back_edges.count()];
            table.row(heat(line.share.value), figures.into_iter().chain([line.function.text()]));
        }
        table.print(out)
    }
}
