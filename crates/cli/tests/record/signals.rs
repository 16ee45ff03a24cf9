//! Signals end, stop and continue a recorded program as they would without strobe, wherever they
//! are sent, and strobe ends as the program does.

use std::fs;
use std::time::Duration;

use crate::build::{Executable, Program};
use crate::process::{Outcome, Running, cpu_ticks, process_state, send_signal};
use crate::recorder::{finish, panic_about_hang, start_recorded, start_strobe, start_strobe_in};

const SIGNALS: [&str; 4] = ["INT", "QUIT", "TERM", "HUP"];

/// CPU time after which a program is in full swing, in clock ticks of 10 ms.
const WARM_TICKS: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Strobe,
    Program,
    Group,
}

const DESTINATIONS: [To; 3] = [To::Strobe, To::Program, To::Group];

fn n_rounds() -> u32 {
    std::env::var("STROBE_SIGNAL_ROUNDS").map_or(1, |n| n.parse().expect("a number of rounds"))
}

fn program(way: &'static str) -> Executable {
    Program::new("endings.c").arguments(&[way]).build()
}

/// The program that a process has started: its child, but for strobe's own.
fn program_of(parent: u32) -> u32 {
    let of_strobe = |pid: &u32| fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"signal-witness\n");
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("a living process");
    let mut children = children.split_whitespace().map(|pid| pid.parse().expect("a process id"));
    children.find(|pid| !of_strobe(pid)).expect("a program")
}

fn wait_until_ready(running: &mut Running) -> u32 {
    let pid = running.wait_for_file("pid").unwrap_or_else(|hang| panic_about_hang("the start", &hang));
    let pid = pid.trim().parse().expect("a process id");
    // The recorder takes a moment to notice that it has joined.
    let is_warm = |_: &mut Running| cpu_ticks(pid).is_none_or(|ticks| ticks >= WARM_TICKS);
    running.wait_until(is_warm).unwrap_or_else(|hang| panic_about_hang("the start", &hang));
    pid
}

fn send(signal: &str, running: &Running, to: To) {
    let target = match to {
        To::Strobe => running.id().to_string(),
        To::Program => program_of(running.id()).to_string(),
        To::Group => format!("-{}", running.id()),
    };
    send_signal(signal, &target);
}

/// Every signal to every destination, several recordings at a time.
fn for_each(check: impl Fn(&'static str, To) + Sync) {
    let check = &check;
    for _ in 0..n_rounds() {
        for signal in SIGNALS {
            std::thread::scope(|scope| {
                for to in DESTINATIONS {
                    scope.spawn(move || check(signal, to));
                }
            });
        }
    }
}

fn expect_profile(what: &str, executable: &Executable, outcome: &Outcome) {
    assert!(outcome.stderr.contains("strobe itself"), "{what}: a summary: {}", outcome.stderr);
    let facts = store::facts(&executable.beside("profile")).expect("a profile");
    assert_eq!(facts["processes"], "1", "{what}: {}", outcome.stderr);
    // It has used CPU time for twenty of them.
    assert_ne!(facts["ticks"], "0", "{what}: {}", outcome.stderr);
}

#[test]
fn who_dies_of_a_signal() {
    for_each(|signal, to| {
        let what = format!("SIG{signal} to {to:?}");
        let executable = program("dies");
        let mut running = start_recorded(&executable, &["--no-cache"]);
        wait_until_ready(&mut running);
        send(signal, &running, to);
        let outcome = finish(&what, running);
        let number = SIGNALS.iter().position(|&name| name == signal).map(|index| [2, 3, 15, 1][index]);
        assert_eq!(outcome.signal, number, "{what}: {}", outcome.stderr);
        expect_profile(&what, &executable, &outcome);
    });
}

#[test]
fn who_exits_with_a_code_of_its_own() {
    for_each(|signal, to| {
        let what = format!("SIG{signal} to {to:?}");
        let executable = program("exits");
        let mut running = start_recorded(&executable, &["--no-cache"]);
        wait_until_ready(&mut running);
        send(signal, &running, to);
        let outcome = finish(&what, running);
        assert_eq!((outcome.ended.code, outcome.signal), (42, None), "{what}: {}", outcome.stderr);
        expect_profile(&what, &executable, &outcome);
    });
}

/// It gets each of them once.
#[test]
fn who_goes_on() {
    for_each(|signal, to| {
        let what = format!("SIG{signal} to {to:?}");
        let executable = program("goes-on");
        let mut running = start_recorded(&executable, &["--no-cache"]);
        let program = wait_until_ready(&mut running);
        send(signal, &running, to);
        running.wait_for_file("caught").unwrap_or_else(|hang| panic_about_hang(&what, &hang));
        // What strobe would have sent on top comes soon if it comes.
        let later = cpu_ticks(program).map(|ticks| ticks + 10);
        running.wait_until(|_| cpu_ticks(program) >= later).unwrap_or_else(|hang| panic_about_hang(&what, &hang));
        running.give_file("released");
        let outcome = finish(&what, running);
        assert_eq!((outcome.ended.code, outcome.signal), (3, None), "{what}: {}", outcome.stderr);
        assert_eq!(outcome.files["caught"], b"1\n", "{what}");
        expect_profile(&what, &executable, &outcome);
    });
}

/// A script that runs a program in the foreground ends under strobe as it does without. A shell by
/// itself stands where strobe does.
#[test]
fn a_script_that_runs_a_program() {
    const SCRIPT: &str = "\"$@\"; echo done; exit 9";
    let command = |way: &'static str| {
        let executable = program(way);
        let script = ["sh", "-c", SCRIPT, "sh"].map(str::to_owned);
        let command: Vec<String> = script.into_iter().chain(executable.command_line()).collect();
        (executable, command)
    };
    for_each(|signal, to| {
        // By itself, a shell keeps these to itself for as long as its program runs.
        if to != To::Group && ["INT", "QUIT"].contains(&signal) {
            return;
        }
        let what = format!("SIG{signal} to {to:?}");
        let (executable, words) = command("dies");
        let limit = Duration::from_secs(60);
        let mut alone = Running::start(&words, &executable.beside("alone"), limit);
        wait_until_ready(&mut alone);
        let group = alone.id();
        send_signal(signal, &if to == To::Group { format!("-{group}") } else { group.to_string() });
        let expected = finish(&what, alone);
        send_signal("KILL", &format!("-{group}"));

        let (executable, words) = command("dies");
        let profile = executable.beside("profile").display().to_string();
        let mut running = start_strobe(&executable, &["--no-cache", "-o", &profile], &words);
        wait_until_ready(&mut running);
        let group = running.id();
        send(signal, &running, to);
        let outcome = finish(&what, running);
        send_signal("KILL", &format!("-{group}"));
        assert_eq!((outcome.ended, outcome.signal), (expected.ended, expected.signal), "{what}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, expected.stdout, "{what}");
    });
}

/// strobe stops when the program does, and goes on when both are told to; alone, it passes both on.
#[test]
fn stopped_and_continued() {
    for to in DESTINATIONS {
        let executable = program("goes-on");
        let mut running = start_recorded(&executable, &["--no-cache"]);
        let pids = [wait_until_ready(&mut running), running.id()];
        let wait_for_state = |running: &mut Running, is_stopped: bool| {
            let is_so = |pid: &u32| process_state(*pid).is_some_and(|state| (state == "T") == is_stopped);
            let waited = running.wait_until(|_| pids.iter().all(is_so));
            waited.unwrap_or_else(|hang| panic_about_hang(&format!("{to:?} stopped: {is_stopped}"), &hang));
        };
        for _ in 0..3 {
            send("TSTP", &running, to);
            wait_for_state(&mut running, true);
            // A shell continues the whole group.
            send("CONT", &running, if to == To::Program { To::Group } else { to });
            wait_for_state(&mut running, false);
        }
        running.give_file("released");
        let outcome = finish("a program that was stopped", running);
        assert_eq!(outcome.ended.code, 3, "{}", outcome.stderr);
    }
}

/// What whoever starts strobe has ignored is ignored by both: `nohup` works.
#[test]
fn ignored_on_entry() {
    let executable = program("dies");
    let profile = executable.beside("profile").display().to_string();
    let script = "trap '' HUP; exec \"$@\"";
    let around = ["sh", "-c", script, "sh"];
    let words = [executable.command_line()[0].as_str(), "1", "keeps"].map(str::to_owned);
    let options = ["--no-cache", "-o", profile.as_str()];
    let mut running = start_strobe_in(&around, &executable, &options, &words);
    let pid = wait_until_ready(&mut running);
    for to in DESTINATIONS {
        send("HUP", &running, to);
    }
    let later = cpu_ticks(pid).map(|ticks| ticks + 10);
    running.wait_until(|_| cpu_ticks(pid) >= later).unwrap_or_else(|hang| panic_about_hang("nohup", &hang));
    running.give_file("released");
    let outcome = finish("nohup", running);
    assert_eq!(outcome.ended.code, 3, "{}", outcome.stderr);
}

/// On a terminal, both get what Ctrl-C and Ctrl-\ send, and the program gets it once.
#[test]
fn keys_of_a_terminal() {
    const SCRIPT: &str = r#"wait_for() { until [ -e "$1" ]; do sleep 0.05; done; }
        { wait_for pid; printf "$2"; [ "$1" != goes-on ] || { wait_for caught; sleep 0.3; touch released; }; wait_for over; } |
        { script -qec "exec $3" /dev/null; echo $? >code; touch over; }"#;
    for (key, number) in [("\\003", 2), ("\\034", 3)] {
        for (way, code) in [("dies", 128 + number), ("exits", 42), ("goes-on", 3)] {
            let executable = program(way);
            let profile = executable.beside("profile").display().to_string();
            let strobe = [env!("CARGO_BIN_EXE_strobe"), "record", "--no-cache", "-o", &profile, "--"].join(" ");
            let line = format!("{strobe} {}", executable.command_line().join(" "));
            let words = ["sh", "-c", SCRIPT, "sh", way, key, &line].map(str::to_owned);
            let running = Running::start(&words, &executable.beside("run"), Duration::from_secs(60));
            let outcome = finish(way, running);
            let screen = String::from_utf8_lossy(&outcome.stdout);
            assert_eq!(outcome.files["code"], format!("{code}\n").as_bytes(), "{way}: {screen}");
            assert!(screen.contains("strobe itself"), "{way}: {screen}");
            if way == "goes-on" {
                assert_eq!(outcome.files["caught"], b"1\n");
            }
        }
    }
}
