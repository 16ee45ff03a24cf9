//! Things go wrong around a recording: either side is killed, output cannot be written, there is
//! nothing to run. The answer is a clear message or no effect, never a hang.

use std::fs;

use crate::build::{Executable, Program};
use crate::compare::expect_same;
use crate::full_trace;
use crate::process::{Ended, Outcome, Running, cpu_ticks, send_signal};
use crate::recorder::{finish, panic_about_hang, run_native, start_recorded, start_strobe, start_strobe_in};

/// CPU time after which a program is in full swing, in clock ticks of 10 ms.
const WARM_TICKS: u64 = 20;

#[test]
fn agent_killed() {
    expect_survival(&["--rate", "2000"]);
}

/// Threads stay in the copies, and go on natively when they have waited in vain for one.
#[test]
fn agent_killed_in_exact_mode() {
    expect_survival(&["--exact"]);
}

/// What was written until then can be read; the order of each thread is whole up to there.
#[test]
fn agent_killed_while_it_writes_a_trace() {
    let executable = expect_survival(&["--exact=trace"]);
    let text = full_trace::dump(&executable, &["--limit", "1000"]);
    assert!(text.contains("unfinished") && text.lines().any(|line| line.contains("blocks=0x")), "{text}");
}

#[test]
fn agent_killed_with_a_counted_trigger() {
    expect_survival(&["--trigger", "count:2000:200"]);
}

/// Bursts that were read are written while the program runs, as those that ticks start.
#[test]
fn bursts_of_a_counted_trigger_outlive_the_agent() {
    let (executable, running, target) = start_until_bursts(&["--trigger", "count:20000:200", "--keep-trace"]);
    send_signal("KILL", &running.id().to_string());
    finish("strobe that is killed", running);
    send_signal("KILL", &target.to_string());
    let path = executable.beside("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.blocks.iter().any(|block| block.count.seen > 0), "{:?}", profile.facts);
    assert_eq!(profile.facts["trigger"], "count:20000:200");
    assert!(store::count(&path, "SELECT sum(samples) FROM trace").expect("a number") > 0);
}

/// The program computes the same if strobe is killed.
#[track_caller]
fn expect_survival(options: &[&str]) -> Executable {
    let executable = Program::new("spin.c").build();
    let native = run_native(&executable);
    let (mut running, target) = start_and_warm_up(&executable, options);
    assert_ne!(target, running.id(), "the program runs beside strobe");
    if options == ["--exact=trace"] {
        let has_records = |_: &mut Running| full_trace::dump(&executable, &["--limit", "1"]).contains("blocks=0x");
        running.wait_until(has_records).unwrap_or_else(|hang| panic_about_hang("the first records", &hang));
    }
    send_signal("KILL", &running.id().to_string());
    let result = running.wait_for_file("result").unwrap_or_else(|hang| panic_about_hang("the orphan", &hang));
    assert_eq!(result.as_bytes(), native.files["result"]);
    running.wait_until(|_| cpu_ticks(target).is_none()).unwrap_or_else(|hang| panic_about_hang("the orphan", &hang));
    executable
}

#[test]
fn target_killed() {
    let (executable, running, target) = start_until_bursts(&["--rate", "2000"]);
    send_signal("KILL", &target.to_string());
    let outcome = finish("strobe without its target", running);
    assert_eq!(outcome.ended, Ended::by_signal(9), "{}", outcome.stderr);
    expect_whole_profile(&executable, target);
}

#[test]
fn interrupted_from_the_terminal() {
    let (executable, running, target) = start_until_bursts(&["--rate", "2000"]);
    send_signal("INT", &format!("-{}", running.id()));
    let outcome = finish("strobe after Ctrl-C", running);
    assert_eq!(outcome.ended, Ended::by_signal(2), "{}", outcome.stderr);
    expect_whole_profile(&executable, target);
}

/// The program gets the signal, too.
#[test]
fn terminated() {
    let (executable, running, target) = start_until_bursts(&["--rate", "2000"]);
    send_signal("TERM", &running.id().to_string());
    let outcome = finish("strobe after SIGTERM", running);
    assert_eq!(outcome.ended, Ended::by_signal(15), "{}", outcome.stderr);
    expect_whole_profile(&executable, target);
}

/// The program has ended, and what ran until then is in the profile.
#[track_caller]
fn expect_whole_profile(executable: &Executable, target: u32) {
    assert_eq!(cpu_ticks(target), None, "the program has ended");
    let path = executable.beside("profile");
    let facts = store::facts(&path).expect("a profile up to the end");
    // Only the end says how it ended, and for how many processes.
    assert!(facts.contains_key("ended") && facts["processes"] == "1", "{facts:?}");
    let profile = store::open(&path).expect("a profile up to the end");
    let ticks: u64 = profile.ticks.values().sum();
    assert!(ticks > 0 && facts["ticks"] == ticks.to_string(), "{ticks} ticks in {facts:?}");
    assert!(n_bursts(executable) > 0, "{facts:?}");
    let of_program =
        |function: &profile::model::Function| profile.modules[function.module.index()].path.ends_with("/program");
    let mut own = profile.blocks.iter().filter(|block| of_program(&profile.functions[block.function.index()]));
    assert!(own.any(|block| block.count.seen > 0), "{facts:?}");
}

#[test]
fn no_such_program() {
    let executable = Program::new("spin.c").build();
    for program in ["/no/such/program", "no-such-program", "/etc/passwd", "/"] {
        let running = start_strobe(&executable, &[], &[program.to_owned()]);
        expect_refusal(program, &finish(program, running));
    }
}

/// The output file is opened before the program starts.
#[test]
fn unwritable_output() {
    let executable = Program::new("spin.c").build();
    for file in ["/no/such/folder/profile", "/"] {
        let running = start_strobe(&executable, &["-o", file], &executable.command_line());
        let outcome = finish(file, running);
        expect_refusal(file, &outcome);
        assert!(outcome.files.is_empty(), "the program ran: {:?}", outcome.files.keys());
    }
}

/// Nothing can be written there, which strobe says before the program starts.
#[test]
fn full_disk() {
    let executable = Program::new("signals.c").build();
    let running = start_strobe(&executable, &["-o", "/dev/full"], &executable.command_line());
    let recorded = finish("strobe on a full disk", running);
    expect_refusal("/dev/full", &recorded);
    assert!(recorded.stdout.is_empty() && recorded.files.is_empty(), "the program ran: {recorded:?}");
}

/// A file system of 256 KB is full long before the program ends, which it does as if alone; strobe
/// says what is missing.
#[test]
fn disk_fills_up() {
    const MOUNT: &str = r#"mount -t tmpfs -o size=256k none "$1" && shift && exec "$@""#;
    let executable = Program::new("signals.c").build();
    let native = run_native(&executable);
    let folder = executable.beside("small");
    fs::create_dir_all(&folder).expect("a writable folder");
    let folder = folder.to_str().expect("a temporary folder with a UTF-8 name");
    let around = ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, "sh", folder];
    let profile = format!("{folder}/profile");
    let options = ["--rate", "2000", "--keep-trace", "-o", &profile];
    let recorded =
        finish("strobe on a small disk", start_strobe_in(&around, &executable, &options, &executable.command_line()));
    assert!(recorded.stderr.contains(&profile) && recorded.stderr.contains("full"), "{}", recorded.stderr);
    expect_same("strobe on a small disk", &native, &recorded);
}

#[track_caller]
fn expect_refusal(what: &str, outcome: &Outcome) {
    assert_ne!(outcome.ended.code, 0, "{what}: {}", outcome.stderr);
    assert!(outcome.ended.code < 128, "{what}: code {}: {}", outcome.ended.code, outcome.stderr);
    assert!(outcome.stderr.contains(what), "{what} is not named: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{what}: {}", outcome.stderr);
}

/// The recorder and the id of the program under it, which has run for some time.
#[track_caller]
fn start_and_warm_up(executable: &Executable, options: &[&str]) -> (Running, u32) {
    let mut running = start_recorded(executable, options);
    let pid = running.wait_for_file("pid").unwrap_or_else(|hang| panic_about_hang("the start", &hang));
    let target: u32 = pid.trim().parse().expect("a process id");
    let is_warm = |_: &mut Running| cpu_ticks(target).is_none_or(|ticks| ticks >= WARM_TICKS);
    running.wait_until(is_warm).unwrap_or_else(|hang| panic_about_hang("the start", &hang));
    (running, target)
}

/// The recorder of a program that runs until it is told to end, and that program's id. There are
/// bursts of it in the profile already.
#[track_caller]
fn start_until_bursts(options: &[&str]) -> (Executable, Running, u32) {
    let executable = Program::new("spin.c").arguments(&["held"]).build();
    let mut running = start_recorded(&executable, options);
    let pid = running.wait_for_file("pid").unwrap_or_else(|hang| panic_about_hang("the start", &hang));
    let has_bursts = |_: &mut Running| n_bursts(&executable) > 0;
    running.wait_until(has_bursts).unwrap_or_else(|hang| panic_about_hang("the first bursts", &hang));
    (executable, running, pid.trim().parse().expect("a process id"))
}

/// Bursts in the profile, which may be under way.
fn n_bursts(executable: &Executable) -> u64 {
    let facts = store::facts(&executable.beside("profile")).unwrap_or_default();
    facts.get("bursts").map_or(0, |number| number.parse().expect("a number"))
}

/// An earlier profile is worth more than the record of a misspelt name.
#[test]
fn nothing_to_run() {
    let executable = Program::new("planted.c").build();
    finish("a short program", start_recorded(&executable, &[]));
    let profile = executable.beside("profile");
    let before = fs::read(&profile).expect("a profile");
    let output = profile.to_str().expect("a temporary folder with a UTF-8 name");
    let not_executable = executable.beside("text");
    fs::write(&not_executable, "text").expect("a writable folder");
    for command in ["/does/not/exist", not_executable.to_str().expect("a temporary folder with a UTF-8 name")] {
        let running = start_strobe(&executable, &["-o", output], &[command.to_owned()]);
        let outcome = finish(command, running);
        assert_eq!(outcome.ended, Ended { code: 1 }, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(command), "{}", outcome.stderr);
        assert!(fs::read(&profile).expect("a profile") == before, "{command}: the earlier profile is gone");
    }
}
