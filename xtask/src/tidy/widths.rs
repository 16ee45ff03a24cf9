//! Lines of Markdown and of comments end at 100 columns.
//!
//! Tables, code blocks and lines with links are as wide as they must be, and so are documents that
//! a program writes. Which comments can be shorter is what `wrap.rs` makes of them.

use crate::tidy::wrap::{self, MAX_COLUMNS};
use crate::tidy::{Complaint, markdown};
use crate::workspace::{TextFile, Workspace};

/// What a document says at its top that a program writes; `strobe-lab claims --document` does.
const GENERATED: &str = "do not edit";
const N_TOP_LINES: usize = 6;
const C_SUFFIXES: &[&str] = &[".c", ".h", ".cpp"];

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    workspace.files.iter().flat_map(of_file).collect()
}

/// What is wrapped, and how.
pub enum Kind {
    Markdown,
    Source,
}

/// Returns how the lines of a file are wrapped, if they are.
pub fn kind(file: &TextFile) -> Option<Kind> {
    let is_generated = || file.text.lines().take(N_TOP_LINES).any(|line| line.contains(GENERATED));
    if file.is_markdown() {
        (!is_generated()).then_some(Kind::Markdown)
    } else {
        let is_c = C_SUFFIXES.iter().any(|suffix| file.path.ends_with(suffix));
        (file.is_rust() || is_c).then_some(Kind::Source)
    }
}

fn of_file(file: &TextFile) -> Vec<Complaint> {
    let (lines, what) = match kind(file) {
        Some(Kind::Markdown) => (markdown_lines(&file.text), "line"),
        Some(Kind::Source) => (wrap::over_long(&file.text, file.is_rust()), "comment"),
        None => return Vec::new(),
    };
    let complaint = |line| {
        format!("{}:{line}: a {what} of more than {MAX_COLUMNS} columns; `cargo xtask tidy --wrap` wraps it", file.path)
    };
    lines.into_iter().map(complaint).collect()
}

fn markdown_lines(text: &str) -> Vec<usize> {
    let fenced = markdown::fenced_lines(text);
    let is_free = |line: &str| line.trim_start().starts_with('|') || line.contains("](") || line.contains("://");
    let long = text
        .lines()
        .zip(fenced)
        .enumerate()
        .filter(|(_, (line, is_fenced))| !is_fenced && line.chars().count() > MAX_COLUMNS && !is_free(line));
    long.map(|(index, _)| index + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(&workspace(Vec::new(), &[(path, text)]))
    }

    #[test]
    fn long_lines_of_markdown_are_found_outside_of_tables_code_and_links() {
        let long = "word ".repeat(21);
        let text = format!("{long}\n| {long} |\n```\n{long}\n```\n[{long}](a.md)\n<https://{long}>\nshort\n{long}\n");
        assert_eq!(
            complaints("a.md", &text),
            [1, 9].map(|line| {
                format!("a.md:{line}: a line of more than 100 columns; `cargo xtask tidy --wrap` wraps it")
            })
        );
        let generated = format!("# Results\n\nWritten by a program; do not edit.\n\n{long}\n");
        assert_eq!(complaints("a.md", &generated), Vec::<Complaint>::new());
    }

    #[test]
    fn long_comments_are_found_and_long_code_is_not() {
        let long = "word ".repeat(21);
        let text = format!("//! {long}\nlet x = \"{long}\";\n");
        assert_eq!(
            complaints("a.rs", &text),
            ["a.rs:1: a comment of more than 100 columns; `cargo xtask tidy --wrap` wraps it"]
        );
        assert_eq!(complaints("a.c", &format!("/* {long} */\n")).len(), 1);
        assert_eq!(complaints("a.py", &format!("# {long}\n")), Vec::<Complaint>::new());
    }
}
