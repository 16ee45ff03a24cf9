//! What the tests of the runtime share: building it and small C programs, running them natively and
//! under the runtime, and an [`agent`] that plays the other side.
//!
//! They are a package of their own because the runtime cannot be linked into a test: it has no
//! standard library, and aborts on panics.

pub mod agent;
pub mod copy;
pub mod maps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use agent::{Agent, Settings};

/// The built runtime.
pub fn runtime() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        // Where `strobe` has its own built, so that it is the same one.
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from).join("runtime");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--release", "--quiet", "--manifest-path"]).arg(manifest).arg("--target-dir").arg(&target);
        // Settings of the outer cargo are not for the inner one.
        for inherited in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
            build.env_remove(inherited);
        }
        let status = build.status().expect("cargo runs");
        assert!(status.success(), "the runtime does not build");
        target.join("release/libstrobe_runtime.so")
    })
}

/// Directory for compiled programs, one for each test process.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().expect("a temporary directory")).path()
}

/// Compiles `programs/<name>.c`, with these further options, once.
pub fn compile(name: &str, options: &[&str]) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(format!("{name}.c"));
    let file_name: String = std::iter::once(name).chain(options.iter().copied()).collect::<Vec<_>>().join("_");
    let output = directory().join(file_name.replace(['/', ' '], "_"));
    if compiled.contains(&output) {
        return output;
    }
    let status = Command::new("gcc")
        .args(["-O1", "-g", "-w", "-D_GNU_SOURCE", "-pthread", "-rdynamic", "-o"])
        .arg(&output)
        .arg(&source)
        .args(options)
        .arg("-ldl")
        .status()
        .expect("gcc is needed: install the package gcc");
    assert!(status.success(), "{} does not compile", source.display());
    compiled.insert(output.clone());
    output
}

/// Runs `program` without strobe.
pub fn run_natively(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Runs `program` with the runtime, in the session of `agent`.
pub fn run_under(agent: &Agent, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.env("LD_PRELOAD", runtime()).env("STROBE_SESSION", agent.session(runtime()));
    command.output().expect("the program starts")
}

/// Runs `program` both ways; output and exit status must be the same. The agent knows what
/// happened.
#[track_caller]
pub fn compare(program: &Path, arguments: &[&str], settings: Settings) -> Agent {
    let natively = run_natively(program, arguments);
    let agent = Agent::start(settings);
    let under = run_under(&agent, program, arguments);
    agent.stop();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&natively.stdout), text(&under.stdout), "standard output; errors: {}", text(&under.stderr));
    assert_eq!(text(&natively.stderr), text(&under.stderr), "standard error");
    assert_eq!(natively.status, under.status, "exit status");
    agent
}
