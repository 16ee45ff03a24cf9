//! Profiles of strobe: recorded, added up, exported, all by the program `strobe`, so that
//! optimizers are given what users would give them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::pgo::subject::Workload;
use crate::pgo::workshop::succeed;

/// A profile with less is added to one of another run.
const ENOUGH_EDGE_EVENTS: u64 = 100_000;
const MAX_RUNS: usize = 10;

/// A profile and what it took.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub path: PathBuf,
    pub n_runs: usize,
    /// Of the program, in all runs.
    pub cpu_seconds: f64,
    /// Steps between blocks that were seen.
    pub n_edge_events: u64,
}

/// Calls strobe.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub strobe: PathBuf,
    /// Runs for our profile, at least.
    pub n_runs: usize,
}

impl Recorder {
    /// Records a program at least `min_runs` times, until enough edges were seen; `options` are for
    /// `strobe record`.
    pub fn record(
        &self,
        program: &Path,
        workload: &Workload,
        path: &Path,
        options: &[&str],
        min_runs: usize,
    ) -> anyhow::Result<Recorded> {
        let mut recorded = Recorded { path: path.to_owned(), n_runs: 0, cpu_seconds: 0.0, n_edge_events: 0 };
        let mut runs = Vec::new();
        while recorded.n_runs < min_runs || recorded.n_edge_events < ENOUGH_EDGE_EVENTS {
            ensure!(recorded.n_runs < min_runs.max(MAX_RUNS), "{}: {MAX_RUNS} runs do not suffice", program.display());
            let run = path.with_extension(format!("{}.strobe", recorded.n_runs));
            let tool = [self.strobe.to_string_lossy().as_ref(), "record", "--quiet", "-o"].map(str::to_owned);
            let output = run.to_string_lossy().into_owned();
            let options = options.iter().map(|&option| option.to_owned());
            let tool: Vec<String> = tool.into_iter().chain([output]).chain(options).chain(["--".to_owned()]).collect();
            let status = workload.command(&tool, program)?.status().context("cannot run strobe")?;
            ensure!(status.success(), "{} failed under strobe ({status})", program.display());
            let profile = store::open(&run)?;
            recorded.n_runs += 1;
            recorded.cpu_seconds += profile.threads.iter().map(|thread| thread.cpu_ns as f64 * 1e-9).sum::<f64>();
            recorded.n_edge_events += profile.edges.iter().map(|edge| edge.count.seen).sum::<u64>();
            runs.push(run);
        }
        succeed(Command::new(&self.strobe).args(["merge", "--quiet", "-o"]).arg(path).args(&runs))?;
        Ok(recorded)
    }

    /// Writes a profile for another tool.
    pub fn export(&self, profile: &Path, format: &str, out: &Path) -> anyhow::Result<()> {
        succeed(Command::new(&self.strobe).args(["export", "--format", format, "-o"]).arg(out).arg(profile))?;
        Ok(())
    }
}
