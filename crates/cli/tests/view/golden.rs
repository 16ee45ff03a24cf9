//! Exact text of every view.

use profile::Profile;

use crate::fixture::{Workshop, program, with_paths_by_context};

#[track_caller]
fn check(golden: &str, arguments: &[&str]) {
    check_of(&program(), golden, arguments);
}

#[track_caller]
fn check_of(profile: &Profile, golden: &str, arguments: &[&str]) {
    let workshop = Workshop::new();
    let profile = workshop.save(profile);
    let actual = workshop.stdout(&[arguments, &[&profile]].concat());
    fixtures::golden::expect(env!("CARGO_MANIFEST_DIR"), golden, &actual);
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
fn paths_by_context() {
    let arguments = ["paths", "--by", "count", "--by-context", "-n", "2"];
    check_of(&with_paths_by_context(), "view-paths-by-context.txt", &arguments);
}

#[test]
fn classes_of_paths() {
    check("view-paths-metric.txt", &["paths", "--metric", "executions", "--hot", "5%"]);
}

#[test]
fn classes_of_paths_by_context() {
    let arguments = ["paths", "--metric", "l1d", "--by-context", "--hot", "5%"];
    let mut profile = with_paths_by_context();
    profile.paths.iter_mut().for_each(|path| path.misses = 7);
    check_of(&profile, "view-paths-by-context-metric.txt", &arguments);
}

#[test]
fn shape_of_the_context_tree() {
    check_of(&with_paths_by_context(), "view-contexts-metric.txt", &["contexts", "--metric", "cycles"]);
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
