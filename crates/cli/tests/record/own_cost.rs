//! What strobe says that it took itself is what the system says.

use std::time::Duration;

use crate::build::{Executable, Program};
use crate::process::Running;
use crate::recorder::finish;

/// Runs a command after some work of its own, in the place of the same process if wanted. What both
/// took goes to one file, that work alone to another.
const TIMED: &str = r#"TIMEFORMAT='%3U %3S'
time bash -c 'for ((i = 0; i < $0; i++)); do :; done; times > "$OWN"; exec "$@"' "$@" 2> err
"#;

fn seconds(text: &str) -> f64 {
    // As `times` has it: 0m0.123s.
    let text = text.trim_end_matches('s');
    let (minutes, seconds) = text.split_once('m').unwrap_or(("0", text));
    60.0 * minutes.parse::<f64>().expect("minutes") + seconds.parse::<f64>().expect("seconds")
}

/// CPU seconds of strobe, by its own account and by that of the system.
fn own_cpu(executable: &Executable, work: u32, options: &[&str]) -> [f64; 2] {
    let profile = executable.beside("profile").display().to_string();
    let work = work.to_string();
    let fixed =
        ["env", "OWN=own", "bash", "-c", TIMED, "bash", &work, env!("CARGO_BIN_EXE_strobe"), "record", "-o", &profile];
    let words =
        fixed.iter().chain(options).chain(&["--"]).map(|&word| word.to_owned()).chain(executable.command_line());
    let running = Running::start(&words.collect::<Vec<_>>(), &executable.beside("run"), Duration::from_secs(120));
    let outcome = finish("a timed recording", running);
    let facts = store::facts(&executable.beside("profile")).expect("a profile");
    let number = |name: &str| facts[name].parse::<f64>().expect("a number");
    let all: f64 = outcome.stderr.split_whitespace().rev().take(2).map(seconds).sum();
    let own = String::from_utf8_lossy(&outcome.files["own"]).into_owned();
    let before: f64 = own.split_whitespace().take(2).map(seconds).sum();
    let kernel = all - before - number("user_s") - number("system_s");
    println!("{options:?}: {} by strobe, {kernel} by the kernel, {before} before", facts["agent_cpu_s"]);
    [number("agent_cpu_s"), kernel]
}

/// What went before in the same process is not strobe's, and what comes after the program is.
#[test]
fn own_time_is_that_of_the_kernel() {
    let executable = Program::new("spin.c").build();
    for (work, options) in [(0, &["--no-cache"][..]), (300_000, &[]), (300_000, &["--exact"])] {
        let [told, kernel] = own_cpu(&executable, work, options);
        assert!((told - kernel).abs() <= (0.05 * kernel).max(0.06), "{options:?}: {told}, but {kernel}");
    }
}
