//! Bursts that a count of checks starts: the same in every run that does the same, and worth as
//! much as any other stretch of the run.

use std::collections::BTreeMap;
use std::process::Command;

use profile::Profile;

use crate::build::{Executable, Program};
use crate::compare::expect_same;
use crate::exact::counted;
use crate::process::Ended;
use crate::recorder::{finish, run_native, start_recorded, start_strobe_in};

/// The policies of check elimination that bursty tracing compares.
const POLICIES: [&str; 8] = flow::checks::CheckPolicy::PAPER_NAMES;

fn single_threaded() -> Executable {
    Program::new("interpreter.c").build()
}

fn recorded(executable: &Executable, options: &[&str]) -> (Profile, BTreeMap<String, String>) {
    let outcome = finish("a counted trigger", start_recorded(executable, options));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    opened(executable)
}

fn opened(executable: &Executable) -> (Profile, BTreeMap<String, String>) {
    let path = executable.beside("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    let facts = store::facts(&path).expect("facts");
    assert_eq!(facts["native_excursions"], "0", "{facts:?}");
    assert_eq!(facts["records_lost"], "0", "{facts:?}");
    assert_eq!(facts["untold_bursts"], "0", "{facts:?}");
    (profile, facts)
}

fn number(facts: &BTreeMap<String, String>, name: &str) -> u64 {
    facts.get(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {name} in {facts:?}"))
}

/// What `strobe dump bursts` prints of the last recording, by lines and words.
fn dumped(executable: &Executable, options: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    let output =
        command.args(["dump", "bursts"]).arg(executable.beside("profile")).args(options).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Blocks of all bursts, without the threads' ids, which no two runs share.
fn blocks(executable: &Executable) -> Vec<[String; 3]> {
    let without_thread = |line: Vec<String>| match <[String; 4]>::try_from(line) {
        Ok([burst, _thread, function, address]) => [burst, function, address],
        Err(line) => panic!("{line:?}"),
    };
    dumped(executable, &["--blocks"]).into_iter().map(without_thread).collect()
}

#[test]
fn two_runs_have_the_same_bursts_and_the_same_profile() {
    let executable = single_threaded();
    let options = ["--trigger", "count:19997:101", "--keep-trace", "-o"];
    let run = || {
        let profile = executable.beside("profile");
        let options = [&options[..], &[profile.to_str().expect("a path")]].concat();
        // The same addresses in every run.
        let command = executable.command_line();
        let outcome = finish("a run", start_strobe_in(&["setarch", "-R"], &executable, &options, &command));
        assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
        let (profile, facts) = opened(&executable);
        (blocks(&executable), profile, number(&facts, "bursts"))
    };
    let (one, other) = (run(), run());
    assert!(one.2 > 100, "{} bursts", one.2);
    let first_difference = one.0.iter().zip(&other.0).position(|(one, other)| one != other);
    assert_eq!(first_difference.map(|at| (&one.0[at], &other.0[at])), None);
    assert_eq!((one.0.len(), one.2), (other.0.len(), other.2));
    assert_eq!((one.1.blocks, one.1.edges, one.1.paths), (other.1.blocks, other.1.edges, other.1.paths));
}

/// Every stretch between two checks is in a burst as often as any other, so that bursts times their
/// weight are the run.
#[test]
fn bursts_stand_for_the_run() {
    let executable = single_threaded();
    let count = |profile: &Profile| -> BTreeMap<u64, f64> {
        let is_own = |block: &&profile::model::Block| {
            let module = profile.functions[block.function.index()].module;
            profile.modules[module.index()].path.ends_with("/program")
        };
        profile.blocks.iter().filter(is_own).map(|block| (block.address, block.count.value)).collect()
    };
    let exact = count(&counted(&executable, "--exact=blocks"));
    let (profile, facts) = recorded(&executable, &["--trigger", "count:1999:53"]);
    let sampled = count(&profile);
    let [n_exact, n_sampled] = [&exact, &sampled].map(|counts| counts.values().sum::<f64>());
    assert!(number(&facts, "bursts") > 200, "{facts:?}");
    assert!((n_sampled / n_exact - 1.0).abs() < 0.05, "{n_sampled} of {n_exact} blocks");
    let share = |at: &u64, counts: &BTreeMap<u64, f64>, all: f64| counts.get(at).copied().unwrap_or(0.0) / all;
    let overlap: f64 = exact.keys().map(|at| share(at, &exact, n_exact).min(share(at, &sampled, n_sampled))).sum();
    assert!(overlap > 0.95, "{overlap}");
    assert!(profile.contexts.is_empty(), "nothing is known of the callers of bursts");
}

/// Every policy leaves the program as it is. What leaves checks out meets fewer of them.
#[test]
fn policies_of_check_elimination() {
    let executable = Program::new("counted.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).build();
    let native = run_native(&executable);
    let n_bursts: Vec<u64> = POLICIES
        .iter()
        .map(|policy| {
            let options = ["--trigger", "count:61:7", "--checks", policy];
            let outcome = finish(policy, start_recorded(&executable, &options));
            expect_same(policy, &native, &outcome);
            let (_, facts) = opened(&executable);
            assert_eq!(facts["checks_policy"], *policy);
            number(&facts, "bursts")
        })
        .collect();
    let of = |name: &str| n_bursts[POLICIES.iter().position(|&policy| policy == name).expect("a policy")];
    assert!(of("orig") > 1000, "{n_bursts:?}");
    // The program calls a lot, and has hardly a boring loop. How often its threads wait for each
    // other is not the same in every run.
    for policy in ["EL", "EC", "EN", "LN", "EC+L4"] {
        assert!(of(policy) * 4 < of("orig") * 3, "{policy}: {n_bursts:?}");
    }
}

/// Values are noted in bursts only.
#[test]
fn values_are_noted_in_bursts() {
    let executable = single_threaded();
    let n_events = |options: &[&str]| {
        let outcome = finish("values", start_recorded(&executable, options));
        assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
        let facts = store::facts(&executable.beside("profile")).expect("facts");
        number(&facts, "value_events")
    };
    let all = n_events(&["--exact=blocks", "--values"]);
    let some = n_events(&["--trigger", "count:400:100", "--values"]);
    let share = some as f64 / all as f64;
    assert!(all > 100_000 && (share - 0.2).abs() < 0.05, "{some} of {all}");
}

/// `dump bursts` also reads what ticks have started.
#[test]
fn bursts_are_printed_one_by_one() {
    let executable = single_threaded();
    let (_, facts) = recorded(&executable, &["--trigger", "count:19997:101", "--keep-trace"]);
    let lines = dumped(&executable, &[]);
    assert_eq!(lines.len() as u64, number(&facts, "bursts"));
    let n_blocks: u64 = lines
        .iter()
        .map(|line| line[4].strip_prefix("blocks=").and_then(|n| n.parse::<u64>().ok()).expect("a number"))
        .sum();
    assert_eq!(n_blocks, number(&facts, "records"));
    assert_eq!(blocks(&executable).len() as u64, n_blocks);
    assert_eq!(dumped(&executable, &["--from", "3", "--limit", "2"]), lines[3..5]);
    finish("ticks", start_recorded(&executable, &["--rate", "2000", "--burst", "500"]));
    let output = Command::new(env!("CARGO_BIN_EXE_strobe"))
        .args(["dump", "bursts"])
        .arg(executable.beside("profile"))
        .output()
        .expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("record with --keep-trace"), "{output:?}");
}
