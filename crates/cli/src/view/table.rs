//! Rows of figures, aligned, with what they are of at the end of the line.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

pub const TITLE: Style = Style::new().bold();
pub const HEAD: Style = Style::new().dimmed();
pub const DIM: Style = Style::new().dimmed();
pub const HOT: Style = AnsiColor::Red.on_default();
pub const WARM: Style = AnsiColor::Yellow.on_default();
pub const PLACE: Style = AnsiColor::Cyan.on_default();

/// Shares from which on a row is hot or warm.
const HOT_SHARE: f64 = 0.10;
const WARM_SHARE: f64 = 0.02;

/// How a row of this share of the whole looks.
pub fn heat(share: f64) -> Style {
    match share {
        share if HOT_SHARE <= share => HOT,
        share if WARM_SHARE <= share => WARM,
        _ => Style::new(),
    }
}

/// Columns of figures and a last column of free text.
#[derive(Debug)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    style: Style,
    cells: Vec<String>,
}

impl Table {
    /// The last head is that of the text.
    pub fn new(heads: &[&'static str]) -> Table {
        Table { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// A row; the style is that of its first cell.
    pub fn row(&mut self, style: Style, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row { style, cells: cells.into_iter().collect() });
    }

    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths();
        let heads: Vec<String> = self.heads.iter().map(|&head| head.to_owned()).collect();
        print_row(out, HEAD, HEAD, &widths, &heads)?;
        self.rows.iter().try_for_each(|row| print_row(out, row.style, Style::new(), &widths, &row.cells))
    }

    /// Of all columns but the last.
    fn widths(&self) -> Vec<usize> {
        let columns = 0..self.heads.len().saturating_sub(1);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| cell.chars().count());
            cells.chain(self.heads.get(column).map(|head| head.chars().count())).max().unwrap_or(0)
        };
        columns.map(width).collect()
    }
}

fn print_row(out: &mut dyn Write, first: Style, rest: Style, widths: &[usize], cells: &[String]) -> io::Result<()> {
    let mut style = first;
    for (cell, &width) in cells.iter().zip(widths) {
        let padding = width.saturating_sub(cell.chars().count());
        write!(out, "  {:padding$}{style}{cell}{style:#}", "")?;
        style = rest;
    }
    match cells.get(widths.len()) {
        Some(text) => writeln!(out, "  {style}{text}{style:#}"),
        None => writeln!(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_to_the_right() {
        let mut table = Table::new(&["TIME", "N", "WHAT"]);
        table.row(Style::new(), ["1 µs", "12345", "x"].map(str::to_owned));
        table.row(Style::new(), ["100 %", "1", "y"].map(str::to_owned));
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        let expected = "   TIME      N  WHAT\n   1 µs  12345  x\n  100 %      1  y\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
