//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Whether tests whose readers are large packages run.
pub fn large_readers_wanted() -> bool {
    std::env::var_os("STROBE_CONSUMERS").is_some_and(|value| value == "1")
}

/// Runs a command that must succeed; what it wrote to standard output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = outcome(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Like [`run`], with standard error behind standard output.
#[track_caller]
pub fn run_for_all_output(command: &mut Command) -> String {
    let output = outcome(command);
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8_lossy(&all).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{all}", output.status);
    all
}

#[track_caller]
fn outcome(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run ({error}); see packages.txt"))
}

/// A file in a folder.
#[track_caller]
pub fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a writable folder");
    path
}
