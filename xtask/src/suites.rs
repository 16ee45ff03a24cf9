//! Builds all tests, with clippy as the compiler, and runs them.
//!
//! Clippy is the compiler with more lints. If it is what cargo compiles the members with, they are
//! checked as they are built for the tests, and what they depend on is compiled once, not a second
//! time for its metadata alone. Test programs are started from here rather than by cargo, which
//! runs one after the other: those that start other programs and wait for them go first, in one
//! lane; those that only compute fill the gaps, in another lane of less priority.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{paths, steps};

/// Crates whose tests watch other programs, and must not themselves be what keeps those from
/// running.
const WATCHING: [&str; 4] = ["attach", "cli", "tests", "lab"];

/// How the slowest suites are listed.
const N_SLOWEST: usize = 8;

/// A test program.
#[derive(Debug)]
struct Suite {
    /// Crate and target.
    name: String,
    folder: PathBuf,
    program: PathBuf,
}

/// How a suite ended.
#[derive(Debug)]
struct Outcome {
    name: String,
    is_ok: bool,
    elapsed: Duration,
    summary: String,
}

/// What cargo says of something that it built.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The test programs of a workspace.
#[derive(Debug, Default)]
pub struct Suites(Vec<Suite>);

impl Suites {
    /// Builds what `cargo test` with these arguments would run, and its benchmarks and examples; a
    /// lint is an error.
    pub fn build(&mut self, arguments: &[&str]) -> Result<()> {
        let mut cargo = steps::cargo_command();
        cargo.args(["test", "--no-run", "--all-targets", "--message-format=json-render-diagnostics"]);
        cargo.args(arguments).stderr(Stdio::inherit());
        // What `cargo clippy -- -D warnings` sets.
        cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver());
        cargo.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        let output = cargo.output().context("cargo test --no-run")?;
        if !output.status.success() {
            bail!("cargo test --no-run {}: {}", arguments.join(" "), output.status);
        }
        let found = suites_in(&String::from_utf8(output.stdout).context("cargo test --no-run")?)?;
        if found.is_empty() {
            bail!("cargo test --no-run {}: no tests", arguments.join(" "));
        }
        self.0.extend(found);
        Ok(())
    }

    /// Runs them all, whatever fails, with these variables set; what failed is printed as soon as
    /// it has.
    pub fn run(self, variables: &[(&str, OsString)]) -> Result<()> {
        let logs = paths::target_folder().join("test-logs");
        fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
        let (watching, computing): (Vec<Suite>, Vec<Suite>) = self.0.into_iter().partition(Suite::watches);
        let outcomes = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (lane, niceness) in [(watching, "0"), (computing, "10")] {
                let (outcomes, logs) = (&outcomes, &logs);
                scope.spawn(move || {
                    for suite in lane {
                        let outcome = suite.run(niceness, variables, logs);
                        outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(outcome);
                    }
                });
            }
        });
        let outcomes = outcomes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        finish(outcomes.into_iter().collect::<Result<Vec<Outcome>>>()?)
    }
}

/// The slowest first, then what failed.
fn finish(mut outcomes: Vec<Outcome>) -> Result<()> {
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.elapsed));
    println!("the slowest of {} suites:", outcomes.len());
    for outcome in outcomes.iter().take(N_SLOWEST) {
        println!("{:>8.1} s  {:<24} {}", outcome.elapsed.as_secs_f64(), outcome.name, outcome.summary);
    }
    let failed: Vec<&str> = outcomes.iter().filter(|outcome| !outcome.is_ok).map(|o| o.name.as_str()).collect();
    if !failed.is_empty() {
        bail!("{} of {} suites failed: {}", failed.len(), outcomes.len(), failed.join(", "));
    }
    Ok(())
}

impl Suite {
    fn watches(&self) -> bool {
        let name = self.folder.file_name().unwrap_or_default();
        WATCHING.iter().any(|watching| name == *watching)
    }

    fn run(&self, niceness: &str, variables: &[(&str, OsString)], logs: &Path) -> Result<Outcome> {
        let log = logs.join(format!("{}.log", self.name.replace([':', ' '], "-")));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new("nice");
        command.args(["-n", niceness]).arg(&self.program).arg("--quiet").current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let started = Instant::now();
        let status = command.status().with_context(|| format!("cannot start {}", self.program.display()))?;
        let elapsed = started.elapsed();
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if !status.success() {
            println!("{text}\n{} FAILED: {status}; its output is also in {}", self.name, log.display());
        }
        let summary = text.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("no summary");
        let summary = summary.split(';').next().unwrap_or_default().to_owned();
        println!("{:>8.1} s  {}: {summary}", elapsed.as_secs_f64(), self.name);
        Ok(Outcome { name: self.name.clone(), is_ok: status.success(), elapsed, summary })
    }
}

/// The clippy of the toolchain whose cargo this is.
fn clippy_driver() -> OsString {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"));
    beside.filter(|driver| driver.exists()).map_or_else(|| "clippy-driver".into(), PathBuf::into_os_string)
}

fn suites_in(messages: &str) -> Result<Vec<Suite>> {
    let mut suites = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("a message of cargo")?;
        let Message { manifest_path: Some(manifest), target: Some(target), profile: Some(profile), executable } =
            message
        else {
            continue;
        };
        let is_run = profile.test && !target.kind.iter().any(|kind| matches!(kind.as_str(), "bench" | "example"));
        if let (true, Some(program)) = (is_run, executable) {
            let folder = manifest.parent().context("a manifest without a folder")?.to_path_buf();
            let of = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            suites.push(Suite { name: format!("{of}: {}", target.name), folder, program });
        }
    }
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","manifest_path":"/x/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"record"},"profile":{"test":true},"executable":"/x/t/record-1"}
{"reason":"compiler-artifact","manifest_path":"/x/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"strobe"},"profile":{"test":false},"executable":"/x/t/strobe"}
{"reason":"compiler-artifact","manifest_path":"/x/crates/emit/Cargo.toml","target":{"kind":["lib"],"name":"emit"},"profile":{"test":true},"executable":"/x/t/emit-1"}
{"reason":"compiler-artifact","manifest_path":"/x/crates/profile/Cargo.toml","target":{"kind":["bench"],"name":"builder"},"profile":{"test":true},"executable":"/x/t/builder-1"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn tests_are_found_in_messages() {
        let suites = suites_in(MESSAGES).unwrap();
        let names: Vec<(&str, bool)> = suites.iter().map(|suite| (suite.name.as_str(), suite.watches())).collect();
        assert_eq!(names, [("cli: record", true), ("emit: emit", false)]);
        assert_eq!(suites[1].folder, Path::new("/x/crates/emit"));
    }

    #[test]
    fn one_failure_fails_all() {
        let outcome = |name: &str, is_ok| Outcome {
            name: name.to_owned(),
            is_ok,
            elapsed: Duration::from_secs(1),
            summary: String::new(),
        };
        assert!(finish(vec![outcome("a", true), outcome("b", true)]).is_ok());
        let error = finish(vec![outcome("a", true), outcome("b", false)]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 suites failed: b");
    }

    #[test]
    fn what_a_suite_prints_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("suite");
        fs::write(
            &program,
            "#!/bin/sh\necho \"seed $SEED in $PWD\"\necho 'test result: ok. 3 passed; 0 failed'\nexit $CODE\n",
        )
        .unwrap();
        Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        let suite = Suite { name: "a: b".to_owned(), folder: folder.path().to_owned(), program };
        for (code, is_ok) in [("0", true), ("101", false)] {
            let variables = [("SEED", "7".into()), ("CODE", code.into())];
            let outcome = suite.run("10", &variables, folder.path()).unwrap();
            assert_eq!((outcome.is_ok, outcome.summary.as_str()), (is_ok, "ok. 3 passed"));
            let log = fs::read_to_string(folder.path().join("a--b.log")).unwrap();
            assert!(log.starts_with(&format!("seed 7 in {}", folder.path().display())), "{log}");
        }
    }
}
