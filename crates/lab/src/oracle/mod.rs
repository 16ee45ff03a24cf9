//! The oracle: everything that really ran must be what the analysis says can run.
//!
//! Programs of the corpus run under callgrind; then, for every file they executed code of, each
//! executed address must be an instruction of the analysis, and each executed jump, call and
//! fall-through must be known to it (see [`judge`]). Runs of all programs are added up first, so
//! that a shared library is analysed once and examined with everything that used it.

mod examine;
mod index;
mod judge;
mod report;

use std::path::Path;

use anyhow::Context;
use flow::Executor;
use indicatif::{ProgressBar, ProgressStyle};
use recorder::Threads;

pub use examine::{Finding, ObjectReport, Tally, Unresolved, examine};
pub use index::Index;
pub use judge::{Artefact, Exception, Known, Target, Verdict, judge};
pub use report::Report;

use crate::callgrind::{self, ObjectId, Recording, UNKNOWN_OBJECT};
use crate::corpus::{Data, Workload};
use crate::module::with_analysis;

/// Where the recordings to examine come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recordings {
    /// Every workload runs under callgrind now.
    Make,
    /// An earlier run left them; only missing ones are made.
    Reuse,
}

/// Examines every file that the workloads execute code of.
pub fn run(data: &Data, workloads: &[Workload], recordings: Recordings, threads: Threads) -> anyhow::Result<Report> {
    let dir = data.root().join("callgrind");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let progress = progress_bar(workloads.len());
    let recorded = threads.map(workloads, |workload| {
        let path = dir.join(workload.name).with_extension("callgrind");
        if recordings == Recordings::Make || !path.exists() {
            callgrind::record(data, workload, "", &path)?;
        }
        progress.inc(1);
        progress.set_message(workload.name);
        callgrind::read(&path)
    });
    progress.finish_and_clear();
    let mut all = Recording::default();
    for recording in recorded {
        all.merge(recording?);
    }
    examine_all(&all, threads)
}

fn examine_all(recording: &Recording, threads: Threads) -> anyhow::Result<Report> {
    let mut report = Report { total_instructions: recording.total_instructions, ..Report::default() };
    for (id, object) in recording.objects.iter().enumerate() {
        let path = Path::new(&object.path);
        if object.executed.is_empty() {
            continue;
        }
        if object.path == UNKNOWN_OBJECT || !path.is_file() {
            report.instructions_without_file += object.executed.values().sum::<u64>();
            continue;
        }
        let examined = with_analysis(path, &threads, |image, module| {
            examine(ObjectId(id), recording, &Index::new(image, module))
        })?;
        report.objects.push(examined);
    }
    report.objects.sort_by_key(|object| std::cmp::Reverse(object.instructions.executions));
    Ok(report)
}

/// Shown only where standard error is a terminal.
fn progress_bar(n_programs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:40}] {pos}/{len} under callgrind, last {msg}");
    ProgressBar::new(n_programs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
