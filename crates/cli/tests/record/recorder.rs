//! Ways to run a program: alone, and under `strobe record` at the settings that every program must survive.

use std::fs;
use std::time::Duration;

use crate::build::{Executable, repetitions};
use crate::compare::expect_same;
use crate::process::{Hang, Outcome, Running};

/// Options of `strobe record`: the defaults, long bursts that note values at a high rate, and short ones at the highest.
pub const SETTINGS: [&[&str]; 3] =
    [&[], &["--rate", "2000", "--burst", "10000", "--values"], &["--rate", "4000", "--burst", "64"]];

/// The same for exact mode.
const EXACT_SETTINGS: [&[&str]; 2] = [&["--exact"], &["--exact=blocks", "--values"]];

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Two runs alone, one at each of all settings: all the same.
#[track_caller]
pub fn expect_transparent(executable: &Executable) {
    let native = run_native(executable);
    expect_same("a second run alone", &native, &run_native(executable));
    for settings in SETTINGS.into_iter().chain(EXACT_SETTINGS) {
        let what = format!("strobe record {}", settings.join(" "));
        let recorded = finish(&what, start_recorded(executable, settings));
        expect_same(&what, &native, &recorded);
        expect_profile(&what, executable, &recorded);
    }
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
    let strobe = replacement().unwrap_or_else(|| env!("CARGO_BIN_EXE_strobe").to_owned());
    let words = [around, &[strobe.as_str(), "record"], options, &["--"]].concat();
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

/// What is tested instead of strobe, if anything.
pub fn replacement() -> Option<String> {
    std::env::var("STROBE_RECORD_BIN").ok()
}

/// For tests of what strobe itself does, which a replacement cannot do.
pub fn is_replaced() -> bool {
    let is_replaced = replacement().is_some();
    if is_replaced {
        eprintln!("not tested: STROBE_RECORD_BIN is set");
    }
    is_replaced
}

fn limit() -> Duration {
    LIMIT * repetitions().max(1)
}

/// A run that agrees because nothing was recorded proves nothing.
#[track_caller]
fn expect_profile(what: &str, executable: &Executable, recorded: &Outcome) {
    if replacement().is_none() {
        let length = fs::metadata(executable.beside("profile")).map_or(0, |metadata| metadata.len());
        assert!(length > 0, "{what}: no profile\n{}", recorded.stderr);
    }
}
