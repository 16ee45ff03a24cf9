//! The project's automation, in Rust so that it runs wherever the project builds.
//!
//! `cargo xtask test` is the one command that decides whether a change is good; `cargo xtask tidy`
//! is the part of it that compares the documents and the crate graph with the code.
#![forbid(unsafe_code)]

mod packages;
mod paths;
mod steps;
mod suites;
mod tidy;
mod workspace;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::steps::Steps;
use crate::suites::Suites;
use crate::workspace::Workspace;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test       install missing packages, then fmt, clippy, tidy and every test, and say what took how long; stops at
             the first step that fails. Damage to copies, and copies of large programs, are tried as a sample, another one in
             each run: STROBE_TEST_SEED=N repeats that of an earlier run
  test --full
             the same, with all of them
  tidy       check documents against the program and against each other, crate edges, purity, versions, file headers
             and sizes, words of the glossary, figures of the README, and the width of Markdown and comments
  tidy --wrap
             wrap over-long lines of comments and of Markdown at 100 columns, in place
  claims     build strobe and its lab, install programs and other profilers that are missing, measure every claim
             and write report/; options and names of claims are those of `strobe-lab claims`
  packages   install the Debian packages that the tests need
  help       print this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => test(false),
        ["test", "--full"] => test(true),
        ["tidy"] => tidy(),
        ["tidy", "--wrap"] => wrap(),
        ["claims", ref options @ ..] => claims(options),
        ["packages"] => install_packages(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The runtime is a workspace of its own.
const RUNTIME: [&str; 2] = ["--manifest-path", "crates/runtime/Cargo.toml"];

fn test(is_full: bool) -> Result<()> {
    let seed = seed();
    let mut variables = vec![("STROBE_TEST_SEED", seed.clone().into())];
    if is_full {
        variables.push(("STROBE_TEST_FULL", "1".into()));
    } else {
        println!("STROBE_TEST_SEED={seed} chooses what is sampled; --full tries everything");
    }
    let mut steps = Steps::new(6);
    steps.run("packages", install_packages)?;
    steps.run("fmt", || {
        steps::cargo(&["fmt", "--all", "--check"])?;
        steps::cargo(&["fmt", "--all", "--check", RUNTIME[0], RUNTIME[1]])
    })?;
    // Shared with the script that builds `strobe`, so that the runtime is compiled once.
    let runtime_target = paths::target_folder().join("runtime").display().to_string();
    let place = [RUNTIME[0], RUNTIME[1], "--target-dir", &runtime_target];
    steps.run("clippy runtime", || {
        steps::cargo(&[&["clippy", "--release", "--quiet"], &place[..], &["--", "-D", "warnings"]].concat())
    })?;
    let mut suites = Suites::default();
    steps.run("clippy and build", || {
        suites.build(&["--workspace"])?;
        suites.build(&[&place[..], &["--package", "strobe-runtime-tests"]].concat())
    })?;
    steps.run("tidy", || tidy::run(&Workspace::load()?, steps::strobe_of_tests))?;
    steps.run("test", || suites.run(&variables))?;
    steps.finish();
    Ok(())
}

/// What the environment says, or a new one for each second.
fn seed() -> String {
    std::env::var("STROBE_TEST_SEED").unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().to_string()
    })
}

fn claims(options: &[&str]) -> Result<()> {
    steps::cargo(&["build", "--release", "--package", "strobe", "--package", "lab"])?;
    steps::run(steps::built("strobe-lab").args(["claims", "--install"]).args(options))
}

fn tidy() -> Result<()> {
    tidy::run(&Workspace::load()?, steps::strobe)
}

fn wrap() -> Result<()> {
    tidy::wrap(&Workspace::load()?)
}

fn install_packages() -> Result<()> {
    packages::install_missing(&paths::root())
}
