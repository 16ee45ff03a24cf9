//! Measures the profile file: time to write, to write again, to open, and to merge many.
//!
//!     cargo run --release -p store --example figures

use std::path::Path;
use std::time::Instant;

use fixtures::random::{self, Size};
use profile::{Merger, Profile};
use store::Recording;

/// A profile of a large program.
const LARGE: Size = Size {
    n_modules: 10,
    n_functions: 26_667,
    blocks_per_function: 10,
    n_edges: 330_000,
    n_paths: 200_000,
    n_contexts: 50_000,
};

/// A profile whose file takes about 1 MB.
const MEGABYTE: Size = Size {
    n_functions: 600,
    blocks_per_function: 10,
    n_edges: 9_000,
    n_paths: 6_500,
    n_contexts: 3_000,
    ..Size::SMALL
};

const N_MERGED: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("strobe-figures-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    large(&folder.join("large.strobe"))?;
    many(&folder)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn large(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut profile = random::profile(1, LARGE);
    let rows = [profile.blocks.len(), profile.edges.len(), profile.paths.len(), profile.contexts.len()];
    println!("blocks, edges, paths, contexts: {rows:?}");
    let mut recording = Recording::create(path)?;
    timed("first write", || recording.write(&profile))?;
    timed("write without change", || recording.write(&profile))?;
    profile.edges.iter_mut().step_by(10).for_each(|row| row.count.value += 1.0);
    timed("write of every tenth edge", || recording.write(&profile))?;
    println!("file size: {:.1} MB", std::fs::metadata(path)?.len() as f64 / 1e6);
    for _ in 0..3 {
        let opened = timed("open", || store::open(path))?;
        assert!(opened == profile, "what is read is not what was written");
    }
    Ok(())
}

fn many(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = |number: u64| folder.join(format!("{number}.strobe"));
    timed("save 1000", || {
        (0..N_MERGED).try_for_each(|number| store::save(&path(number), &random::profile(number, MEGABYTE)))
    })?;
    println!("size of one: {:.2} MB", std::fs::metadata(path(0))?.len() as f64 / 1e6);
    for n in [N_MERGED / 4, N_MERGED / 2, N_MERGED] {
        let merged = timed(&format!("open and merge {n}"), || -> Result<Profile, store::Error> {
            let mut merger = Merger::default();
            (0..n).try_for_each(|number| store::open(&path(number)).map(|profile| merger.add(&profile)))?;
            Ok(merger.finish())
        })?;
        println!("  {} edges, {} paths", merged.edges.len(), merged.paths.len());
    }
    Ok(())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}: {:.3} s", start.elapsed().as_secs_f64());
    result
}
