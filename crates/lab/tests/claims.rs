//! The whole chain, small: corpus, exact and sampled recordings, claims, report.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `strobe-lab` and returns its standard output and standard error.
fn lab(arguments: &[&str], dir: &Path) -> (String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_strobe-lab")).args(arguments).current_dir(dir).output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        status.success(),
        "{arguments:?}:\n{out}{err}\n(the tests of lab need the program strobe beside strobe-lab)"
    );
    (out, err)
}

#[test]
fn programs_put_out_what_the_corpus_expects() {
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        ["corpus", "run", "--size", "tiny", "--dir", "data", "--program", "gzip", "gsmdec", "vortex", "eon"];
    let (out, _) = lab(&arguments, dir.path());
    assert_eq!(out.matches("as expected").count(), 4, "{out}");
}

#[test]
fn claims_are_measured_once_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "claims",
        "P1",
        "P2",
        "P4",
        "E1",
        "B2",
        "F3",
        "S1",
        "--set",
        "smoke",
        "--program",
        "gzip",
        "gsmdec",
        "--dir",
        "data",
        "--report",
        "report",
        "--document",
        "results.md",
    ];
    let (summary, progress) = lab(&arguments, dir.path());
    assert!(progress.contains("P1 (1 of 7"), "{progress}");
    for id in ["P1", "P6b", "S9", "F5", "B2", "E1"] {
        assert!(summary.lines().any(|line| line.starts_with(&format!("{id} "))), "{id} is not in\n{summary}");
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let (page, document) = (read("report/index.html"), read("results.md"));
    for text in [&page, &document, &read("report/report.md")] {
        assert!(text.contains("gsmdec") && text.contains("not yet") && text.contains("Linux"), "{text}");
    }
    assert!(page.contains("<svg") && read("results/P1-0.svg").starts_with("<svg"));
    assert!(document.contains("](results/P2-0.svg)"), "{document}");

    let (again, progress) = lab(&arguments, dir.path());
    assert_eq!((again, progress.contains(" of ")), (summary, false), "nothing is measured twice");
}

#[test]
fn times_and_counts_are_compared_with_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let set =
        ["--set", "smoke", "--program", "gzip", "--dir", "data", "--report", "report", "--document", "results.md"];
    let arguments = [&["claims", "T1b", "T2", "T3"][..], &set].concat();
    lab(&arguments, dir.path());
    let document = fs::read_to_string(dir.path().join("results.md")).unwrap();
    let row = |first: &str| {
        let row = document.lines().find(|line| line.starts_with(&format!("| {first} | ")));
        row.unwrap_or_else(|| panic!("no row of {first} in\n{document}"))
    };
    for program in ["rare_misses", "hash_misses", "page_faults", "dd", "threads"] {
        assert!(row(program).split(" | ").any(|cell| cell == "1"), "{program} is recorded once: {}", row(program));
    }
    let cells: Vec<&str> = row("gzip").split(" | ").collect();
    let shares: Vec<f64> = cells[3..5].iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(shares.iter().all(|share| (1.0..=100.0).contains(share)), "times of strobe and perf overlap: {cells:?}");
    let counts = document.split("## T3").nth(1).unwrap();
    assert!(counts.contains("| gzip | ") && counts.contains("score"), "{counts}");

    let arguments = [&["claims", "T3", "--with", "verify"], &set[..]].concat();
    let (_, progress) = lab(&arguments, dir.path());
    assert!(progress.contains("gzip, default --verify"), "recordings with an option are others: {progress}");
    assert!(!progress.contains("gzip, default\n"), "those without are kept: {progress}");
    let document = fs::read_to_string(dir.path().join("results.md")).unwrap();
    assert!(document.contains("(without options ") && document.contains("--with verify"), "{document}");
}

#[test]
fn every_setting_of_every_program_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "accuracy",
        "--size",
        "short",
        "--dir",
        "data",
        "--program",
        "gsmdec",
        "--rate",
        "100",
        "--burst",
        "4000",
        "--policy",
        "burst",
        "64,17",
        "--markdown",
    ];
    let (out, _) = lab(&arguments, dir.path());
    for setting in ["100 Hz x 4000", "100 Hz PEP(64,17)"] {
        let row = out.lines().find(|line| line.starts_with(&format!("| gsmdec | {setting} |")));
        let cells: Vec<&str> = row.unwrap_or_else(|| panic!("no {setting} in\n{out}")).split(" | ").collect();
        // Paths, biases and edges, estimated and raw, in percent.
        let shares: Vec<f64> = cells[6..12].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)), "{out}");
    }
}
