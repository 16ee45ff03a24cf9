//! Builds the runtime, the library that lives inside the programs that strobe records, so that `strobe` can carry it.
//!
//! The runtime is a workspace of its own (it aborts on panic and links nothing), hence a cargo of its own, in a target directory of
//! its own: two cargos on one directory would wait for each other.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    let target = PathBuf::from(variable("OUT_DIR")).join("runtime");
    let of_runtime = ["runtime/src", "runtime/Cargo.toml", "runtime/Cargo.lock", "runtime/build.rs"];
    let used = ["sampling/src", "sampling/Cargo.toml", "wire/src", "wire/Cargo.toml"];
    for source in of_runtime.into_iter().chain(used) {
        println!("cargo::rerun-if-changed={}", crates.join(source).display());
    }
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(crates.join("runtime/Cargo.toml")).arg("--target-dir").arg(&target);
    for inherited in
        ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        cargo.env_remove(inherited);
    }
    let status = cargo.status().expect("cargo can start cargo");
    assert!(status.success(), "the runtime does not build");
    println!("cargo::rustc-env=STROBE_RUNTIME={}", target.join("release/libstrobe_runtime.so").display());
}
