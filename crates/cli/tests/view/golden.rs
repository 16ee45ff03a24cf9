//! Exact text of every view.
//!
//! Expected texts are in `tests/golden`. To accept a change, run the tests once with `STROBE_BLESS=1` and read the difference.

use std::fs;
use std::path::Path;

use crate::fixture::{Workshop, program};

#[track_caller]
fn check(golden: &str, arguments: &[&str]) {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let actual = workshop.stdout(&[arguments, &[&profile]].concat());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("STROBE_BLESS").is_some() {
        fs::write(&path, &actual).expect("a writable source tree");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(actual.lines().count())) + 1;
    assert!(expected == actual, "tests/golden/{golden}:{line} differs; got:\n{actual}");
}

#[test]
fn report() {
    check("view-report.txt", &["report"]);
}

#[test]
fn report_of_few_rows() {
    check("view-report-1.txt", &["report", "-n", "1"]);
}

#[test]
fn paths() {
    check("view-paths.txt", &["paths"]);
}

#[test]
fn paths_by_count() {
    check("view-paths-count.txt", &["paths", "--by", "count", "-f", "work", "-n", "2"]);
}

#[test]
fn edges() {
    check("view-edges.txt", &["edges", "-f", "ns::work"]);
}

#[test]
fn calls() {
    check("view-calls.txt", &["calls"]);
}

#[test]
fn callers_and_callees() {
    check("view-calls-work.txt", &["calls", "-f", "0x2004"]);
}

#[test]
fn contexts() {
    check("view-contexts.txt", &["contexts"]);
}

#[test]
fn contexts_below_a_function() {
    check("view-contexts-caller.txt", &["contexts", "--caller", "work"]);
}

#[test]
fn contexts_that_lead_to_a_function() {
    check("view-contexts-callee.txt", &["contexts", "--callee", "leaf"]);
}

#[test]
fn contexts_upside_down() {
    check("view-contexts-callers.txt", &["contexts", "--callers", "--min", "6%"]);
}

#[test]
fn annotate() {
    check("view-annotate.txt", &["annotate", "program:0x2000"]);
}

#[test]
fn loops() {
    check("view-loops.txt", &["loops"]);
}

#[test]
fn branches() {
    check("view-branches.txt", &["branches", "--by", "entropy"]);
}
