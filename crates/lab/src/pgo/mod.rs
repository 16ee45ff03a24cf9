//! What a sampled profile is worth to an optimizer.
//!
//! Programs are compiled from Debian source and optimized after profiles of the same work: by BOLT
//! with its own exact profile, with one that `strobe record` sampled at its defaults, and with the
//! exact one flipped; by clang with a reference recording, with the sampled one, and with the
//! reference flipped. The results are compared on other runs of the same kind of work: by branches
//! taken, which is deterministic and what decides ([`judge`]), and by CPU time ([`speed`]).

mod bolt;
mod code;
mod compared;
mod flip;
mod judge;
mod recorder;
mod sample;
pub(crate) mod speed;
pub mod subject;
pub(crate) mod workshop;

use std::path::PathBuf;

use crate::pgo::compared::{Arm, Comparison};
use crate::pgo::recorder::{Recorded, Recorder};
use crate::pgo::subject::{Size, Subject, Workload};
use crate::pgo::workshop::Workshop;
use crate::table::grouped;

/// Options of `strobe record` for the reference of clang, unless others are given.
pub const DEFAULT_REFERENCE: &str = "--exact";

/// An optimizer that reads profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Optimizer {
    /// BOLT, after linking.
    Bolt,
    /// clang, by source line.
    Clang,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where sources, programs and profiles go.
    pub dir: PathBuf,
    /// Interleaved rounds of the measurement of time.
    pub n_rounds: usize,
    /// Runs that are recorded for our profile, at least.
    pub n_runs: usize,
    /// Profiles of ours that clang is given, one by one.
    pub n_recordings: usize,
    /// Options of `strobe record` for the reference of clang.
    pub reference: String,
    /// The program `strobe`.
    pub strobe: PathBuf,
}

/// Checks that everything is installed.
pub fn check() -> anyhow::Result<()> {
    workshop::check_packages()
}

/// Installs what is missing.
pub fn install() -> anyhow::Result<()> {
    workshop::install_packages()
}

/// Compares the builds of one program; Markdown, and whether our profile is as good as it must be.
pub fn run(subject: &Subject, optimizer: Optimizer, options: &Options) -> anyhow::Result<(String, bool)> {
    let workshop = Workshop::open(subject, &options.dir)?;
    let recorder = Recorder { strobe: options.strobe.clone(), n_runs: options.n_runs };
    let [training, judging] =
        [Size::Training, Size::Judging].map(|size| Workload::new(subject, size, workshop.folder(), workshop.source()));
    let (training, judging) = (training?, judging?);
    let (version, facts, arms): (String, String, Vec<Arm>) = match optimizer {
        Optimizer::Bolt => {
            let (ours, arms) = bolt::arms(&workshop, &recorder, &training)?;
            (bolt::version()?, describe("Ours", &ours), arms)
        }
        Optimizer::Clang => {
            let reference: Vec<&str> = options.reference.split_whitespace().collect();
            let (recorded, arms) = sample::arms(&workshop, &recorder, &training, &reference, options.n_recordings)?;
            let reference = format!("Reference (`strobe record {}`)", options.reference);
            let names = std::iter::repeat_n("Ours", recorded.len() - 1).chain([reference.as_str()]);
            let facts: Vec<String> = names.zip(&recorded).map(|(name, recorded)| describe(name, recorded)).collect();
            (sample::version()?, facts.join(" "), arms)
        }
    };
    eprintln!("{}: comparing", subject.name);
    let comparison = Comparison::of(arms, &judging, options.n_rounds)?;
    let title = format!("{} {}, {version}", subject.package, workshop.version()?);
    let (table, means) = (comparison.table().to_markdown(), comparison.means());
    Ok((format!("### {title}\n\n{facts}\n\n{table}\n{means}"), comparison.holds()))
}

fn describe(what: &str, recorded: &Recorded) -> String {
    let Recorded { n_runs, cpu_seconds, n_edge_events, .. } = recorded;
    let runs = if *n_runs == 1 { "run" } else { "runs" };
    let events = grouped(*n_edge_events);
    format!("{what}: {n_runs} {runs}, {cpu_seconds:.1} s of CPU time, {events} edge events.")
}
