//! The project's automation, in Rust so that it runs wherever the project builds.
//!
//! `cargo xtask test` is the one command that decides whether a change is good; `cargo xtask tidy` is the part of
//! it that compares the documents and the crate graph with the code.
#![forbid(unsafe_code)]

mod packages;
mod steps;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::steps::Steps;
use crate::workspace::Workspace;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test       install missing packages, then fmt, clippy, tidy and every test; stops at the first failure
  tidy       check documents against crates, crate edges, file headers and sizes
  claims     build strobe and its lab, install programs and other profilers that are missing, measure every claim
             and write report/; options and names of claims are those of `strobe-lab claims`
  packages   install the Debian packages that the tests need
  help       print this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => test(),
        ["tidy"] => tidy(),
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

fn test() -> Result<()> {
    let mut steps = Steps::new(6);
    steps.run("packages", install_packages)?;
    steps.run("fmt", || {
        steps::cargo(&["fmt", "--all", "--check"])?;
        steps::cargo(&["fmt", "--all", "--check", RUNTIME[0], RUNTIME[1]])
    })?;
    steps.run("clippy", || {
        steps::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
        steps::cargo(&[
            "clippy",
            RUNTIME[0],
            RUNTIME[1],
            "--release",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ])
    })?;
    steps.run("tidy", tidy)?;
    steps.run("test runtime", || {
        steps::cargo(&["test", RUNTIME[0], RUNTIME[1], "--workspace", "--release", "--quiet"])
    })?;
    steps.run("test", || steps::cargo(&["test", "--workspace", "--quiet"]))?;
    steps.finish();
    Ok(())
}

fn claims(options: &[&str]) -> Result<()> {
    steps::cargo(&["build", "--release", "--package", "strobe", "--package", "lab"])?;
    steps::run(steps::built("strobe-lab").args(["claims", "--install"]).args(options))
}

fn tidy() -> Result<()> {
    tidy::run(&Workspace::load()?)
}

fn install_packages() -> Result<()> {
    packages::install_missing(&workspace::root())
}
