//! Pure crates name no file, clock, thread, environment, network or process of the standard
//! library.
//!
//! Their dependencies are looked at in `edges.rs`; this looks at their own sources. Tests may do
//! what they like.

use crate::tidy::{Complaint, edges, scan};
use crate::workspace::{TextFile, Workspace};

const FORBIDDEN: &[&str] = &["env", "fs", "net", "process", "thread", "time"];

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let is_pure = |file: &&TextFile| {
        let mut parts = file.path.split('/');
        let (folder, name, source) = (parts.next(), parts.next(), parts.next());
        folder == Some("crates") && source == Some("src") && name.is_some_and(edges::is_pure)
    };
    workspace
        .files
        .iter()
        .filter(|file| file.is_rust() && !is_test(&file.path))
        .filter(is_pure)
        .flat_map(impure)
        .collect()
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
}

fn impure(file: &TextFile) -> Vec<Complaint> {
    let code = without_tests(&scan::scan(&file.text, true).code);
    let mut complaints = Vec::new();
    for (at, _) in code.match_indices("std::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        for name in named(&code[at + "std::".len()..]).into_iter().filter(|name| FORBIDDEN.contains(name)) {
            complaints.push(format!("{}:{line}: a pure crate uses `std::{name}`", file.path));
        }
    }
    complaints
}

/// Returns the modules that a path names behind `std::`: one, or those of a list in braces.
fn named(rest: &str) -> Vec<&str> {
    let word = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let Some(list) = rest.strip_prefix('{') else { return vec![&rest[..word(rest)]] };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = list[start..at].trim_start();
                names.push(&item[..word(item)]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Leaves out the items behind `#[cfg(test)]`, keeping their lines.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        kept.push_str(line);
        kept.push('\n');
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        for item in lines.by_ref() {
            kept.push('\n');
            let is_at_indent = item.len() - item.trim_start().len() == indent && !item.trim().is_empty();
            if is_at_indent && (item.trim_end().ends_with(';') || item.trim_start().starts_with('}')) {
                break;
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(&workspace(Vec::new(), &[(path, text)]))
    }

    #[test]
    fn what_reaches_outside_is_found_alone_and_in_lists() {
        assert_eq!(
            complaints("crates/flow/src/a.rs", "//! A.\nuse std::fs::File;\nfn f() { std::thread::spawn(g); }\n"),
            [
                "crates/flow/src/a.rs:2: a pure crate uses `std::fs`",
                "crates/flow/src/a.rs:3: a pure crate uses `std::thread`",
            ]
        );
        let list = "use std::{collections::{self, fs}, env,\n    net};\n";
        assert_eq!(
            complaints("crates/emit/src/a.rs", list),
            [
                "crates/emit/src/a.rs:1: a pure crate uses `std::env`",
                "crates/emit/src/a.rs:1: a pure crate uses `std::net`",
            ]
        );
    }

    #[test]
    fn comments_strings_tests_and_other_crates_may_name_it() {
        let text = "//! `std::fs`\nconst A: &str = \"std::env\";\nuse core::time::Duration;\n#[cfg(test)]\nmod tests {\n    \
                    use std::fs;\n}\n#[cfg(test)]\nuse std::env;\n";
        assert_eq!(complaints("crates/flow/src/a.rs", text), Vec::<Complaint>::new());
        let impure = "use std::fs;\n";
        for path in ["crates/cli/src/a.rs", "crates/flow/tests/a.rs", "crates/flow/src/tests.rs", "xtask/src/a.rs"] {
            assert_eq!(complaints(path, impure), Vec::<Complaint>::new(), "{path}");
        }
        assert_eq!(complaints("crates/flow/src/a.rs", "mod t;\n#[cfg(test)]\nmod u;\nuse std::fs;\n").len(), 1);
    }
}
