//! Runs the steps of a long command one after the other, saying which one is running and how long
//! each took.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::paths;

pub struct Steps {
    started: Instant,
    /// Names and durations of those that are done.
    done: Vec<(&'static str, Duration)>,
    total: usize,
}

impl Steps {
    pub fn new(total: usize) -> Steps {
        Steps { started: Instant::now(), done: Vec::new(), total }
    }

    pub fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        let label = format!("[{}/{}] {name}", self.done.len() + 1, self.total);
        println!("{label} ...");
        let started = Instant::now();
        let outcome = step();
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{label} {verdict} in {:.1} s", started.elapsed().as_secs_f64());
        self.done.push((name, started.elapsed()));
        outcome.with_context(|| format!("step `{name}`"))
    }

    pub fn finish(self) {
        for (name, elapsed) in &self.done {
            println!("{:>8.1} s  {name}", elapsed.as_secs_f64());
        }
        println!("all {} steps ok in {:.1} s", self.done.len(), self.started.elapsed().as_secs_f64());
    }
}

/// Runs cargo in the workspace root with the terminal attached.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    let mut command = cargo_command();
    command.args(arguments);
    run(&mut command)
}

/// The cargo that started this program, so that a toolchain chosen with `+name` stays chosen.
pub fn cargo_command() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(paths::root());
    command
}

/// A program that cargo has built for release.
pub fn built(name: &str) -> Command {
    let mut command = Command::new(paths::target_folder().join("release").join(name));
    command.current_dir(paths::root());
    command
}

/// strobe, built if need be.
pub fn strobe() -> Command {
    let mut command = cargo_command();
    command.args(["run", "--quiet", "--package", "strobe", "--"]);
    command
}

/// strobe as it was built for the tests.
pub fn strobe_of_tests() -> Command {
    Command::new(paths::target_folder().join("debug/strobe"))
}

pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}
