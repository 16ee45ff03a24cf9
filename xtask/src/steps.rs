//! Runs the steps of a long command one after the other, saying which one is running and how long each took.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

pub struct Steps {
    started: Instant,
    done: usize,
    total: usize,
}

impl Steps {
    pub fn new(total: usize) -> Steps {
        Steps { started: Instant::now(), done: 0, total }
    }

    pub fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        self.done += 1;
        let label = format!("[{}/{}] {name}", self.done, self.total);
        println!("{label} ...");
        let started = Instant::now();
        let outcome = step();
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{label} {verdict} in {:.1} s", started.elapsed().as_secs_f64());
        outcome.with_context(|| format!("step `{name}`"))
    }

    pub fn finish(self) {
        println!("all {} steps ok in {:.1} s", self.done, self.started.elapsed().as_secs_f64());
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
    command.current_dir(crate::workspace::root());
    command
}

/// A program that cargo has built for release.
pub fn built(name: &str) -> Command {
    let root = crate::workspace::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let mut command = Command::new(target.join("release").join(name));
    command.current_dir(root);
    command
}

pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}
