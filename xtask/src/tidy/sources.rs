//! Source files: each opens with its reason, stays small, forbids unsafe code at the root, and
//! hides no test.

use std::fmt::Write as _;

use crate::tidy::Complaint;
use crate::workspace::{TextFile, Workspace};

const SOFT_LIMIT_LINES: usize = 600;
const HARD_LIMIT_LINES: usize = 1200;
/// The crates whose business is unsafe code; all others forbid it.
const UNSAFE_CRATES: &[&str] = &["attach", "runtime"];
/// Attributes that let a test pass without checking anything, or by failing anywhere.
const BANNED_ATTRIBUTES: &[&str] = &["#[ignore", "#[should_panic"];
/// Folders of one developer's machine; split so that this file does not contain them.
const MACHINE_FOLDERS: &[&str] = &[concat!("/", "home/"), concat!("/", "work/"), concat!("/", "root/")];

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in &workspace.files {
        complaints.extend(machine_paths(file));
        if file.is_rust() {
            complaints.extend(header(file));
            complaints.extend(hard_limit(file));
            complaints.extend(banned_attributes(file));
        }
    }
    complaints.extend(unsafe_not_forbidden(workspace));
    complaints
}

/// Median and largest files, and code against tests, so that growth is seen in every run.
pub fn size_report(workspace: &Workspace) -> String {
    let rust: Vec<&TextFile> = workspace.files.iter().filter(|file| file.is_rust()).collect();
    let mut sizes: Vec<(usize, &str)> =
        rust.iter().filter(|file| !is_test(file)).map(|file| (code_lines(file), file.path.as_str())).collect();
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).map_or(0, |(lines, _)| *lines);
    let code: usize = sizes.iter().map(|(lines, _)| lines).sum();
    let all: usize = rust.iter().map(|file| file.text.lines().count()).sum();
    let mut report = format!(
        "{} files, median {median} lines, {code} lines of code, {} of tests\n",
        sizes.len(),
        all.saturating_sub(code)
    );
    for (lines, path) in sizes.iter().rev().filter(|(lines, _)| *lines > SOFT_LIMIT_LINES) {
        let _ = writeln!(report, "{path}: {lines} lines without tests; the soft limit is {SOFT_LIMIT_LINES}");
    }
    report
}

fn header(file: &TextFile) -> Option<Complaint> {
    let opens_with_reason = file.text.starts_with("//! ");
    (!opens_with_reason).then(|| format!("{}:1: does not start with a `//!` header", file.path))
}

fn hard_limit(file: &TextFile) -> Option<Complaint> {
    let lines = code_lines(file);
    (lines > HARD_LIMIT_LINES).then(|| format!("{}: {lines} lines, more than {HARD_LIMIT_LINES}", file.path))
}

fn banned_attributes(file: &TextFile) -> Vec<Complaint> {
    let is_banned = |line: &str| BANNED_ATTRIBUTES.iter().any(|banned| line.trim_start().starts_with(banned));
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_banned(line));
    lines.map(|(index, line)| format!("{}:{}: `{}` is banned", file.path, index + 1, line.trim())).collect()
}

fn machine_paths(file: &TextFile) -> Vec<Complaint> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| has_machine_path(line));
    lines.map(|(index, _)| format!("{}:{}: names a folder of one machine", file.path, index + 1)).collect()
}

/// Whether an absolute path into a personal folder starts anywhere in the line.
fn has_machine_path(line: &str) -> bool {
    let starts_path = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*}>)".contains(c));
    MACHINE_FOLDERS.iter().any(|folder| line.match_indices(folder).any(|(at, _)| starts_path(at)))
}

fn unsafe_not_forbidden(workspace: &Workspace) -> Vec<Complaint> {
    let safe = workspace.crates.iter().filter(|member| !UNSAFE_CRATES.contains(&member.name.as_str()));
    let roots = safe.flat_map(|member| &member.roots).filter_map(|path| workspace.file(path));
    let forbids = |file: &&TextFile| file.text.lines().any(|line| line == "#![forbid(unsafe_code)]");
    let lax = roots.filter(|file| !forbids(file));
    lax.map(|file| format!("{}: a crate root without `#![forbid(unsafe_code)]`", file.path)).collect()
}

fn is_test(file: &TextFile) -> bool {
    file.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

/// Lines before the unit tests, which stand last in a file.
fn code_lines(file: &TextFile) -> usize {
    file.text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::{member, workspace};

    fn complaints_about(path: &str, text: &str) -> Vec<Complaint> {
        check(&workspace(Vec::new(), &[(path, text)]))
    }

    #[test]
    fn a_file_starts_with_its_reason() {
        assert_eq!(complaints_about("a.rs", "//! Why.\n"), Vec::<Complaint>::new());
        assert_eq!(complaints_about("a.rs", "use x;\n"), ["a.rs:1: does not start with a `//!` header"]);
    }

    #[test]
    fn long_files_are_refused_but_tests_do_not_count() {
        let code = "//! Why.\n".to_owned() + &"x\n".repeat(HARD_LIMIT_LINES - 1);
        let tested = code.clone() + "#[cfg(test)]\nmod tests {}\n";
        assert_eq!(complaints_about("a.rs", &tested), Vec::<Complaint>::new());
        assert_eq!(complaints_about("a.rs", &(code + "x\n")), ["a.rs: 1201 lines, more than 1200"]);
    }

    #[test]
    fn tests_that_cannot_fail_are_refused() {
        let complaints = complaints_about("a.rs", "//! Why.\n    #[ignore = \"slow\"]\n#[should_panic]\n");
        assert_eq!(complaints, ["a.rs:2: `#[ignore = \"slow\"]` is banned", "a.rs:3: `#[should_panic]` is banned"]);
    }

    #[test]
    fn personal_folders_are_refused_in_any_file() {
        let personal = format!("see {}me/x\n", MACHINE_FOLDERS[0]);
        assert_eq!(complaints_about("a.md", &personal), ["a.md:1: names a folder of one machine"]);
        let inside_the_tree = format!("lab{}x\n", MACHINE_FOLDERS[1]);
        assert_eq!(complaints_about("a.md", &inside_the_tree), Vec::<Complaint>::new());
    }

    #[test]
    fn crate_roots_forbid_unsafe_code() {
        let mut image = member("image", &[]);
        image.roots.push("lib.rs".to_owned());
        let mut attach = member("attach", &[]);
        attach.roots.push("attach.rs".to_owned());
        let files = [("lib.rs", "//! Why.\n"), ("attach.rs", "//! Why.\n")];
        let complaints = check(&workspace(vec![image, attach], &files));
        assert_eq!(complaints, ["lib.rs: a crate root without `#![forbid(unsafe_code)]`"]);
    }

    #[test]
    fn the_report_has_the_median_and_files_over_the_soft_limit() {
        let long = "x\n".repeat(SOFT_LIMIT_LINES + 1);
        let files = [("a.rs", "1\n"), ("b.rs", "1\n2\n#[cfg(test)]\nx\n"), ("c.rs", &long), ("tests/d.rs", "1\n")];
        assert_eq!(
            size_report(&workspace(Vec::new(), &files)),
            "3 files, median 2 lines, 604 lines of code, 3 of tests\n\
             c.rs: 601 lines without tests; the soft limit is 600\n"
        );
    }
}
