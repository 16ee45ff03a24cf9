//! Builds the runtime, the library that lives inside the programs that strobe records, so that
//! `strobe` can carry it.
//!
//! The runtime is a workspace of its own (it aborts on panic and links nothing), hence a cargo of
//! its own, in a folder of its own: two cargos on one folder would wait for each other. All
//! profiles and the runtime's own tests share that folder, so that it is built once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    let out = PathBuf::from(variable("OUT_DIR"));
    let target = target_folder(&out).join("runtime");
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
    // What is embedded is what was built now, whoever builds into the shared folder later.
    let library = out.join("libstrobe_runtime.so");
    fs::copy(target.join("release/libstrobe_runtime.so"), &library).expect("the runtime was built");
    println!("cargo::rustc-env=STROBE_RUNTIME={}", library.display());
}

/// The folder that cargo marks as full of things that can be made again; profiles are below it.
fn target_folder(out: &Path) -> &Path {
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap_or(out)
}
