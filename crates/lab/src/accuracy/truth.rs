//! Exact profiles, made once.
//!
//! A profile is kept by what is counted, program, size, build-id of the program, hash of the input
//! generator and version of the profile format: with any of these it would be another. A strobe
//! that counts differently must be told to count again, by removing the folder.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use emit::{Cache, Counting, Metric};
use image::Image;
use recorder::{Exact, Mode};

use super::Bench;
use crate::corpus::Workload;
use crate::recording;

/// Nothing that is counted depends on it.
const SEED: u64 = 0;

/// What exact recordings count.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Paths.
    Paths,
    /// Calling contexts.
    Contexts,
    /// Paths, with misses of a data cache on each: 16 KB, direct-mapped, lines of 32 bytes.
    PathMisses,
    /// Paths, by calling context.
    ContextPaths,
    /// The same with misses.
    ContextPathMisses,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Paths => "paths",
            What::Contexts => "contexts",
            What::PathMisses => "path-misses",
            What::ContextPaths => "context-paths",
            What::ContextPathMisses => "context-path-misses",
        }
    }

    fn counting(self) -> Counting {
        let misses = || Cache::new(16 << 10, 1, 32).map(Metric::Misses);
        match self {
            What::Paths => Counting::Paths,
            What::Contexts => Counting::contexts(false, None),
            What::PathMisses => misses().map_or(Counting::Paths, Counting::PathMetric),
            What::ContextPaths => Counting::contexts(true, None),
            What::ContextPathMisses => Counting::contexts(true, misses()),
        }
    }
}

/// The file of an exact profile, which is made if it is not there.
pub(super) fn exact_profile(bench: &Bench, workload: &Workload, what: What) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&bench.truths).with_context(|| format!("cannot make {}", bench.truths.display()))?;
    let folder = bench.truths.canonicalize()?;
    let key = [workload.name, &bench.size.to_string(), &build_id(workload)?, &bench.data.stamp(workload)?].join("-");
    let key = format!("{key}-{}-{}", what.name(), store::SCHEMA_VERSION);
    let kept = folder.join(format!("{key}.strobe"));
    if !kept.exists() {
        eprintln!("{}: counting {}", workload.name, what.name());
        let fresh = folder.join(format!("{key}.new"));
        let mode = Mode::Exact(Exact { counting: what.counting(), guide: None });
        recording::record(&bench.data, workload, &fresh, mode, SEED)?;
        fs::rename(&fresh, &kept)?;
    }
    Ok(kept)
}

/// The first digits of the program's build-id.
fn build_id(workload: &Workload) -> anyhow::Result<String> {
    const N_DIGITS: usize = 12;
    let bytes = fs::read(workload.program()).with_context(|| workload.program().display().to_string())?;
    let image = Image::parse(&bytes)?;
    let digits = image.build_id().map_or_else(|| "none".to_owned(), ToString::to_string);
    Ok(digits.chars().take(N_DIGITS).collect())
}
