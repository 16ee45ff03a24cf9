//! Exact text of every view.

use crate::fixture::{Workshop, program};
use crate::golden_text;

#[track_caller]
fn check(golden: &str, arguments: &[&str]) {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let actual = workshop.stdout(&[arguments, &[&profile]].concat());
    golden_text::expect(golden, &actual);
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
fn methods() {
    check("view-methods.txt", &["methods"]);
}

#[test]
fn branches() {
    check("view-branches.txt", &["branches", "--by", "entropy"]);
}
