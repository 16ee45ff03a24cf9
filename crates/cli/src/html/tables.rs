//! Functions and loops as tables that can be sorted.

use std::io::{self, Write};

use profile::model::ModuleId;
use profile::query::{functions as function_rows, loops as loop_rows};
use profile::{Profile, Symbols as _};

use crate::figures;
use crate::html::{Report, Text};
use crate::names::file_name;

/// Functions to list.
const MAX_FUNCTIONS: usize = 500;
/// Loops to list.
const MAX_LOOPS: usize = 100;

pub fn functions(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = function_rows(report.profile);
    let headings =
        [("own time", "n"), ("", ""), ("with callees", "n"), ("entries", "n"), ("function", "t"), ("module", "t")];
    write_head(&headings, out)?;
    for row in rows.iter().take(MAX_FUNCTIONS) {
        let function = &report.profile.functions[row.function.index()];
        let module = report.profile.modules.get(function.module.index()).map_or("?", |module| file_name(&module.path));
        write!(out, "<tr>{}", Figure(row.self_share.value, figures::share(row.self_share)))?;
        write!(out, "<td class=\"share\">{}</td>", Bar(row.self_share.value))?;
        write!(out, "{}", Figure(row.total_share.value, figures::bare_percent(row.total_share.value)))?;
        write!(out, "{}", Figure(row.entries.value, figures::estimated_count(row.entries)))?;
        let name = Text(report.names.short(row.function));
        writeln!(out, "<td class=\"name\">{name}</td><td>{}</td></tr>", Text(module))?;
    }
    write_tail(rows.len(), MAX_FUNCTIONS, out)
}

/// Addresses whose lines are shown.
pub fn loop_places(profile: &Profile) -> Vec<(ModuleId, u64)> {
    let rows = loop_rows(profile, None);
    let headers = rows.iter().take(MAX_LOOPS).map(|row| {
        let block = &profile.blocks[profile.loops[row.id.index()].header.index()];
        (profile.functions[block.function.index()].module, block.address)
    });
    headers.collect()
}

pub fn loops(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = loop_rows(report.profile, None);
    let headings = [
        ("time", "n"),
        ("of function", "n"),
        ("entries", "n"),
        ("iterations per entry", "n"),
        ("time per iteration", "n"),
        ("visits by iterations", "t"),
        ("loop", "t"),
    ];
    write_head(&headings, out)?;
    for (row, (module, address)) in rows.iter().zip(loop_places(report.profile)) {
        let trips = row.mean_trips.map_or((0.0, "?".to_owned()), |trips| (trips.value, format!("{:.1}", trips.value)));
        let turn = row.ns_per_iteration.map_or((0.0, "?".to_owned()), |ns| (ns.value, figures::duration(ns.value)));
        let line = report.symbolizer.frames(module, address).into_iter().next().filter(|frame| frame.line != 0);
        let line = line.map(|frame| format!("{}:{}", file_name(&frame.file), frame.line)).unwrap_or_default();
        write!(out, "<tr>{}", Figure(row.share.value, figures::share(row.share)))?;
        write!(out, "{}", Figure(row.share_of_function.value, figures::bare_percent(row.share_of_function.value)))?;
        write!(out, "{}", Figure(row.entries.value, figures::estimated_count(row.entries)))?;
        write!(out, "{}{}", Figure(trips.0, trips.1), Figure(turn.0, turn.1))?;
        write!(out, "<td>{}</td><td class=\"name\">", Text(histogram(&row.trips)))?;
        write!(out, "{} <code>{address:#x}</code> ", Text(report.names.short(row.function)))?;
        writeln!(out, "<span class=\"dim\">{} depth {}</span></td></tr>", Text(line), row.depth)?;
    }
    write_tail(rows.len(), MAX_LOOPS, out)
}

/// Complete visits by the power of two of their iterations: `1: 12, 4-7: 3`.
fn histogram(trips: &[u64]) -> String {
    let bins = trips.iter().enumerate().filter(|(_, n)| **n != 0).map(|(index, n)| {
        let low = 1u64.checked_shl(index as u32).unwrap_or(u64::MAX);
        let high = low.saturating_mul(2) - 1;
        if low == high { format!("{low}: {n}") } else { format!("{low}-{high}: {n}") }
    });
    bins.collect::<Vec<_>>().join(", ")
}

/// Titles of columns, and how each is sorted: by number, by text, or not at all.
fn write_head(headings: &[(&str, &str)], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<div class=\"wide tall\"><table><thead><tr>")?;
    for (title, kind) in headings {
        match *kind {
            "" => write!(out, "<th></th>")?,
            "n" => write!(out, "<th class=\"n\" data-sort=\"n\">{title}</th>")?,
            kind => write!(out, "<th data-sort=\"{kind}\">{title}</th>")?,
        }
    }
    writeln!(out, "</tr></thead><tbody>")
}

fn write_tail(n_rows: usize, max_rows: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</tbody></table></div>")?;
    let n_hidden = n_rows.saturating_sub(max_rows);
    if 0 < n_hidden { writeln!(out, "<p><small>and {n_hidden} more</small></p>") } else { Ok(()) }
}

/// A cell: the figure that it is sorted by, and the text.
struct Figure(f64, String);

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<td class=\"n\" data-v=\"{}\">{}</td>", self.0, Text(&self.1))
    }
}

/// A bar as long as a share.
struct Bar(f64);

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<span class=\"bar\" style=\"width:{:.1}%\"></span>", 100.0 * self.0.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_counted_by_powers_of_two() {
        assert_eq!(histogram(&[12, 0, 3]), "1: 12, 4-7: 3");
        assert_eq!(histogram(&[]), "");
        assert!(histogram(&[1; 70]).contains("18446744073709551615"));
    }
}
