//! Compares two runs and says where they part.

use std::collections::BTreeSet;

use crate::process::Outcome;

#[track_caller]
pub fn expect_same(what: &str, native: &Outcome, other: &Outcome) {
    let differences = differences(native, other);
    assert!(
        differences.is_empty(),
        "{what} differs from a run alone:\n{}\nits standard error:\n{}",
        differences.join("\n"),
        other.stderr
    );
}

/// One sentence for each difference.
pub fn differences(native: &Outcome, other: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if native.ended != other.ended {
        found.push(format!("exit code {}, not {}", other.ended.code, native.ended.code));
    }
    found.extend(difference("standard output", &native.stdout, &other.stdout));
    let names: BTreeSet<&String> = native.files.keys().chain(other.files.keys()).collect();
    for name in names {
        match (native.files.get(name), other.files.get(name)) {
            (Some(expected), Some(actual)) => found.extend(difference(name, expected, actual)),
            (Some(_), None) => found.push(format!("file {name} is missing")),
            (None, _) => found.push(format!("file {name} is extra")),
        }
    }
    found
}

/// The first line that differs.
fn difference(name: &str, expected: &[u8], actual: &[u8]) -> Option<String> {
    if expected == actual {
        return None;
    }
    let mut expected = expected.split(|&byte| byte == b'\n');
    let mut actual = actual.split(|&byte| byte == b'\n');
    for number in 1.. {
        let lines = (expected.next(), actual.next());
        if lines.0 != lines.1 {
            return Some(format!("{name}, line {number}: {}, not {}", quote(lines.1), quote(lines.0)));
        }
    }
    None
}

fn quote(line: Option<&[u8]>) -> String {
    line.map_or_else(|| "no line".to_owned(), |line| format!("{:?}", String::from_utf8_lossy(line)))
}
