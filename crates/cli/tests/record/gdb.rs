//! A debugger attaches to the recorded program, looks around, breaks it, steps it and lets it go:
//! the program finishes as if alone.

use std::process::Command;

use crate::build::Program;
use crate::compare::expect_same;
use crate::recorder::{SETTINGS, finish, panic_about_hang, run_native, start_recorded};

const SESSIONS: [&[&str]; 2] = [
    &["thread apply all backtrace", "detach"],
    &["break busy", "continue", "ignore 1 20", "continue", "stepi 50", "delete", "detach"],
];

#[test]
fn gdb_attaches() {
    let native = run_native(&Program::new("spin.c").build());
    let executable = Program::new("spin.c").flags(&["-g"]).arguments(&["held"]).build();
    for settings in SETTINGS {
        let what = format!("gdb and strobe record {}", settings.join(" "));
        let mut running = start_recorded(&executable, settings);
        let pid = running.wait_for_file("pid").unwrap_or_else(|hang| panic_about_hang(&what, &hang));
        for session in SESSIONS {
            debug(pid.trim(), session);
        }
        running.give_file("released");
        expect_same(&what, &native, &finish(&what, running));
    }
}

#[track_caller]
fn debug(pid: &str, commands: &[&str]) {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-p", pid]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.output().unwrap_or_else(|error| panic!("gdb: {error}; run `cargo xtask packages`"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("detached"), "gdb {commands:?}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
}
