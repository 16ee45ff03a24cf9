//! What is recorded is true: every step of every burst follows the control flow of the code, and the counts in the profile are those
//! of the bursts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program under `strobe record --verify`; returns the facts of the profile.
fn verified(options: &[&str], command: &[&str]) -> (tempfile::TempDir, BTreeMap<String, String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = folder.path().join("profile");
    let output = Command::new(env!("CARGO_BIN_EXE_strobe"))
        .args(["record", "--verify"])
        .args(options)
        .arg("-o")
        .arg(&profile)
        .arg("--")
        .args(command)
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .output()
        .expect("strobe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, store::facts(&profile).expect("a profile"))
}

fn number(facts: &BTreeMap<String, String>, name: &str) -> u64 {
    facts.get(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {name} in {facts:?}"))
}

/// A script that keeps an interpreter busy in many different places, for 3 seconds of CPU time: long enough for
/// translating and analysing to get done beside it.
const SCRIPT: &str = "my %h; while ((times)[0] < 3) { for my $i (1..20000) { my $k = substr(sprintf('%x', $i * 2654435761 % 4294967296), 0, 3); \
     $h{$k} += length $k } } print join ',', map { \"$_$h{$_}\" } sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h;";

#[test]
fn every_step_is_true() {
    for options in [&["--rate", "1000", "--burst", "2000"][..], &["--rate", "3000", "--burst", "64"]] {
        let (_folder, facts) = verified(options, &["perl", "-e", SCRIPT]);
        assert_eq!(number(&facts, "false_steps"), 0, "{facts:?}");
        let checked = number(&facts, "checked_blocks").saturating_sub(number(&facts, "unknown_steps"));
        assert!(checked > 10_000, "{facts:?}");
    }
}

#[test]
fn the_profile_holds_the_steps() {
    let (folder, facts) = verified(&["--rate", "500", "--burst", "500", "--keep-trace"], &["perl", "-e", SCRIPT]);
    let sum = |sql: &str| query(&folder.path().join("profile"), sql);
    let (bursts, records) = (number(&facts, "bursts"), number(&facts, "records"));
    assert_eq!(sum("SELECT sum(n) FROM burst"), bursts);
    assert_eq!(sum("SELECT sum(records) FROM burst"), records);
    assert_eq!(sum("SELECT sum(samples) FROM trace"), bursts);
    assert_eq!(sum("SELECT sum(n) FROM tick"), number(&facts, "ticks"));
    // Every record but the first of a burst is a step; bursts without records have none.
    let steps = sum("SELECT sum(n) FROM edge");
    assert!(records - bursts <= steps && steps <= records, "{steps} steps, {records} records, {bursts} bursts");
}

fn query(profile: &Path, sql: &str) -> u64 {
    store::count(profile, sql).expect("a number")
}
