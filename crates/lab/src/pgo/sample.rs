//! `clang -fprofile-sample-use`: one program compiled with several profiles by source line.
//!
//! There is no second source of such profiles here, so that our sampled profile is compared with an exact one that strobe records, too (or
//! by whatever options it is told); both go through the same exporter and the same loader of LLVM.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pgo::compared::Arm;
use crate::pgo::flip;
use crate::pgo::recorder::{Recorded, Recorder};
use crate::pgo::subject::Workload;
use crate::pgo::workshop::{Compiler, Workshop, succeed};

const COMPILER: Compiler =
    Compiler { c: "clang-19", cpp: "clang++-19", flags: "-O2 -gline-tables-only -fdebug-info-for-profiling", link: "" };

/// Version of the compiler.
pub fn version() -> anyhow::Result<String> {
    let text = succeed(Command::new(COMPILER.c).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The program compiled with the reference, with our profile, and with the reference flipped.
pub fn arms(
    workshop: &Workshop,
    recorder: &Recorder,
    training: &Workload,
    reference: &[&str],
) -> anyhow::Result<([Recorded; 2], Vec<Arm>)> {
    let base = workshop.base("clang-base", COMPILER)?;
    let ours = recorder.record(&base, training, &workshop.file("clang-ours.strobe"), &[], recorder.n_runs)?;
    let path = workshop.file("clang-reference.strobe");
    let reference = recorder.record(&base, training, &path, reference, 1)?;
    let flipped = workshop.file("clang-flipped.strobe");
    let mut profile = store::open(&reference.path)?;
    flip::profile(&mut profile);
    store::save(&flipped, &profile)?;
    let arm = |name: &'static str, program: &str, profile: &Path| -> anyhow::Result<Arm> {
        let text = profile.with_extension("prof");
        recorder.export(profile, "llvm-sample", &text)?;
        let program = workshop.compile(program, COMPILER, &format!("-fprofile-sample-use={}", text.display()))?;
        Ok(Arm { name, program: bare(&program)?, note: String::new() })
    };
    let base = bare(&base)?;
    let plain = |name: &'static str| Arm { name, program: base.clone(), note: String::new() };
    let arms = vec![
        plain("base"),
        plain("base again"),
        arm("reference", "clang-reference", &reference.path)?,
        arm("ours, llvm-sample", "clang-ours", &ours.path)?,
        arm("reference, flipped", "clang-flipped", &flipped)?,
    ];
    Ok(([ours, reference], arms))
}

/// A copy without debug information: that of clang 19 is more than valgrind 3.19 can read.
fn bare(program: &Path) -> anyhow::Result<PathBuf> {
    let copy = program.with_extension("bare");
    succeed(Command::new("strip").args(["--strip-debug", "-o"]).arg(&copy).arg(program))?;
    Ok(copy)
}
