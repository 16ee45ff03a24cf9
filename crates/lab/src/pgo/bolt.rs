//! BOLT: one program laid out by several profiles.
//!
//! BOLT finds its runtime library by the folder that it is called in, so that it is called where it
//! is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::pgo::code::Code;
use crate::pgo::compared::Arm;
use crate::pgo::flip;
use crate::pgo::recorder::{Recorded, Recorder};
use crate::pgo::subject::Workload;
use crate::pgo::workshop::{Compiler, Workshop, succeed};

const BOLT: &str = "/usr/lib/llvm-22/bin/llvm-bolt";

const COMPILER: Compiler =
    Compiler { c: "gcc", cpp: "g++", flags: "-O2 -fno-reorder-blocks-and-partition", link: "-Wl,-q" };

const LAYOUT: [&str; 7] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-split-eh",
    "-icf",
    "-dyno-stats",
];

/// Version of the optimizer.
pub fn version() -> anyhow::Result<String> {
    let text = succeed(Command::new(BOLT).arg("--version"))?;
    let version = text.lines().find_map(|line| line.split_once("LLVM version ")).map(|(_, version)| version);
    Ok(format!("BOLT {}", version.unwrap_or("of unknown version")))
}

/// The program laid out by its exact profile, by ours in both formats, and by the flipped one.
pub fn arms(workshop: &Workshop, recorder: &Recorder, training: &Workload) -> anyhow::Result<(Recorded, Vec<Arm>)> {
    let base = workshop.base("base", COMPILER)?;
    let exact = instrumented(workshop, &base, training)?;
    let ours = recorder.record(&base, training, &workshop.file("ours.strobe"), &[], recorder.n_runs)?;
    let (preagg, fdata, flipped) =
        (workshop.file("ours.preagg"), workshop.file("ours.fdata"), workshop.file("flipped.fdata"));
    recorder.export(&ours.path, "bolt-preagg", &preagg)?;
    recorder.export(&ours.path, "bolt-fdata", &fdata)?;
    fs::write(&flipped, flip::fdata(&fs::read_to_string(&exact)?, &Code::read(&base)?))?;
    let arm = |name: &'static str, program: &str, how: &[&str], profile: &Path| -> anyhow::Result<Arm> {
        let program = workshop.file(program);
        let log = succeed(Command::new(BOLT).arg(&base).arg("-o").arg(&program).args(how).arg(profile).args(LAYOUT))?;
        fs::write(program.with_extension("log"), &log)?;
        let (before, after) = taken_branches(&log).context("BOLT prints no dyno-stats")?;
        let note = format!("{:+.1} %", 100.0 * (after as f64 / before as f64 - 1.0));
        Ok(Arm { name, program, note })
    };
    let plain = |name: &'static str| Arm { name, program: base.clone(), note: String::new() };
    let arms = vec![
        plain("base"),
        plain("base again"),
        arm("BOLT's exact profile", "bolt-exact", &["-data"], &exact)?,
        arm("ours, bolt-preagg", "bolt-preagg", &["-pa", "-p"], &preagg)?,
        arm("ours, bolt-fdata", "bolt-fdata", &["-data"], &fdata)?,
        arm("exact, flipped", "bolt-flipped", &["-data"], &flipped)?,
    ];
    Ok((ours, arms))
}

/// The profile that BOLT's own instrumentation counts.
fn instrumented(workshop: &Workshop, base: &Path, training: &Workload) -> anyhow::Result<PathBuf> {
    let (program, profile) = (workshop.file("instrumented"), workshop.file("exact.fdata"));
    let output = format!("-instrumentation-file={}", profile.display());
    succeed(Command::new(BOLT).arg(base).args(["-instrument", &output, "-o"]).arg(&program))?;
    let _ = fs::remove_file(&profile);
    let status = training.command(&[], &program)?.status()?;
    ensure!(status.success() && profile.exists(), "{} failed ({status})", program.display());
    Ok(profile)
}

/// Taken branches before and after, in the eyes of the profile that BOLT was given.
fn taken_branches(log: &str) -> Option<(u64, u64)> {
    let counts = log.lines().filter_map(|line| {
        let (count, what) = line.split_once(" : ")?;
        let is_total = what == "taken branches" || what.starts_with("taken branches (");
        is_total.then(|| count.trim().parse().ok()).flatten()
    });
    let counts: Vec<u64> = counts.collect();
    Some((*counts.first()?, *counts.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found_among_dyno_stats() {
        let log = "BOLT-INFO: program-wide dynostats after optimizations before SCTC and FOP:\n\n  \
                   10 : taken forward branches\n  565 : taken branches\n  3 : taken conditional branches\n\
                   BOLT-INFO: after:\n  10 : taken forward branches (=)\n  237 : taken branches (-58.0%)\n";
        assert_eq!(taken_branches(log), Some((565, 237)));
        assert_eq!(taken_branches("  565 : taken branches\n"), None);
    }
}
