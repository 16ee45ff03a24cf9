//! An annotated function for reading in a terminal.
//!
//! Time and count of a block stand beside its first instruction: all of its instructions ran
//! equally often. `>` marks the hottest path.

use std::io::{self, Write};

use crate::names::file_name;
use crate::view::View;
use crate::view::annotate::{AnnotateView, BlockLine, CodeLine};
use crate::view::paths_text::source;
use crate::view::props::CodeStyle;
use crate::view::subject::{FunctionLabel, SourceLine};
use crate::view::table::{DIM, HEAD, PLACE, TITLE, heat};

/// Columns of times, of counts and of addresses.
const TIME_WIDTH: usize = 13;
const COUNT_WIDTH: usize = 14;
const ADDRESS_WIDTH: usize = 10;

impl View for AnnotateView {
    const KIND: &'static str = "annotate";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        self.header(out)?;
        let mut end = None;
        let mut last_line = None;
        for block in &self.blocks {
            let start = block.address.0.0;
            if let Some(gap) = end.and_then(|end: u64| start.checked_sub(end)).filter(|&gap| 0 < gap) {
                writeln!(out, "{:>1$} {DIM}... {gap} bytes that were not seen to run{DIM:#}", "", gutter())?;
                last_line = None;
            }
            self.block(block, &mut last_line, out)?;
            end = start.checked_add(u64::from(block.size));
        }
        Ok(())
    }
}

/// Columns before the code.
fn gutter() -> usize {
    2 + TIME_WIDTH + 2 + COUNT_WIDTH
}

impl AnnotateView {
    fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        let hot = heat(self.self_share.value);
        let FunctionLabel { name, module, address, .. } = &self.function;
        writeln!(out, "{TITLE}{name}{TITLE:#} [{}] at {}, {} bytes", file_name(module), address.0, self.size)?;
        let (share, time) = (self.self_share.percent(), self.self_ns.time());
        let entries = self.entries.entered();
        match self.is_timeless {
            true => writeln!(out, "{entries}")?,
            false => writeln!(out, "own time {hot}{share}{hot:#} ({time}), {entries}")?,
        }
        if let Some(path) = &self.hottest_path {
            let (share, count) = (path.share_of_function.percent(), path.count.count());
            let blocks = if path.blocks.len() == 1 { "block" } else { "blocks" };
            let share = if self.is_timeless { String::new() } else { format!("{share} of it, ") };
            writeln!(out, "hottest path (>): {share}{} {blocks}, ran {count} times", path.blocks.len())?;
        }
        if let Some(note) = &self.note {
            writeln!(out, "{DIM}{note}{DIM:#}")?;
        }
        writeln!(
            out,
            "\n  {HEAD}{:>TIME_WIDTH$}  {:>COUNT_WIDTH$}{HEAD:#}",
            if self.is_timeless { "" } else { "TIME" },
            "COUNT"
        )
    }

    fn block<'a>(
        &self,
        block: &'a BlockLine,
        last_line: &mut Option<&'a SourceLine>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let share = block.share.value;
        let time = if self.is_timeless { String::new() } else { block.share.percent() };
        let mut figures = Some((time, block.count.count()));
        let n_lines = block.instructions.len();
        if self.style == CodeStyle::Source {
            // Every block has a line to put its figures beside.
            *last_line = None;
        }
        for (index, line) in block.instructions.iter().enumerate() {
            let source_line = line.source.as_ref().filter(|&line| last_line.replace(line) != Some(line));
            let remark = if index + 1 == n_lines { remark(block) } else { String::new() };
            let shows_code = self.style == CodeStyle::Instructions
                || line.source.is_none()
                || (source_line.is_none() && !remark.is_empty());
            if let Some(source_line) = source_line {
                let (figures, remark) = if shows_code { (None, "") } else { (figures.take(), remark.as_str()) };
                self.line(block, share, figures, &format!("{PLACE}{}{PLACE:#}{remark}", source(source_line)), out)?;
            }
            if shows_code {
                self.line(block, share, figures.take(), &format!("{}{remark}", code(line)), out)?;
            }
        }
        Ok(())
    }

    fn line(
        &self,
        block: &BlockLine,
        share: f64,
        figures: Option<(String, String)>,
        text: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mark = if block.on_hottest_path { ">" } else { " " };
        let hot = heat(share);
        let (time, count) = figures.unwrap_or_default();
        writeln!(out, "{hot}{mark}{hot:#} {hot}{time:>TIME_WIDTH$}{hot:#}  {count:>COUNT_WIDTH$} {text}")
    }
}

fn code(line: &CodeLine) -> String {
    let address = line.instruction.address.0.to_string();
    format!("{DIM}{address:>ADDRESS_WIDTH$}{DIM:#}  {}", line.instruction.text)
}

/// What is known about the way out of a block.
fn remark(block: &BlockLine) -> String {
    let mut words = Vec::new();
    if let Some(way) = &block.branch {
        let left = way.conditional_entropy_bits.map(|bits| format!(", {bits:.2} bits left")).unwrap_or_default();
        words.push(format!("taken {}{left}", way.bias.percent()));
    }
    words.extend(block.callees.iter().map(|callee| format!("{} x{}", callee.function.short(), callee.count.count())));
    if words.is_empty() { String::new() } else { format!("  {DIM}; {}{DIM:#}", words.join(", ")) }
}
