//! Ways to run a program: alone, and under `strobe record` at the settings that every program must
//! survive.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::build::{Executable, repetitions};
use crate::compare::expect_same;
use crate::process::{Ended, Hang, Outcome, Running};

/// Options of `strobe record`: the defaults, long bursts that note values at a high rate, and short
/// ones at the highest.
pub const SETTINGS: [&[&str]; 3] =
    [&[], &["--rate", "2000", "--burst", "10000", "--values"], &["--rate", "4000", "--burst", "64"]];

/// The same for exact mode.
const EXACT_SETTINGS: [&[&str]; 2] = [&["--exact"], &["--exact=blocks", "--values"]];

/// Many short bursts that a count of checks starts.
const COUNTED_SETTING: &[&str] = &["--trigger", "count:97:13", "--checks", "orig"];

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Two runs alone, one at each of all settings: all the same.
#[track_caller]
pub fn expect_transparent(executable: &Executable) {
    let native = run_native(executable);
    assert_ne!(native.ended, CANNOT_START, "{}", native.stderr);
    expect_same("a second run alone", &native, &run_native(executable));
    let recorded = |settings: &[&str]| {
        let what = format!("strobe record {}", settings.join(" "));
        let recorded = finish(&what, start_recorded(executable, settings));
        expect_same(&what, &native, &recorded);
        facts(&what, executable)
    };
    expect_recorded(executable, &SETTINGS.map(recorded));
    for settings in EXACT_SETTINGS {
        recorded(settings);
        let profile = store::open(&executable.beside("profile")).expect("a profile");
        let has_counts = profile.functions.iter().any(|function| function.entries.value > 0.0);
        assert!(has_counts != executable.is_static(), "{settings:?}: {:?}", profile.facts);
    }
    // A program that leaves the copies early may not get as far as to a burst.
    recorded(COUNTED_SETTING);
}

#[track_caller]
pub fn run_native(executable: &Executable) -> Outcome {
    finish("a run alone", Running::start(&executable.command_line(), &executable.beside("run"), limit()))
}

pub fn start_recorded(executable: &Executable, options: &[&str]) -> Running {
    let profile = executable.beside("profile");
    fs::remove_file(&profile).ok();
    let profile = profile.to_str().expect("a temporary folder with a UTF-8 name").to_owned();
    let options = [options, &["-o", &profile]].concat();
    start_strobe(executable, &options, &executable.command_line())
}

/// `strobe record OPTIONS -- COMMAND_LINE`.
pub fn start_strobe(executable: &Executable, options: &[&str], command_line: &[String]) -> Running {
    start_strobe_in(&[], executable, options, command_line)
}

/// The same, with a command before it that runs it in other circumstances.
pub fn start_strobe_in(around: &[&str], executable: &Executable, options: &[&str], command_line: &[String]) -> Running {
    let words = [around, &[env!("CARGO_BIN_EXE_strobe"), "record"], options, &["--"]].concat();
    let words = words.into_iter().map(str::to_owned).chain(command_line.iter().cloned());
    Running::start(&words.collect::<Vec<String>>(), &executable.beside("run"), limit())
}

#[track_caller]
pub fn finish(what: &str, running: Running) -> Outcome {
    running.wait().unwrap_or_else(|hang| panic_about_hang(what, &hang))
}

#[track_caller]
pub fn panic_about_hang(what: &str, hang: &Hang) -> ! {
    panic!("{what}: still running after {} s; killed\n{}", limit().as_secs(), hang.report)
}

fn limit() -> Duration {
    LIMIT * repetitions().max(1)
}

/// What a shell, and `env`, say of a program that the loader or the kernel refuses.
const CANNOT_START: Ended = Ended { code: 127 };

/// What the profile says of the recording. A run that agrees because strobe was not in the program
/// proves nothing.
#[track_caller]
fn facts(what: &str, executable: &Executable) -> BTreeMap<String, String> {
    let facts = store::facts(&executable.beside("profile")).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(facts["processes"] == "0", executable.is_static(), "{what}: {facts:?}");
    facts
}

/// At least one of the recordings of a program has ticks, and bursts if there are many ticks. A
/// program that blocks all signals most of the time has few, and the first recording may be over
/// before there are copies for bursts.
#[track_caller]
fn expect_recorded(executable: &Executable, recordings: &[BTreeMap<String, String>]) {
    let sum =
        |name: &str| -> f64 { recordings.iter().map(|facts| facts[name].parse::<f64>().expect("a number")).sum() };
    let n_processes = sum("processes");
    assert!(sum("ticks") > 0.0 || n_processes == 0.0 || sum("cpu_s") < LEAST_CPU_S * n_processes, "{recordings:?}");
    assert!(sum("bursts") > 0.0 || sum("ticks") < MANY_TICKS || !executable.has_bursts(), "{recordings:?}");
}

/// CPU time of a process in which there are ticks at the highest rate. Children of some
/// milliseconds can be over before they have joined.
const LEAST_CPU_S: f64 = 0.1;
const MANY_TICKS: f64 = 20.0;
