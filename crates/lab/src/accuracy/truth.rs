//! Exact profiles, made once.
//!
//! A profile is kept by what is counted, program, size, build-id of the program, hash of the input generator and version of the profile format: with
//! any of these it would be another.
//! A strobe that counts differently must be told to count again, by removing the folder.

use std::fs;

use anyhow::{Context, ensure};
use image::Image;
use profile::Profile;

use super::Bench;
use crate::corpus::Workload;

/// What exact recordings count.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Paths,
    Contexts,
}

pub(super) fn exact_profile(bench: &Bench, workload: &Workload, what: What) -> anyhow::Result<Profile> {
    fs::create_dir_all(&bench.truths).with_context(|| format!("cannot make {}", bench.truths.display()))?;
    let folder = bench.truths.canonicalize()?;
    let key = [workload.name, &bench.size.to_string(), &build_id(workload)?, &bench.data.stamp(workload)?].join("-");
    let what = match what {
        What::Paths => "paths",
        What::Contexts => "contexts",
    };
    let key = format!("{key}-{what}-{}", store::SCHEMA_VERSION);
    let kept = folder.join(format!("{key}.strobe"));
    if !kept.exists() {
        eprintln!("{}: counting {what}", workload.name);
        let fresh = folder.join(format!("{key}.new"));
        let prefix = format!("'{}' record -q --exact={what} -o '{}' --", bench.strobe.display(), fresh.display());
        let status = bench.data.quiet_command(workload, &prefix)?.status().context("cannot start a shell")?;
        ensure!(status.code().is_some(), "{} under exact counting: {status}", workload.name);
        fs::rename(&fresh, &kept)?;
    }
    Ok(store::open(&kept)?)
}

/// The first digits of the program's build-id.
fn build_id(workload: &Workload) -> anyhow::Result<String> {
    const N_DIGITS: usize = 12;
    let bytes = fs::read(workload.program()).with_context(|| workload.program().display().to_string())?;
    let image = Image::parse(&bytes)?;
    let digits = image.build_id().map_or_else(|| "none".to_owned(), ToString::to_string);
    Ok(digits.chars().take(N_DIGITS).collect())
}
