//! Tools that tests need.

use std::process::Command;

/// Runs one, which must succeed.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    let status = status.unwrap_or_else(|error| panic!("{program}: {error}; run `cargo xtask packages`"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}
