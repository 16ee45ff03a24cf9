//! The harness notices what it is there to notice.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::compare::differences;
use crate::process::{Ended, Outcome, Running, cpu_ticks};

fn shell(script: &str, limit: Duration) -> (tempfile::TempDir, Running) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let command_line = ["sh", "-c", script].map(str::to_owned);
    let running = Running::start(&command_line, &folder.path().join("run"), limit);
    (folder, running)
}

fn outcome(script: &str) -> Outcome {
    let (_folder, running) = shell(script, Duration::from_secs(60));
    running.wait().expect("no hang")
}

#[test]
fn same_runs_do_not_differ() {
    let script = "echo out; echo err >&2; echo file > file; exit 3";
    assert_eq!(differences(&outcome(script), &outcome(script)), Vec::<String>::new());
}

#[test]
fn every_difference_is_named() {
    let native = outcome("printf 'a\\nb\\n'; echo 1 > both; echo 1 > gone; exit 3");
    let other = outcome("printf 'a\\nc\\n'; echo 2 > both; echo 1 > new; exit 4");
    let expected = [
        "exit code 4, not 3",
        "standard output, line 2: \"c\", not \"b\"",
        "both, line 1: \"2\", not \"1\"",
        "file gone is missing",
        "file new is extra",
    ];
    assert_eq!(differences(&native, &other), expected);
}

#[test]
fn output_cut_short_differs() {
    let found = differences(&outcome("echo a; echo b"), &outcome("echo a"));
    assert_eq!(found, ["standard output, line 2: \"\", not \"b\""]);
}

#[test]
fn death_by_signal_reads_as_in_a_shell() {
    assert_eq!(outcome("kill -TERM $$").ended, Ended::by_signal(15));
    assert_eq!(outcome("exit 143").ended, Ended::by_signal(15));
}

#[test]
fn hang_is_killed_with_its_children() {
    let (_folder, mut running) = shell("sleep 1000 & echo $! > part; mv part child; wait", Duration::from_secs(4));
    let child = running.wait_for_file("child").expect("a child");
    let hang = running.wait().expect_err("a hang");
    assert!(hang.report.contains("sleep"), "{}", hang.report);
    let child: u32 = child.trim().parse().unwrap_or_else(|_| panic!("{child:?}"));
    while cpu_ticks(child).is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn files_are_compared_by_content() {
    let outcome = outcome("printf x > one; mkdir two");
    let expected = BTreeMap::from([("one".to_owned(), b"x".to_vec()), ("two".to_owned(), Vec::new())]);
    assert_eq!(outcome.files, expected);
}
