//! What is recorded is true: every step of every burst follows the control flow of the code, and
//! the counts in the profile are those of the bursts.

use std::collections::BTreeMap;
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

/// A script that keeps an interpreter busy in many different places, for 3 seconds of CPU time:
/// long enough for translating and analysing to get done beside it.
const SCRIPT: &str = "my %h; while ((times)[0] < 3) { for my $i (1..20000) { my $k = substr(sprintf('%x', $i * 2654435761 % 4294967296), 0, 3); \
     $h{$k} += length $k; my @d = sort { $b <=> $a } split //, $i; $k = join '-', @d; $h{lc $1}++ if $k =~ /(9-[0-8])/ } } print join ',', map { \"$_$h{$_}\" } sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h;";

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
    let recorded = || verified(&["--rate", "500", "--burst", "500", "--keep-trace"], &["perl", "-e", SCRIPT]);
    // On a busy machine the program may end before its code has been translated; the next recording
    // finds that in the cache.
    let (folder, facts) =
        (0..2).map(|_| recorded()).find(|(_, facts)| number(facts, "bursts") > 200).unwrap_or_else(recorded);
    let path = folder.path().join("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    assert_eq!(profile.ticks.values().sum::<u64>(), number(&facts, "ticks"));
    let (bursts, records) = (number(&facts, "bursts"), number(&facts, "records"));
    assert_eq!(store::count(&path, "SELECT sum(samples) FROM trace").expect("a number"), bursts);
    // A burst has one more block than records, that of the tick, unless it began with it; the last
    // may not have run.
    let seen: u64 = profile.blocks.iter().map(|block| block.count.seen).sum();
    assert!(seen.abs_diff(records) <= bursts + records / 100, "{seen} blocks, {records} records, {bursts} bursts");
    assert!(profile.paths.len() > 100 && profile.contexts.len() > 10 && profile.loops.len() > 10);
    let named = profile.functions.iter().filter(|function| !function.name.is_empty()).count();
    assert!(named > 0, "no function has a name");
}
