//! Hot paths: block by block, with the source that each block came from.

use std::io::{self, Write};

use profile::model::{BlockId, ModuleId, Path};
use profile::query::{PathRank, PathRow, paths};
use profile::symbols::SourceFrame;
use profile::{Profile, Symbols as _};

use crate::figures;
use crate::html::{Report, Text};
use crate::names::file_name;

/// Paths to show.
const MAX_PATHS: usize = 30;
/// Lines of source per block.
const MAX_LINES_PER_BLOCK: u32 = 12;

/// Addresses whose source is shown: first and last instructions of blocks.
pub fn places(profile: &Profile) -> Vec<(ModuleId, u64)> {
    let rows = paths(profile, None, PathRank::Time);
    let blocks = rows.iter().take(MAX_PATHS).flat_map(|row| &profile.paths[row.path.index()].blocks);
    blocks.flat_map(|&id| ends(profile, id)).collect()
}

fn ends(profile: &Profile, id: BlockId) -> [(ModuleId, u64); 2] {
    let block = &profile.blocks[id.index()];
    let module = profile.functions[block.function.index()].module;
    [(module, block.address), (module, block.address.saturating_add(u64::from(block.last)))]
}

pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = paths(report.profile, None, PathRank::Time);
    writeln!(out, "<p><small>{} paths were seen; these took most CPU time.</small></p>", rows.len())?;
    for (index, row) in rows.iter().take(MAX_PATHS).enumerate() {
        let path = &report.profile.paths[row.path.index()];
        write_summary(report, row, path, index == 0, out)?;
        writeln!(out, "<div class=\"wide\"><table class=\"narrow\"><tbody>")?;
        for id in &path.blocks {
            write_block(report, *id, out)?;
        }
        writeln!(out, "</tbody></table></div></details>")?;
    }
    Ok(())
}

fn write_summary(
    report: &Report<'_>,
    row: &PathRow,
    path: &Path,
    is_open: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let open = if is_open { " open" } else { "" };
    let name = Text(report.names.short(row.function));
    let end = if path.back_to.is_some() { "and round again" } else { "to the exit" };
    write!(out, "<details{open}><summary><b>{}</b> <code>{name}</code> ", figures::share(row.time_share))?;
    write!(
        out,
        "<span class=\"dim\">{} blocks {end}, ran {}, ",
        path.blocks.len(),
        figures::estimated_count(row.count)
    )?;
    writeln!(out, "{} of the function&#39;s paths</span></summary>", figures::bare_percent(row.share_of_function.value))
}

fn write_block(report: &Report<'_>, id: BlockId, out: &mut dyn Write) -> io::Result<()> {
    let block = &report.profile.blocks[id.index()];
    let [first, last] = ends(report.profile, id).map(|(module, address)| innermost(report, module, address));
    let place = match &first {
        Some(frame) if !frame.file.is_empty() => format!("{}:{}", file_name(&frame.file), frame.line),
        _ => String::new(),
    };
    write!(out, "<tr><td class=\"n\"><code>{:#x}</code></td><td>{}</td>", block.address, Text(place))?;
    let lines: Vec<String> = source(report, first, last).iter().map(|line| Text(line).to_string()).collect();
    writeln!(out, "<td class=\"code\">{}</td></tr>", lines.join("\n"))
}

fn innermost(report: &Report<'_>, module: ModuleId, address: u64) -> Option<SourceFrame> {
    report.symbolizer.frames(module, address).into_iter().next()
}

/// The lines from the first instruction to the last if both are of one file and in order, else that
/// of the first.
fn source(report: &Report<'_>, first: Option<SourceFrame>, last: Option<SourceFrame>) -> Vec<String> {
    let Some(first) = first.filter(|frame| frame.line != 0) else { return Vec::new() };
    let same_file = last.filter(|last| last.file == first.file && last.function == first.function);
    let end = same_file.map_or(first.line, |last| last.line.max(first.line));
    let end = end.min(first.line.saturating_add(MAX_LINES_PER_BLOCK - 1));
    (first.line..=end).filter_map(|line| report.symbolizer.source_line(&first.file, line)).collect()
}
