//! A module as a table of facts.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::numbers::thousands;
use crate::report::{Count, ModuleReport, PathBucket};

const LABEL: Style = Style::new().bold();
const BAD: Style = AnsiColor::Yellow.on_default();

/// Upper ends, as powers of two, of the ranges of path counts that the table shows.
const PATH_RANGES: &[(u32, &str)] = &[
    (0, "1"),
    (4, "to 2^4"),
    (8, "to 2^8"),
    (16, "to 2^16"),
    (32, "to 2^32"),
    (64, "to 2^64"),
    (u32::MAX, "more than 2^64"),
];

pub fn print(report: &ModuleReport, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table { out };
    let linkage = if report.is_static { ", static" } else { "" };
    table.row("file", &report.file)?;
    table.row("kind", format!("{}{linkage}", report.module_kind))?;
    table.row("build-id", report.build_id.as_deref().unwrap_or("none"))?;
    for file in &report.debug_files {
        table.row("debug file", file)?;
    }
    functions(report, &mut table)?;
    code(report, &mut table)?;
    indirect_jumps(report, &mut table)?;
    paths(report, &mut table)?;
    let stages: Vec<String> =
        report.stages.iter().map(|stage| format!("{} {:.0} ms", stage.name, stage.milliseconds)).collect();
    let threads = if report.threads == 1 { "thread" } else { "threads" };
    table.row("time", format!("{} ({} {threads})", stages.join(", "), report.threads))?;
    for problem in &report.problems {
        table.warning("problem", &problem.text)?;
    }
    if let Some(faults) = &report.faults {
        table.row("verified", format!("all functions, {} with faults", thousands(faults.len() as u64)))?;
        for fault in faults {
            table.warning("  fault", format!("{} {}", fault.function.0, fault.text))?;
        }
    }
    Ok(())
}

fn functions(report: &ModuleReport, table: &mut Table<impl Write>) -> io::Result<()> {
    let functions = &report.functions;
    table.row("functions", thousands(functions.total as u64))?;
    table.row("  stated by", list(&functions.by_source))?;
    let share = 100.0 * functions.complete as f64 / functions.total.max(1) as f64;
    table.row("  complete", format!("{} ({share:.2} %)", thousands(functions.complete as u64)))?;
    let detail = format!(
        "{} do not return, {} split, {} leaves, {} with address taken",
        thousands(functions.noreturn as u64),
        thousands(functions.split as u64),
        thousands(report.calls.leaf_functions as u64),
        thousands(report.calls.address_taken_functions as u64),
    );
    table.row("  of these", detail)
}

fn code(report: &ModuleReport, table: &mut Table<impl Write>) -> io::Result<()> {
    let code = &report.code;
    let bytes = format!(
        "{} bytes: {} decoded, {} padding, {} data inside functions",
        thousands(code.text_bytes),
        thousands(code.decoded_bytes),
        thousands(code.padding_bytes),
        thousands(code.data_bytes),
    );
    table.row("text", bytes)?;
    table.row("instructions", thousands(code.instructions))?;
    table.row("blocks", thousands(code.blocks))?;
    let n_edges: u64 = report.edges.iter().map(|edge| edge.count).sum();
    table.row("edges", format!("{}: {}", thousands(n_edges), list(&report.edges)))?;
    let calls = &report.calls;
    let n_indirect = thousands(calls.indirect_sites as u64);
    table.row("calls", format!("{}, {n_indirect} of them indirect", thousands(calls.sites as u64)))?;
    let loops = &report.loops;
    let (total, irreducible) = (thousands(loops.total as u64), thousands(loops.irreducible as u64));
    table.row("loops", format!("{total}, {irreducible} irreducible, at most {} deep", loops.max_depth))
}

fn indirect_jumps(report: &ModuleReport, table: &mut Table<impl Write>) -> io::Result<()> {
    let jumps = &report.indirect_jumps;
    let summary = format!(
        "{}: {} jump tables ({} entries), {} tail calls, {} unresolved",
        thousands(jumps.total as u64),
        thousands(jumps.jump_tables as u64),
        thousands(jumps.jump_table_entries),
        thousands(jumps.tail_calls as u64),
        thousands(jumps.unresolved as u64),
    );
    table.row("indirect jumps", summary)?;
    for reason in &jumps.unresolved_by_reason {
        table.warning("  unresolved", format!("{} x {}", thousands(reason.count), reason.what))?;
    }
    Ok(())
}

fn paths(report: &ModuleReport, table: &mut Table<impl Write>) -> io::Result<()> {
    let paths = &report.paths;
    let shares: Vec<String> = path_ranges(&paths.buckets)
        .iter()
        .map(|(label, functions)| format!("{label}: {}", thousands(*functions as u64)))
        .collect();
    table.row("paths", format!("functions by number of paths: {}", shares.join(", ")))?;
    let cut = format!(
        "{} functions cut at {} more edges to stay below 2^32 paths",
        thousands(paths.cut_functions as u64),
        thousands(paths.extra_cuts as u64)
    );
    table.row("  cut", cut)?;
    let (placed, direct) = (thousands(paths.additions as u64), thousands(paths.additions_direct as u64));
    table.row("  additions", format!("on {placed} edges, {direct} without placement"))
}

/// Number of functions in each range of [`PATH_RANGES`] that has any.
fn path_ranges(buckets: &[PathBucket]) -> Vec<(&'static str, usize)> {
    let mut below = None;
    let mut ranges = Vec::new();
    for &(top, label) in PATH_RANGES {
        let in_range = |bucket: &&PathBucket| bucket.log2 <= top && below.is_none_or(|below| below < bucket.log2);
        let functions: usize = buckets.iter().filter(in_range).map(|bucket| bucket.functions).sum();
        if functions > 0 {
            ranges.push((label, functions));
        }
        below = Some(top);
    }
    ranges
}

struct Table<'a, W> {
    out: &'a mut W,
}

impl<W: Write> Table<'_, W> {
    fn row(&mut self, label: &str, value: impl AsRef<str>) -> io::Result<()> {
        self.styled(label, Style::new(), value.as_ref())
    }

    fn warning(&mut self, label: &str, value: impl AsRef<str>) -> io::Result<()> {
        self.styled(label, BAD, value.as_ref())
    }

    fn styled(&mut self, label: &str, style: Style, value: &str) -> io::Result<()> {
        writeln!(self.out, "{LABEL}{label:<15}{LABEL:#} {style}{value}{style:#}")
    }
}

fn list(counts: &[Count]) -> String {
    let items: Vec<String> = counts.iter().map(|count| format!("{} {}", thousands(count.count), count.what)).collect();
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_in_one_range() {
        let buckets: Vec<PathBucket> = [0, 1, 4, 5, 32, 33, 5000].map(|log2| PathBucket { log2, functions: 1 }).into();
        let expected = [("1", 1), ("to 2^4", 2), ("to 2^8", 1), ("to 2^32", 1), ("to 2^64", 1), ("more than 2^64", 1)];
        assert_eq!(path_ranges(&buckets), expected);
    }
}
