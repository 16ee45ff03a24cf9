//! README.md and ARCHITECTURE.md name every crate and only real ones; paths in documents and
//! comments exist.

use std::collections::BTreeSet;

use crate::tidy::markdown::{self, Code};
use crate::tidy::{Complaint, edges};
use crate::workspace::{TextFile, Workspace};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const README: &str = "README.md";
const ARCHITECTURE_MAX_LINES: usize = 300;
/// The heading in ARCHITECTURE.md whose table has one row per crate.
const CRATES_HEADING: &str = "Crates";
/// Planned crates may be named only under a heading that starts so.
const PLANNED_HEADING: &str = "Planned";
const SOURCE_SUFFIXES: &[&str] = &[".rs", ".md", ".toml", ".txt", ".tsv", ".py", ".sh", ".json"];

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in [README, ARCHITECTURE] {
        match workspace.file(name) {
            Some(document) => complaints.extend(crate_names(workspace, document)),
            None => complaints.push(format!("{name}: missing")),
        }
    }
    if let Some(document) = workspace.file(ARCHITECTURE) {
        complaints.extend(crate_table(workspace, document));
        complaints.extend(length(document));
    }
    for file in &workspace.files {
        complaints.extend(missing_paths(workspace, file));
    }
    complaints
}

fn crate_names(workspace: &Workspace, document: &TextFile) -> Vec<Complaint> {
    let code = markdown::code(&document.text);
    let named: BTreeSet<&str> = code.iter().map(|code| code.text).collect();
    let unnamed = workspace.crates.iter().filter(|member| !named.contains(member.name.as_str()));
    let mut complaints: Vec<Complaint> =
        unnamed.map(|member| format!("{}: does not name the crate `{}`", document.path, member.name)).collect();
    let planned = edges::planned(workspace);
    let premature = code.iter().filter(|code| !code.fenced && planned.contains(&code.text));
    for code in premature.filter(|code| !code.heading.starts_with(PLANNED_HEADING)) {
        let Code { text, line_number, .. } = code;
        complaints.push(format!(
            "{}:{line_number}: `{text}` is planned, not there; name it under a heading `{PLANNED_HEADING} ...`",
            document.path
        ));
    }
    complaints
}

fn crate_table(workspace: &Workspace, document: &TextFile) -> Vec<Complaint> {
    let is_first_cell = |code: &&Code| code.line.starts_with(&format!("| `{}` ", code.text));
    let code = markdown::code(&document.text);
    let rows: BTreeSet<&str> =
        code.iter().filter(|code| code.heading == CRATES_HEADING).filter(is_first_cell).map(|code| code.text).collect();
    let crates: BTreeSet<&str> = workspace.crates.iter().map(|member| member.name.as_str()).collect();
    let missing = crates.difference(&rows).map(|name| format!("no row for `{name}`"));
    let stale = rows.difference(&crates).map(|name| format!("a row for `{name}`, which is not a crate"));
    missing.chain(stale).map(|what| format!("{ARCHITECTURE}: the table under `{CRATES_HEADING}` has {what}")).collect()
}

fn length(document: &TextFile) -> Option<Complaint> {
    let lines = document.text.lines().count();
    (lines > ARCHITECTURE_MAX_LINES)
        .then(|| format!("{}: {lines} lines, more than {ARCHITECTURE_MAX_LINES}", document.path))
}

fn missing_paths(workspace: &Workspace, file: &TextFile) -> Vec<Complaint> {
    let mentions = if file.is_markdown() {
        markdown::code(&file.text)
            .iter()
            .filter(|code| !code.fenced && is_path(code.text))
            .map(|code| (code.line_number, code.text))
            .collect()
    } else if file.is_rust() {
        paths_in_comments(&file.text)
    } else {
        Vec::new()
    };
    let missing = mentions.into_iter().filter(|(_, path)| !exists(workspace, &file.path, path));
    missing.map(|(line, path)| format!("{}:{line}: `{path}` does not exist", file.path)).collect()
}

fn paths_in_comments(text: &str) -> Vec<(usize, &str)> {
    let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    let pieces = comments.flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |p| (index + 1, p)));
    pieces.filter(|(_, piece)| is_path(piece) && has_source_suffix(piece)).collect()
}

/// A path into this repository, as opposed to a command, a Rust path or a place on the reader's
/// machine.
fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let elsewhere = text.starts_with('/') || text.starts_with("target/");
    plain && !elsewhere && !text.starts_with('-') && (text.contains('/') || has_source_suffix(text))
}

fn has_source_suffix(text: &str) -> bool {
    SOURCE_SUFFIXES.iter().any(|suffix| text.len() > suffix.len() && text.ends_with(suffix))
}

/// Whether `path` names a file or folder of the workspace as seen from its root or from a folder
/// above `from`; a bare file name may stand anywhere.
fn exists(workspace: &Workspace, from: &str, path: &str) -> bool {
    if !path.contains('/') {
        return workspace.files.iter().any(|file| file.path.rsplit('/').next() == Some(path));
    }
    let path = path.trim_start_matches("./").trim_end_matches('/');
    let folders = from.match_indices('/').map(|(end, _)| &from[..=end]);
    let mut candidates = std::iter::once("").chain(folders).map(|folder| format!("{folder}{path}"));
    candidates.any(|candidate| workspace.files.iter().any(|file| is_at_or_below(&file.path, &candidate)))
}

fn is_at_or_below(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{member, workspace};

    fn two_crates(files: &[(&str, &str)]) -> Vec<Complaint> {
        check(&workspace(vec![member("image", &[]), member("flow", &[])], files))
    }

    const GOOD_ARCHITECTURE: &str =
        "# Title\n## Crates\n| crate |\n|---|\n| `image` | a |\n| `flow` | uses `image` |\n## Planned crates\n`emit`\n";
    const GOOD_README: &str = "`image` and `flow`\n";

    #[test]
    fn documents_that_name_every_crate_pass() {
        let complaints = two_crates(&[(ARCHITECTURE, GOOD_ARCHITECTURE), (README, GOOD_README)]);
        assert_eq!(complaints, Vec::<Complaint>::new());
    }

    #[test]
    fn an_unnamed_crate_a_stale_row_and_a_premature_name_are_found() {
        let architecture = "# T\n## Crates\n| `image` | |\n| `wire` | |\n";
        let complaints = two_crates(&[(ARCHITECTURE, architecture), (README, GOOD_README)]);
        assert_eq!(
            complaints,
            [
                "ARCHITECTURE.md: does not name the crate `flow`",
                "ARCHITECTURE.md:4: `wire` is planned, not there; name it under a heading `Planned ...`",
                "ARCHITECTURE.md: the table under `Crates` has no row for `flow`",
                "ARCHITECTURE.md: the table under `Crates` has a row for `wire`, which is not a crate",
            ]
        );
    }

    #[test]
    fn missing_documents_and_long_ones_are_found() {
        let long = GOOD_ARCHITECTURE.to_owned() + &"\n".repeat(ARCHITECTURE_MAX_LINES);
        let complaints = two_crates(&[(ARCHITECTURE, &long)]);
        assert_eq!(complaints, ["README.md: missing", "ARCHITECTURE.md: 308 lines, more than 300"]);
    }

    #[test]
    fn paths_are_looked_up_from_the_root_and_from_folders_above() {
        let complaints = two_crates(&[
            (ARCHITECTURE, GOOD_ARCHITECTURE),
            (README, "`image` `flow` `docs/` `docs/a.md` `docs/gone.md` `/usr/lib/x.rs` `crates/*/a.txt` `a::b`\n"),
            ("docs/a.md", "beside: `b.md`, absent: `c.md`\n"),
            ("docs/b.md", ""),
            ("crates/flow/src/lib.rs", "//! See `paths/mod.rs`, `src/paths/mod.rs`, `and/or`, `lost.rs`.\n"),
            ("crates/flow/src/paths/mod.rs", "let not_a_comment = \"`x.rs`\";\n"),
        ]);
        assert_eq!(
            complaints,
            [
                "README.md:1: `docs/gone.md` does not exist",
                "docs/a.md:1: `c.md` does not exist",
                "crates/flow/src/lib.rs:1: `lost.rs` does not exist",
            ]
        );
    }
}
