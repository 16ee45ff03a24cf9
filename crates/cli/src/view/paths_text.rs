//! Hot paths for reading in a terminal.

use std::io::{self, Write};

use anstyle::Style;
use profile::Estimate;

use crate::figures::Figure;
use crate::view::paths::{Exit, PathContext, PathLine, PathStep, PathsView};
use crate::view::props::CodeStyle;
use crate::view::subject::SourceLine;
use crate::view::table::{DIM, PLACE, TITLE, heat};
use crate::view::{View, nothing, title};

/// Instructions of a block that are shown in place of source lines.
const MAX_INSTRUCTIONS: usize = 8;
/// Contexts of a path that are shown.
const MAX_CONTEXTS: usize = 5;
/// Columns for the place of a source line.
const PLACE_WIDTH: usize = 28;
/// Columns for its text.
const MAX_SOURCE_WIDTH: usize = 100;

impl View for PathsView {
    const KIND: &'static str = "paths";

    fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.paths.is_empty() {
            return nothing(out, "paths");
        }
        title(out, &format!("Hot paths by {}", self.by), self.paths.len(), self.n_paths)?;
        for (index, path) in self.paths.iter().enumerate() {
            writeln!(out)?;
            header(path, index + 1, self.is_timeless, out)?;
            blocks(path, self.style, out)?;
            contexts(path, out)?;
        }
        Ok(())
    }
}

fn header(path: &PathLine, rank: usize, is_timeless: bool, out: &mut dyn Write) -> io::Result<()> {
    let n_blocks = path.blocks.len();
    let blocks = if n_blocks == 1 { "1 block".to_owned() } else { format!("{n_blocks} blocks") };
    let branches = if path.n_branches == 1 { "branch" } else { "branches" };
    writeln!(out, "#{rank}  {TITLE}{}{TITLE:#}  {blocks}, {} {branches}", path.function.text(), path.n_branches)?;
    let hot = heat(path.time_share.value);
    let (time, flow) = (path.self_ns.time(), path.flow_share.percent());
    match is_timeless && path.self_ns.value == 0.0 {
        true => writeln!(out, "    flow {flow}")?,
        false => writeln!(out, "    time {hot}{}{hot:#} ({time})   flow {flow}", path.time_share.percent())?,
    }
    let (count, share) = (path.count.count(), path.share_of_function.percent());
    match path.n_paths_of_function {
        1 => writeln!(out, "    ran {count} times, the only path of the function that was seen"),
        n => writeln!(out, "    ran {count} times, {share} of the function's {n} paths"),
    }
}

fn blocks(path: &PathLine, style: CodeStyle, out: &mut dyn Write) -> io::Result<()> {
    let mut last_line: Option<&SourceLine> = None;
    for step in &path.blocks {
        block(step, style, &mut last_line, out)?;
    }
    match path.back_to {
        Some(address) => writeln!(out, "      {DIM}back to {}{DIM:#}", address.0),
        None => Ok(()),
    }
}

/// Where it ran.
fn contexts(path: &PathLine, out: &mut dyn Write) -> io::Result<()> {
    let Some(contexts) = &path.contexts else { return Ok(()) };
    for context in contexts.iter().take(MAX_CONTEXTS) {
        let (share, count, stack) = (context.share.percent(), context.count.count(), context.stack.join(" > "));
        writeln!(out, "    {share:>8}  {count:>8}  {}in {stack}", took(context))?;
    }
    match contexts.len().saturating_sub(MAX_CONTEXTS) {
        0 => Ok(()),
        n => writeln!(out, "    {DIM}and in {n} more contexts{DIM:#}"),
    }
}

/// What a path took in a context, if that was recorded.
fn took(context: &PathContext) -> String {
    let time = (context.self_ns.value > 0.0).then(|| format!("{:>8}  ", context.self_ns.time()));
    let misses =
        (context.misses > 0).then(|| format!("{} misses  ", Figure::from(Estimate::exact(context.misses)).count()));
    time.into_iter().chain(misses).collect()
}

/// One or more lines: where, what is there, and at the last how it is left.
fn block<'a>(
    step: &'a PathStep,
    style: CodeStyle,
    last_line: &mut Option<&'a SourceLine>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shows_code = style == CodeStyle::Instructions || step.lines.is_empty();
    let lines = step.lines.iter().filter(|line| last_line.replace(line) != Some(line));
    let mut texts: Vec<(Style, String)> = lines.map(|line| (PLACE, source(line))).collect();
    if shows_code {
        texts.extend(code(step, style).into_iter().map(|text| (Style::new(), text)));
    }
    if texts.is_empty() {
        // On the same line as the block before; what tells them apart is how they end.
        let end = step.code.last().map_or_else(|| n_instructions(step), |insn| insn.text.clone());
        texts.push((DIM, end));
    }
    let mut address = step.address.0.to_string();
    let n_texts = texts.len();
    for (index, (style, text)) in texts.into_iter().enumerate() {
        let exit = if index + 1 == n_texts { describe(&step.exit) } else { String::new() };
        writeln!(out, "      {DIM}{address:>12}{DIM:#}  {style}{text}{style:#}{exit}")?;
        address.clear();
    }
    Ok(())
}

fn code(step: &PathStep, style: CodeStyle) -> Vec<String> {
    if step.code.is_empty() {
        return vec![n_instructions(step)];
    }
    let limit = if style == CodeStyle::Instructions { usize::MAX } else { MAX_INSTRUCTIONS };
    let n_hidden = step.code.len().saturating_sub(limit);
    let shown = step.code.iter().skip(n_hidden).map(|insn| insn.text.clone());
    let hidden = (0 < n_hidden).then(|| format!("... {n_hidden} more"));
    hidden.into_iter().chain(shown).collect()
}

fn n_instructions(step: &PathStep) -> String {
    match step.instructions {
        1 => "1 instruction".to_owned(),
        n => format!("{n} instructions"),
    }
}

/// Place and text.
pub fn source(line: &SourceLine) -> String {
    match &line.text {
        Some(text) => format!("{:<PLACE_WIDTH$}  {}", line.place(), clipped(text)),
        None => line.place(),
    }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_SOURCE_WIDTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// What there is to say about how a block is left; nothing if it could not be left otherwise.
fn describe(exit: &Exit) -> String {
    let mut words = Vec::new();
    if !exit.callees.is_empty() {
        words.push(format!("calls {}", exit.callees.join(", ")));
    }
    match (exit.chosen, exit.probability) {
        (true, Some(probability)) => words.push(format!("{} {}", exit.how, probability.percent())),
        (false, Some(_)) => {}
        (_, None) => words.push(exit.how.to_owned()),
    }
    if words.is_empty() { String::new() } else { format!("  {DIM}; {}{DIM:#}", words.join("; ")) }
}
