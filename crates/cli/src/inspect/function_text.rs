//! One function, or one path through it, for reading in a terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::report::{BlockReport, EdgeReport, FunctionReport, SourcePlace};

const TITLE: Style = Style::new().bold();
const BLOCK: Style = AnsiColor::Cyan.on_default().bold();
const ADDRESS: Style = Style::new().dimmed();
const EDGE: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();

pub fn print(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    header(report, out)?;
    for block in &report.blocks {
        writeln!(out)?;
        print_block(report, block, out)?;
    }
    Ok(())
}

/// The blocks of the path in the report, with the places in the source they come from.
pub fn print_path(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    let Some(path) = &report.path else { return Ok(()) };
    let n_blocks = path.blocks.len();
    writeln!(out, "{TITLE}{}{TITLE:#} path {} of {}: {n_blocks} blocks", report.name, path.id, report.paths.count)?;
    let mut last_place: Option<&SourcePlace> = None;
    for step in &path.blocks {
        let block = &report.blocks[step.block as usize];
        writeln!(out)?;
        block_title(block, out)?;
        for place in &step.places {
            if last_place.replace(place) != Some(place) {
                writeln!(out, "    {}", source_place(place))?;
            }
        }
        instructions(block, out)?;
    }
    writeln!(out)?;
    let end = &report.edges[path.end as usize];
    let next = path.next_start.map_or(String::new(), |block| format!("; the next path starts at block {block}"));
    writeln!(out, "ends by {}{next}", describe_edge(end))
}

fn header(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    let parts: Vec<String> = report.parts.iter().map(|part| format!("{}..{}", part.start.0, part.end.0)).collect();
    writeln!(out, "{TITLE}{}{TITLE:#} {}", report.name, parts.join(" "))?;
    if report.raw_name != report.name {
        writeln!(out, "symbol   {}", report.raw_name)?;
    }
    let mut origin = report.sources.clone();
    origin.extend(report.called.then_some("called"));
    origin.extend(report.address_taken.then_some("address taken"));
    origin.extend((!report.returns).then_some("does not return"));
    writeln!(out, "origin   {}", origin.join(", "))?;
    let (n_blocks, n_edges, n_loops) = (report.blocks.len(), report.edges.len(), report.loops.len());
    writeln!(
        out,
        "size     {} instructions, {n_blocks} blocks, {n_edges} edges, {n_loops} loops",
        report.instructions
    )?;
    loops(report, out)?;
    indirect_jumps(report, out)?;
    paths(report, out)
}

fn loops(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    for found in &report.loops {
        let shape = if found.irreducible { ", irreducible" } else { "" };
        let parent = found.parent.map_or(String::new(), |parent| format!(", in loop {parent}"));
        let blocks = numbers(&found.blocks);
        writeln!(out, "loop {:<3} header {}{parent}, depth {}{shape}: {blocks}", found.id, found.header, found.depth)?;
    }
    Ok(())
}

fn indirect_jumps(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    for jump in &report.indirect_jumps {
        let at = jump.at.0;
        match (&jump.reason, jump.table_entries) {
            (Some(reason), _) => writeln!(out, "jump     {at} {BAD}unresolved: {reason}{BAD:#}")?,
            (None, Some(n)) => writeln!(out, "jump     {at} table of {n} entries, {} targets", jump.targets.len())?,
            (None, None) => writeln!(out, "jump     {at} tail call")?,
        }
    }
    Ok(())
}

fn paths(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    let paths = &report.paths;
    write!(out, "paths    {} ({}, {} order)", paths.count, paths.truncation, paths.order)?;
    if !paths.extra_cuts.is_empty() {
        let n_cuts = paths.extra_cuts.len();
        write!(out, "; 2^{:.1} before {n_cuts} more edges were cut", paths.log2_before_cuts)?;
    }
    writeln!(out, ", additions on {} edges ({} without placement)", paths.additions, paths.additions_direct)?;
    let starts: Vec<String> =
        paths.starts.iter().map(|start| format!("block {} from {}", start.block, start.first_id)).collect();
    writeln!(out, "starts   {}", starts.join(", "))
}

fn print_block(report: &FunctionReport, block: &BlockReport, out: &mut impl Write) -> io::Result<()> {
    block_title(block, out)?;
    writeln!(out, "    {ADDRESS}live in: {}{ADDRESS:#}", live_in(block))?;
    instructions(block, out)?;
    for edge in report.edges_of(block.id) {
        writeln!(out, "    {EDGE}{}{EDGE:#}", describe_edge(edge))?;
    }
    Ok(())
}

fn block_title(block: &BlockReport, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{BLOCK}block {}{BLOCK:#} {}..{}", block.id, block.start.0, block.end.0)?;
    if let Some(kind) = &block.entry {
        write!(out, " {kind} entry")?;
    }
    if let Some(innermost) = block.innermost_loop {
        write!(out, " in loop {innermost}")?;
    }
    writeln!(out)
}

fn instructions(block: &BlockReport, out: &mut impl Write) -> io::Result<()> {
    for insn in &block.instructions {
        writeln!(out, "    {ADDRESS}{}{ADDRESS:#}  {}", insn.address.0, insn.text)?;
    }
    Ok(())
}

fn live_in(block: &BlockReport) -> String {
    if block.live_in.is_empty() { "nothing".to_owned() } else { block.live_in.join(" ") }
}

/// `edge 3 -> block 2 taken, back, cut, id +4, adds 4`.
fn describe_edge(edge: &EdgeReport) -> String {
    let mut text = format!("edge {} ", edge.id);
    match (edge.to, edge.target) {
        (Some(block), _) => text.push_str(&format!("-> block {block} {}", edge.kind)),
        (None, Some(target)) => text.push_str(&format!("{} to {}", edge.kind, target.0)),
        (None, None) => text.push_str(&edge.kind),
    }
    if let Some(name) = &edge.target_name {
        text.push_str(&format!(" <{name}>"));
    }
    if edge.back {
        text.push_str(", back edge");
    }
    if edge.cut {
        text.push_str(", ends paths");
    }
    text.push_str(&format!(", id +{}", edge.value));
    if let Some(amount) = edge.add.filter(|&amount| amount != 0) {
        text.push_str(&format!(", adds {amount}"));
    }
    text
}

fn source_place(place: &SourcePlace) -> String {
    let file = place.file.as_deref().unwrap_or("?");
    let line = place.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
    let function = place.function.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    format!("{file}:{line}{function}")
}

fn numbers(blocks: &[u32]) -> String {
    let mut sorted = blocks.to_vec();
    sorted.sort_unstable();
    let items: Vec<String> = sorted.iter().map(u32::to_string).collect();
    format!("blocks {}", items.join(" "))
}
