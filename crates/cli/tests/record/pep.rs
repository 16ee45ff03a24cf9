//! PEP mode: paths are sampled in copies that are never left.

use std::collections::BTreeMap;

use profile::Profile;
use profile::accuracy::compare;
use profile::model::Path;

use crate::build::{Executable, Program};
use crate::compare::expect_same;
use crate::exact::counted_with;
use crate::process::Ended;
use crate::recorder::{finish, run_native, start_recorded, start_strobe};

#[track_caller]
fn expect_same_output(program: &Program) {
    let executable = program.build();
    let recorded = finish("PEP mode", start_recorded(&executable, &["--pep", "64,17", "--rate", "1000"]));
    expect_same("PEP mode", &run_native(&executable), &recorded);
}

#[test]
fn signal_handlers_take_samples_too() {
    expect_same_output(&Program::new("signals.c"));
}

#[test]
fn jumps_out_of_handlers_lose_no_sample() {
    expect_same_output(&Program::new("siglongjmp.c"));
}

#[test]
fn threads_are_sampled() {
    expect_same_output(&Program::new("threads.c"));
}

#[test]
fn ticks_interrupt_no_system_call() {
    expect_same_output(&Program::new("eintr.c"));
}

#[test]
fn every_kind_of_jump_keeps_the_register() {
    expect_same_output(&Program::new("interpreter.c"));
}

#[test]
fn forked_children_are_sampled() {
    expect_same_output(&Program::new("fork.c"));
}

fn shares() -> Executable {
    Program::new("shares.c").flags(&["-O1"]).build()
}

fn fact(executable: &Executable, name: &str) -> f64 {
    let facts = store::facts(&executable.beside("profile")).expect("facts");
    facts[name].parse().unwrap_or_else(|_| panic!("{name} is {}", facts[name]))
}

#[test]
fn nothing_is_counted_if_no_samples_are_wanted() {
    let executable = shares();
    let profile = counted_with(&executable, &["--pep", "0,1", "--rate", "1000"]);
    assert!(profile.paths.is_empty() && profile.edges.is_empty());
    assert!(profile.blocks.iter().all(|block| block.count.value == 0.0));
    assert_eq!((fact(&executable, "sampling_ticks"), fact(&executable, "paths_ended")), (0.0, 0.0));
}

/// Paths of a function by their blocks: shares of the function's paths, with standard errors.
fn shares_of_paths(profile: &Profile, name: &str) -> BTreeMap<Vec<u64>, (f64, f64)> {
    let is_own = |path: &&Path| profile.functions[path.function.index()].name == name;
    let own: Vec<&Path> = profile.paths.iter().filter(is_own).collect();
    let total: f64 = own.iter().map(|path| path.count.value).sum();
    let address = |path: &Path| path.blocks.iter().map(|block| profile.blocks[block.index()].address).collect();
    own.into_iter().map(|path| (address(path), (path.count.value / total, path.count.error() / total))).collect()
}

/// The program is the same all the time, so that chance is all that makes a difference. The error
/// of one path's share is below 4 standard errors but once in 16,000 times; that of the other
/// paths, by which it is divided, adds at most as much.
#[test]
fn shares_of_samples_are_those_of_all_paths() {
    let executable = shares();
    let exact = shares_of_paths(&counted_with(&executable, &["--exact"]), "choose");
    assert_eq!(exact.len(), 8, "{exact:?}");
    for pep in ["64,17", "64,17,simplified"] {
        let profile = counted_with(&executable, &["--pep", pep, "--rate", "1000"]);
        let (n_ticks, n_samples) = (fact(&executable, "sampling_ticks"), fact(&executable, "paths_ended"));
        assert!(n_ticks >= 20.0, "{pep}: {n_ticks} ticks");
        // The last tick may find the program near its end.
        assert!(n_samples <= 64.0 * n_ticks && n_samples > 64.0 * (n_ticks - 2.0), "{pep}: {n_samples} at {n_ticks}");
        let sampled = shares_of_paths(&profile, "choose");
        for (path, (expected, _)) in &exact {
            let &(share, error) = sampled.get(path).unwrap_or_else(|| panic!("{pep}: {path:x?} was never sampled"));
            assert!(error > 0.0 && error < 0.02, "{pep}: {path:x?}: {error}");
            assert!((share - expected).abs() < 8.0 * error, "{pep}: {path:x?}: {share} +- {error}, not {expected}");
        }
    }
}

/// A real program has phases, and paths of different lengths in them: as PEP does, a tick takes as
/// many samples wherever it comes. The paper finds 94 % of hot paths on average and 86 % at worst.
#[test]
fn hot_paths_of_a_real_program_are_found() {
    const WORST_OF_THE_PAPER: f64 = 0.86;
    let executable = shares();
    let input = executable.beside("input");
    let lines = (0..400_000u64).map(|n| format!("line {} of {:x}\n", n, n.wrapping_mul(n) % 65_537));
    std::fs::write(&input, lines.collect::<String>()).expect("an input");
    let command_line = ["gzip", "-9", "-c", input.to_str().expect("UTF-8")].map(str::to_owned);
    let [exact, sampled] = [&["--exact"][..], &["--pep", "64,17", "--rate", "1000"]].map(|options| {
        let profile = executable.beside("profile");
        let options = [options, &["-q", "-o", profile.to_str().expect("UTF-8")]].concat();
        let outcome = finish("gzip", start_strobe(&executable, &options, &command_line));
        assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
        store::open(&profile).expect("a profile")
    });
    assert!(fact(&executable, "sampling_ticks") >= 20.0);
    let accuracy = compare(&exact, &sampled);
    assert!(accuracy.wall_weight > Some(WORST_OF_THE_PAPER), "{accuracy:?}");
}
