//! Tables for terminals and for documents: the first column is text, the others are numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chart::escaped;

/// Rows under a heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these column headings.
    #[must_use]
    pub fn new(heading: &[&str]) -> Table {
        Table { heading: heading.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; short rows leave their last cells empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.heading.len(), String::new());
        self.rows.push(cells);
    }

    /// The table in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let alignment: Vec<String> =
            (0..self.heading.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
        let rows = self.rows.iter().map(|row| line(row));
        [line(&self.heading), line(&alignment)].into_iter().chain(rows).collect()
    }

    /// The table for a page.
    #[must_use]
    pub fn to_html(&self) -> String {
        let line = |cells: &[String], tag: &str| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(|row| line(row, "td")).collect();
        format!("<table>\n{}{rows}</table>\n", line(&self.heading, "th"))
    }

    fn width(&self, column: usize) -> usize {
        let rows = std::iter::once(&self.heading).chain(&self.rows);
        rows.map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.heading.len()).map(|column| self.width(column)).collect();
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A share in percent, rounded so that only the whole is shown as 100 %.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    if part == whole {
        return "100 %".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// A number with a separator between thousands.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["object", "n"]);
        table.row(["a".to_owned(), "1,000".to_owned()]);
        assert_eq!(table.to_string(), "object      n\na       1,000\n");
        assert_eq!(table.to_html(), "<table>\n<tr><th>object<th>n</tr>\n<tr><td>a<td>1,000</tr>\n</table>\n");
        assert_eq!(table.to_markdown(), "| object | n |\n| --- | ---: |\n| a | 1,000 |\n");
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(percent(999_999, 1_000_000), "99.99 %");
        assert_eq!((percent(3, 3), percent(0, 0)), ("100 %".to_owned(), "-".to_owned()));
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
