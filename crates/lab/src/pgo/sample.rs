//! `clang -fprofile-sample-use`: one program compiled with several profiles by source line.
//!
//! There is no second source of such profiles here, so that our sampled profile is compared with an
//! exact one that strobe records, too (or by whatever options it is told); both go through the same
//! exporter and the same loader of LLVM.
//!
//! What the compiler inlines hangs on thresholds, so that profiles which hardly differ give
//! programs that do. Several recordings are therefore compiled and judged, each by itself, and
//! beside them as many variants of the reference with counts that are off by at most one percent at
//! random: what these reach is what chance alone does.

use std::path::{Path, PathBuf};
use std::process::Command;

use profile::{Estimate, Profile};

use crate::pgo::compared::Arm;
use crate::pgo::flip;
use crate::pgo::recorder::{Recorded, Recorder};
use crate::pgo::subject::Workload;
use crate::pgo::workshop::{Compiler, Workshop, succeed};

const COMPILER: Compiler =
    Compiler { c: "clang-19", cpp: "clang++-19", flags: "-O2 -gline-tables-only -fdebug-info-for-profiling", link: "" };

/// Has the compiler make the counts of a function consistent before it uses them, by the least
/// change (*profi*). Otherwise it takes them as they are, and the smallest difference between two
/// blocks that run equally often decides between layouts.
const INFERENCE: &str = "-mllvm -sample-profile-use-profi";

/// Version of the compiler.
pub fn version() -> anyhow::Result<String> {
    let text = succeed(Command::new(COMPILER.c).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Largest relative change of a count in a variant of the reference.
const JITTER: f64 = 0.01;

/// The program compiled with the reference and its variants, with our profiles, and with the
/// reference flipped. Returns what the recordings took, the reference last.
pub fn arms(
    workshop: &Workshop,
    recorder: &Recorder,
    training: &Workload,
    reference: &[&str],
    n_recordings: usize,
) -> anyhow::Result<(Vec<Recorded>, Vec<Arm>)> {
    let base = workshop.base("clang-base", COMPILER)?;
    let mut recorded = Vec::new();
    for index in 0..n_recordings {
        let path = workshop.file(&format!("clang-ours-{index}.strobe"));
        recorded.push(recorder.record(&base, training, &path, &[], recorder.n_runs)?);
    }
    let path = workshop.file("clang-reference.strobe");
    let reference = recorder.record(&base, training, &path, reference, 1)?;
    let exact = store::open(&reference.path)?;
    let variant = |name: &str, change: &dyn Fn(&mut Profile)| -> anyhow::Result<PathBuf> {
        let path = workshop.file(name);
        let mut profile = exact.clone();
        change(&mut profile);
        store::save(&path, &profile)?;
        Ok(path)
    };
    let arm = |name: &'static str, program: &str, profile: &Path| -> anyhow::Result<Arm> {
        let text = profile.with_extension("prof");
        recorder.export(profile, "llvm-sample", &text)?;
        let program =
            workshop.compile(program, COMPILER, &format!("-fprofile-sample-use={} {INFERENCE}", text.display()))?;
        Ok(Arm { name, program: bare(&program)?, note: String::new() })
    };
    let base = bare(&base)?;
    let plain = |name: &'static str| Arm { name, program: base.clone(), note: String::new() };
    let mut arms = vec![plain("base"), plain("base again"), arm("reference", "clang-reference", &reference.path)?];
    for (index, ours) in recorded.iter().enumerate() {
        arms.push(arm("ours, llvm-sample", &format!("clang-ours-{index}"), &ours.path)?);
    }
    for index in 0..n_recordings {
        let name = format!("clang-jittered-{index}");
        let path = variant(&format!("{name}.strobe"), &|profile| jitter(profile, index as u64))?;
        arms.push(arm("reference, counts 1 % off", &name, &path)?);
    }
    let flipped = variant("clang-flipped.strobe", &flip::profile)?;
    arms.push(arm("reference, flipped", "clang-flipped", &flipped)?);
    recorded.push(reference);
    Ok((recorded, arms))
}

/// Changes every count that the exporter reads by up to [`JITTER`], at random.
fn jitter(profile: &mut Profile, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut change = |count: &mut Estimate| count.value *= 1.0 + JITTER * (2.0 * random.f64() - 1.0);
    profile.blocks.iter_mut().for_each(|block| change(&mut block.count));
    profile.calls.iter_mut().for_each(|call| change(&mut call.count));
    profile.functions.iter_mut().for_each(|function| change(&mut function.entries));
}

/// A copy without debug information: that of clang 19 is more than valgrind 3.19 can read.
fn bare(program: &Path) -> anyhow::Result<PathBuf> {
    let copy = program.with_extension("bare");
    succeed(Command::new("strip").args(["--strip-debug", "-o"]).arg(&copy).arg(program))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use profile::model::{Function, ModuleId};

    use super::*;

    #[test]
    fn counts_change_a_little_and_by_the_seed() {
        let function = Function {
            module: ModuleId(0),
            address: 0,
            size: 1,
            name: "f".to_owned(),
            entries: Estimate::exact(1000),
            self_ns: Estimate::default(),
        };
        let jittered = |seed| {
            let mut profile = Profile { functions: vec![function.clone()], ..Profile::default() };
            jitter(&mut profile, seed);
            profile.functions[0].entries.value
        };
        let [first, again, other] = [1, 1, 2].map(jittered);
        assert_eq!(first, again);
        assert!(first != other && (990.0..=1010.0).contains(&first) && (990.0..=1010.0).contains(&other));
    }
}
