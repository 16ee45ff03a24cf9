//! Times are true: those of programs that know by construction what they spend.

use std::collections::BTreeMap;
use std::process::Command;

use profile::Profile;
use profile::model::ModuleId;
use profile::query::{self, PathRank};

use crate::build::{Executable, Program};
use crate::process::Ended;
use crate::recorder::{finish, start_recorded};

/// What the program says of itself, in microseconds, and what was recorded of it.
fn recorded(what: &'static str, options: &[&str]) -> (BTreeMap<String, f64>, Profile, Executable) {
    let executable = Program::new("planted.c").arguments(&[what]).build();
    let outcome = finish(what, start_recorded(&executable, options));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    let lines = String::from_utf8(outcome.stdout).expect("text");
    let facts = lines.lines().map(|line| {
        let (name, value) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), value.parse().expect("a number"))
    });
    let profile = store::open(&executable.beside("profile")).expect("a profile");
    assert_eq!(profile.verify(), []);
    (facts.collect(), profile, executable)
}

/// A rare path that waits for memory has its time. It has 1 execution in 30 of the function's, and
/// next to none of its instructions.
#[test]
fn a_slow_path_behind_a_rare_branch_is_seen() {
    let (truth, profile, _) = recorded("slow", &["--rate", "200", "--burst", "1000"]);
    let expected = truth["rare"] / truth["step"];
    assert!((0.3..0.97).contains(&expected), "the program has two paths that matter: {truth:?}");
    let is_step = |row: &query::PathRow| profile.functions[row.function.index()].name == "step";
    let paths: Vec<query::PathRow> = query::paths(&profile, None, PathRank::Time).into_iter().filter(is_step).collect();
    let function_ns: f64 = paths.iter().map(|row| row.self_ns.value).sum();
    let rare = paths.iter().min_by(|a, b| a.count.value.total_cmp(&b.count.value)).expect("paths");
    let share = rare.self_ns.value / function_ns;
    let told = || format!("{share:.3} of the function's time, not {expected:.3}; {paths:#?}");
    assert!((share - expected).abs() < 0.15, "{}", told());
    assert!(rare.share_of_function.value < 0.1, "it is rare: {}", told());
    let others = paths.iter().filter(|row| row.path != rare.path);
    assert!(expected < 0.6 || others.into_iter().all(|row| row.self_ns.value < rare.self_ns.value), "{}", told());
}

/// CPU time, and its part in the kernel, are those of the kernel's account, whatever ticks met.
#[test]
fn time_in_the_kernel_is_what_the_kernel_says() {
    for what in ["faults", "reads"] {
        let (truth, profile, _) = recorded(what, &[]);
        let totals = query::totals(&profile);
        let all_us = truth["user"] + truth["system"];
        // What strobe sees, and the program does not, is how it starts and ends.
        let cpu_us = totals.cpu_ns.value / 1e3;
        assert!((0.99..1.0 + 150e3 / all_us).contains(&(cpu_us / all_us)), "{what}: {cpu_us} of {truth:?}");
        assert_eq!(totals.cpu_ns.margin(), 0.0, "{what}: the kernel's account has no error");
        let share = totals.kernel_ns.value / totals.cpu_ns.value;
        let expected = truth["system"] / all_us;
        assert!((share - expected).abs() < 0.05, "{what}: {share:.3} in the kernel, not {expected:.3}");
    }
}

/// Counting blocks in native code tells how often code runs that waits for memory. By the model of
/// speed alone it is some two times as many.
#[test]
fn counts_of_slow_code_are_right_where_blocks_are_counted_natively() {
    let (truth, profile, _) = recorded("chases", &["--overhead", "10%", "--spot-counts"]);
    let fact = |name: &str| profile.facts.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.as_str());
    let n_hits: u64 = fact("spot_hits").parse().unwrap_or_else(|_| panic!("no spot counts: {:?}", profile.facts));
    assert!(n_hits > 20, "{n_hits} hits are too few to tell: {:?}", profile.facts);
    let chase = profile.functions.iter().find(|row| row.name == "chase").expect("what most time was spent in");
    let ratio = chase.entries.value / truth["chase"];
    assert!((0.67..1.5).contains(&ratio), "{ratio} times as many: {:?}", profile.facts);
}

/// Code that never had a copy is named from what its file states.
#[test]
fn code_without_copies_has_names() {
    let (_, profile, executable) = recorded("slow", &["--rate", "200", "--module", "nothing of that name"]);
    assert_eq!(profile.blocks, [], "nothing was translated");
    let is_file = |module: ModuleId| profile.modules[module.index()].path.starts_with('/');
    let timed = profile.functions.iter().filter(|row| row.self_ns.value > 0.0 && is_file(row.module));
    let names: Vec<&str> = timed.map(|row| row.name.as_str()).collect();
    assert!(names.contains(&"step"), "{names:?}");
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    let report = Command::new(env!("CARGO_BIN_EXE_strobe")).arg("report").arg(executable.beside("profile")).output();
    let report = String::from_utf8(report.expect("strobe runs").stdout).expect("text");
    assert!(!report.contains("(unknown code)"), "{report}");
    let step = report.lines().find(|line| line.contains("step [program]")).unwrap_or_else(|| panic!("{report}"));
    assert!(step.contains(" -  step"), "entries are not known: {step}");
}
