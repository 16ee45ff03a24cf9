//! Exact mode counts everything, and the same each time.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use profile::Profile;

use crate::build::{Executable, Program};
use crate::process::Ended;
use crate::recorder::{finish, run_native, start_recorded};

/// How often functions of `counted.c` run.
const ENTRIES: [(&str, f64); 6] = [
    ("hammered", 64.0 * 2000.0),
    ("recursive", 8361.0),
    ("handling", 300.0),
    ("jumping", 4.0 * 200.0),
    ("landing", 200.0),
    ("dispatched", 500.0),
];

/// Every call of the source is a call.
fn program() -> Executable {
    Program::new("counted.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).build()
}

pub fn counted(executable: &Executable, what: &str) -> Profile {
    counted_with(executable, &[what])
}

pub fn counted_with(executable: &Executable, options: &[&str]) -> Profile {
    let outcome = finish("exact mode", start_recorded(executable, options));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    let path = executable.beside("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    let facts = store::facts(&path).expect("facts");
    assert_eq!(facts["native_excursions"], "0", "{facts:?}");
    profile
}

/// Counts of the blocks of the program itself, by address.
fn own_blocks(profile: &Profile) -> BTreeMap<u64, f64> {
    let is_own = |module: &str| module.ends_with("/program");
    let blocks = profile.blocks.iter().filter(|block| {
        let function = &profile.functions[block.function.index()];
        is_own(&profile.modules[function.module.index()].path)
    });
    blocks.map(|block| (block.address, block.count.value)).collect()
}

#[test]
fn known_numbers_come_out() {
    let executable = program();
    for what in ["--exact=blocks", "--exact=paths"] {
        let profile = counted(&executable, what);
        // A path that longjmp cuts off is not counted.
        let is_cut_off = |name: &str| what == "--exact=paths" && ["jumping", "landing"].contains(&name);
        for (name, expected) in ENTRIES.into_iter().filter(|(name, _)| !is_cut_off(name)) {
            let function = profile.functions.iter().find(|function| function.name == name);
            let entries = function.unwrap_or_else(|| panic!("{what}: no {name}")).entries.value;
            assert_eq!(entries, expected, "{what}: {name}");
        }
    }
}

/// Control that comes by addresses which the program keeps stays in copies.
#[test]
fn labels_reached_by_their_addresses_are_counted() {
    let executable = Program::new("labels.c").flags(&["-O1"]).build();
    for what in ["--exact=blocks", "--exact=paths"] {
        let profile = counted(&executable, what);
        for (name, expected) in [("handled", 1000.0), ("doubled", 4000.0), ("stepped", 8000.0)] {
            let function = profile.functions.iter().find(|function| function.name == name);
            let entries = function.unwrap_or_else(|| panic!("{what}: no {name}")).entries.value;
            assert_eq!(entries, expected, "{what}: {name}");
        }
    }
}

#[test]
fn two_runs_count_the_same() {
    let executable = program();
    let [one, other] = [(); 2].map(|()| own_blocks(&counted(&executable, "--exact=blocks")));
    assert!(one.len() > 30, "{one:?}");
    assert_eq!(one, other);
}

/// Every path that ended was counted, and those that were under way when threads ended, so only
/// those differ that `longjmp` cut off.
#[test]
fn paths_and_blocks_agree() {
    let executable = program();
    let blocks = own_blocks(&counted(&executable, "--exact=blocks"));
    let from_paths = own_blocks(&counted(&executable, "--exact=paths"));
    let total: f64 = blocks.values().sum();
    let difference: f64 =
        blocks.iter().map(|(at, count)| (count - from_paths.get(at).copied().unwrap_or(0.0)).abs()).sum();
    assert!(difference < total * 0.02, "{difference} of {total}");
}

/// Paths that were under way when threads or the process ended are counted as far as they had come.
#[test]
fn paths_that_never_end_are_counted() {
    for flags in [["-O2", "-fno-inline"], ["-O0", "-pthread"]] {
        let executable = Program::new("ends.c").flags(&flags).build();
        let blocks = own_blocks(&counted(&executable, "--exact=blocks"));
        let from_paths = own_blocks(&counted(&executable, "--exact=paths"));
        assert!(blocks.len() > 20, "{blocks:?}");
        assert_eq!(blocks, from_paths, "{flags:?}");
    }
}

#[test]
fn perturbation_compares_with_a_run_alone() {
    let executable = program();
    let alone = run_native(&executable);
    for exact in ["--exact=contexts", "--exact=paths"] {
        let options = [exact, "--metric=cycles", "--perturbation"];
        let recorded = finish("with a run alone", start_recorded(&executable, &options));
        assert_eq!((recorded.ended, &recorded.stdout), (alone.ended, &alone.stdout), "{}", recorded.stderr);
        let facts = store::facts(&executable.beside("profile")).expect("facts");
        for name in ["user_s", "system_s", "elapsed_s", "memory_mib", "waits", "preemptions", "cycles_s"] {
            assert!(facts.contains_key(&format!("perturbation_{name}")), "{exact}, {name}: {facts:?}");
        }
        assert!(recorded.stderr.contains("PERTURBATION"), "{}", recorded.stderr);
    }
}

/// Time is that of the path itself: not of the other path of the function, and not of the caller's.
#[test]
fn paths_have_their_cycles() {
    let executable = Program::new("path_cycles.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).build();
    let outcome = finish("cycles of paths", start_recorded(&executable, &["--exact=paths", "--metric=cycles"]));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    let profile = store::open(&executable.beside("profile")).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    let paths_of = |name: &str| -> Vec<(f64, f64)> {
        let is_own = |path: &&profile::model::Path| profile.functions[path.function.index()].name == name;
        let mut paths: Vec<(f64, f64)> =
            profile.paths.iter().filter(is_own).map(|path| (path.self_ns.value, path.count.value)).collect();
        paths.sort_by(|a, b| a.0.total_cmp(&b.0));
        paths
    };
    let (work, drive) = (paths_of("work"), paths_of("drive"));
    let counts: Vec<f64> = work.iter().chain(&drive).map(|&(_, count)| count).collect();
    assert_eq!(counts, [10_000.0, 10_000.0, 20_000.0]);
    let (quick, slow, drive) = (work[0].0, work[1].0, drive[0].0);
    assert!(0.0 < quick && 4.0 * quick < slow, "{quick} {slow}");
    assert!(0.0 < drive && 2.0 * drive < slow, "{drive} {slow}");
}

/// Paths of the program itself by the addresses of their blocks.
fn own_paths(profile: &Profile) -> BTreeMap<Vec<u64>, f64> {
    let address = |id: &profile::model::BlockId| profile.blocks[id.index()].address;
    let own = profile.paths.iter().filter(|path| {
        let function = &profile.functions[path.function.index()];
        profile.modules[function.module.index()].path.ends_with("/program")
    });
    let key = |path: &profile::model::Path| path.blocks.iter().chain(&path.back_to).map(address).collect();
    own.map(|path| (key(path), path.count.value)).collect()
}

#[test]
fn a_guide_changes_no_counts() {
    let executable = program();
    let alone = counted(&executable, "--exact=paths");
    let guide = executable.beside("guide");
    fs::rename(executable.beside("profile"), &guide).expect("a profile");
    let guide = guide.to_str().expect("a path");
    let guided = counted_with(&executable, &["--exact=paths", "--guide", guide]);
    assert!(own_paths(&alone).len() > 20);
    assert_eq!(own_paths(&alone), own_paths(&guided));
    assert_eq!(own_blocks(&alone), own_blocks(&guided));
}

/// `count` and `trace` are what `record` did with `--exact`, and what it is told.
#[test]
fn counting_has_commands() {
    let executable = Program::new("ends.c").flags(&["-O2", "-fno-inline"]).build();
    let of = |command: &[&str]| {
        let profile = executable.beside("profile");
        fs::remove_file(&profile).ok();
        let strobe = Command::new(env!("CARGO_BIN_EXE_strobe"))
            .args(command)
            .arg("-o")
            .arg(&profile)
            .arg("--")
            .args(executable.command_line())
            .output()
            .expect("strobe starts");
        let said = String::from_utf8_lossy(&strobe.stderr).into_owned();
        assert!(strobe.status.success(), "{said}");
        (own_blocks(&store::open(&profile).expect("a profile")), said)
    };
    let (expected, said) = of(&["record", "--exact=blocks"]);
    assert!(!expected.is_empty());
    assert!(said.starts_with("strobe: note: `strobe count --of blocks` does this now"), "{said}");
    for command in [&["count", "--of", "blocks"][..], &["count"], &["trace"]] {
        let (counts, said) = of(command);
        assert_eq!(counts, expected, "{command:?}");
        assert!(!said.contains("note:"), "{said}");
    }
    assert!(executable.beside("profile.trace").exists());
}
