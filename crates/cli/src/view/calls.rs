//! `strobe calls`: who calls whom, from where and how often.

use std::io::{self, Write};

use profile::model::FunctionId;
use profile::query::{self, Neighbour};
use serde::Serialize;

use crate::figures::Figure;
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, nothing, title};

#[derive(Debug, Serialize)]
pub struct CallsView {
    pub n_calls: usize,
    pub calls: Vec<CallLine>,
    /// Calls by pointer whose callee is not known; not among `calls`.
    pub calls_without_callee: Figure,
    pub n_sites_without_callee: usize,
    #[serde(skip)]
    is_timeless: bool,
}

#[derive(Debug, Serialize)]
pub struct CallLine {
    pub caller: FunctionLabel,
    pub site: Spot,
    pub callee: FunctionLabel,
    /// Whether the caller's frame is gone.
    pub tail: bool,
    pub count: Figure,
    /// Share of the calls from this site.
    pub share_of_site: Figure,
    /// Share of the calls of this callee.
    pub share_of_callee: Figure,
}

pub fn view(subject: &mut Subject, n: usize) -> CallsView {
    let mut rows = query::calls(&subject.profile);
    let n_calls = rows.len();
    rows.truncate(n);
    let sites: Vec<_> = rows.iter().map(|row| subject.end_of(row.site)).collect();
    subject.resolve(rows.iter().flat_map(|row| [row.caller, row.callee]), sites);
    let calls = rows.iter().map(|row| CallLine {
        caller: subject.label(row.caller),
        site: subject.spot(subject.end_of(row.site)),
        callee: subject.label(row.callee),
        tail: row.is_tail,
        count: row.count.into(),
        share_of_site: row.share_of_site.into(),
        share_of_callee: row.share_of_callee.into(),
    });
    let calls = calls.collect();
    let unknown = query::calls_without_callee(&subject.profile);
    CallsView {
        n_calls,
        calls,
        calls_without_callee: unknown.count.into(),
        n_sites_without_callee: unknown.n_sites,
        is_timeless: query::is_timeless(&subject.profile),
    }
}

/// One function in the graph of calls.
#[derive(Debug, Serialize)]
pub struct NeighboursView {
    pub function: FunctionLabel,
    pub entries: Figure,
    pub n_callers: usize,
    pub callers: Vec<NeighbourLine>,
    pub n_callees: usize,
    pub callees: Vec<NeighbourLine>,
    #[serde(skip)]
    is_timeless: bool,
}

#[derive(Debug, Serialize)]
pub struct NeighbourLine {
    pub function: FunctionLabel,
    pub count: Figure,
    /// CPU time below these calls.
    pub total_ns: Figure,
    /// `total_ns` as a share of CPU time.
    pub share: Figure,
}

pub fn view_of(subject: &mut Subject, function: FunctionId, n: usize) -> NeighboursView {
    let mut all = query::neighbours(&subject.profile, function);
    let (n_callers, n_callees) = (all.callers.len(), all.callees.len());
    all.callers.truncate(n);
    all.callees.truncate(n);
    let shown = all.callers.iter().chain(&all.callees).map(|row| row.function).chain([function]);
    subject.resolve(shown, []);
    let cpu_ns = query::totals(&subject.profile).cpu_ns;
    let line = |row: &Neighbour| NeighbourLine {
        function: subject.label(row.function),
        count: row.count.into(),
        total_ns: row.total_ns.into(),
        share: query::share(row.total_ns, cpu_ns).into(),
    };
    NeighboursView {
        function: subject.label(function),
        entries: subject.function(function).entries.into(),
        n_callers,
        callers: all.callers.iter().map(line).collect(),
        n_callees,
        callees: all.callees.iter().map(line).collect(),
        is_timeless: query::is_timeless(&subject.profile),
    }
}

impl View for CallsView {
    const KIND: &'static str = "calls";

    fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.calls.is_empty() {
            return nothing(out, "calls");
        }
        title(out, "Hot calls", self.calls.len(), self.n_calls)?;
        let mut table = Table::new(&["COUNT", "OF SITE", "OF CALLEE", "CALLER -> CALLEE"]);
        for line in &self.calls {
            let arrow = if line.tail { "-> (tail)" } else { "->" };
            let (caller, callee) = (line.caller.short(), line.callee.text());
            let what = format!("{caller} at {} {arrow} {callee}", line.site.text());
            let figures = [line.count.count(), line.share_of_site.percent(), line.share_of_callee.percent()];
            table.row(anstyle::Style::new(), figures.into_iter().chain([what]));
        }
        table.print(out)?;
        self.print_unknown(out)
    }
}

impl CallsView {
    /// What is missing above.
    fn print_unknown(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.n_sites_without_callee == 0 {
            return Ok(());
        }
        let (count, n_sites) = (self.calls_without_callee.count(), self.n_sites_without_callee);
        let sites = if n_sites == 1 { "site" } else { "sites" };
        writeln!(out)?;
        writeln!(
            out,
            "not in this table: {count} calls through pointers, from {n_sites} {sites}, of which it is not known whom they called"
        )?;
        match self.is_timeless {
            true => writeln!(
                out,
                "(`strobe count --of contexts --per-call-site` counts them with their callees, in `strobe contexts`)"
            ),
            false => Ok(()),
        }
    }
}

impl View for NeighboursView {
    const KIND: &'static str = "function calls";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let bold = crate::view::table::TITLE;
        writeln!(out, "{bold}{}{bold:#}, {}", self.function.text(), self.entries.entered())?;
        for (what, lines, n_all) in
            [("Callers", &self.callers, self.n_callers), ("Callees", &self.callees, self.n_callees)]
        {
            writeln!(out)?;
            title(out, what, lines.len(), n_all)?;
            if lines.is_empty() {
                writeln!(out, "  none were seen")?;
                continue;
            }
            if self.is_timeless {
                let mut table = Table::new(&["CALLS", "FUNCTION"]);
                for line in lines {
                    table.row(anstyle::Style::new(), [line.count.count(), line.function.text()]);
                }
                table.print(out)?;
                continue;
            }
            let mut table = Table::new(&["TOTAL", "TIME", "CALLS", "FUNCTION"]);
            for line in lines {
                let figures = [line.share.percent(), line.total_ns.time(), line.count.count(), line.function.text()];
                table.row(heat(line.share.value), figures);
            }
            table.print(out)?;
        }
        Ok(())
    }
}
