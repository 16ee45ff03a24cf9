//! The claims: what the papers found, what strobe must show, and what was measured.
//!
//! A claim is a row of a table with a function that measures it, or the reason why nothing can be
//! measured yet. What a function finds is kept in a file per claim, and what it observed of a
//! program in a file per program and setting, so that an interrupted run goes on where it stopped
//! and claims share observations. [`report`] writes what is there; a finding is never tuned to
//! agree.

mod block_times;
mod bursty;
mod counts;
mod flow_context;
mod ours;
mod path_edge;
mod ranking;
pub mod report;
mod stratified;
mod time;
mod workbench;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::machine;
use crate::table::Table;
pub use workbench::{Set, Workbench};

/// Something that was published or promised.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Name.
    pub id: &'static str,
    /// What is claimed.
    pub statement: &'static str,
    /// What the paper found.
    pub published: &'static str,
    /// What we must find.
    pub required: &'static str,
    /// How to find out.
    pub experiment: Experiment,
}

/// A function that measures a claim.
pub type Measure = fn(&Workbench) -> anyhow::Result<Finding>;

/// How to find out.
#[derive(Clone, Copy, Debug)]
pub enum Experiment {
    /// By a function.
    Measured {
        /// The function.
        run: Measure,
        /// What it takes on two free processors with the quick set, for the estimate of time left.
        minutes: f64,
    },
    /// Not at all, because of what strobe cannot do yet.
    NotYet(&'static str),
}

/// How a claim fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Everything that is required was measured.
    Holds,
    /// Something that is required was measured to be otherwise.
    Misses,
    /// What the paper found is not what we find.
    Contradicted,
    /// There is nothing to compare with.
    NotYet,
}

impl Verdict {
    fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::Misses }
    }

    /// One word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Misses => "misses",
            Verdict::Contradicted => "contradicted",
            Verdict::NotYet => "not yet",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Our value.
    pub ours: String,
    /// Its 95 % interval.
    pub interval: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What a reader has to know: how it was measured, why it misses.
    pub notes: Vec<String>,
    /// Title and table.
    pub tables: Vec<(String, Table)>,
    /// SVG.
    pub plots: Vec<String>,
    /// Filled in by [`run`]: how long it took.
    #[serde(default)]
    pub seconds: f64,
    /// Filled in by [`run`]: the machine, with its load before and after.
    #[serde(default)]
    pub machine: String,
}

impl Finding {
    fn new(ours: impl Into<String>, interval: impl Into<String>, verdict: Verdict) -> Finding {
        Finding {
            ours: ours.into(),
            interval: interval.into(),
            verdict,
            notes: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            seconds: 0.0,
            machine: String::new(),
        }
    }
}

/// All claims, in the order of reports.
#[must_use]
pub fn all() -> Vec<Claim> {
    [
        &path_edge::CLAIMS[..],
        &ours::CLAIMS[..],
        &time::CLAIMS[..],
        &bursty::CLAIMS[..],
        &stratified::CLAIMS[..],
        &flow_context::CLAIMS[..],
    ]
    .concat()
}

/// The claims with these names, or all.
pub fn select(ids: &[String]) -> anyhow::Result<Vec<Claim>> {
    let all = all();
    let unknown = ids.iter().find(|id| !all.iter().any(|claim| claim.id.eq_ignore_ascii_case(id)));
    if let Some(id) = unknown {
        let known: Vec<&str> = all.iter().map(|claim| claim.id).collect();
        bail!("no claim `{id}`; there are {}", known.join(", "));
    }
    let is_chosen = |claim: &Claim| ids.is_empty() || ids.iter().any(|id| claim.id.eq_ignore_ascii_case(id));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Measures what has not been measured, and tells how far it is. Returns what could not be
/// measured, with the reason; the next run tries it again.
pub fn run(bench: &Workbench, claims: &[Claim]) -> anyhow::Result<Vec<String>> {
    let pending: Vec<(&Claim, Measure, f64)> = claims
        .iter()
        .filter(|claim| kept(bench, claim.id).is_none())
        .filter_map(|claim| match claim.experiment {
            Experiment::Measured { run, minutes } => Some((claim, run, minutes)),
            Experiment::NotYet(_) => None,
        })
        .collect();
    let started = Instant::now();
    let mut failures = Vec::new();
    let (mut minutes_done, minutes_all) = (0.0, pending.iter().map(|(.., minutes)| minutes).sum::<f64>());
    for (index, (claim, run, minutes)) in pending.iter().enumerate() {
        let left = match minutes_done {
            0.0 => minutes_all,
            done => started.elapsed().as_secs_f64() / 60.0 * (minutes_all - done) / done,
        };
        eprintln!("{} ({} of {}, about {left:.0} minutes left)", claim.id, index + 1, pending.len());
        let (before, beginning) = (machine::load(), Instant::now());
        minutes_done += minutes;
        let mut finding = match run(bench) {
            Ok(finding) => finding,
            Err(error) => {
                failures.push(format!("{}: {error:#}", claim.id));
                eprintln!("{}: {error:#}", claim.id);
                continue;
            }
        };
        finding.seconds = beginning.elapsed().as_secs_f64();
        finding.machine = format!("{}; load {before} before, {} after", machine::facts()?, machine::load());
        let path = bench.state(&format!("claims/{}.json", claim.id))?;
        write_whole(&path, &serde_json::to_vec_pretty(&finding)?)?;
    }
    Ok(failures)
}

/// What was found earlier.
#[must_use]
pub fn kept(bench: &Workbench, id: &str) -> Option<Finding> {
    let path = bench.state(&format!("claims/{id}.json")).ok()?;
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file that is there completely or not at all.
fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, content).with_context(|| format!("cannot write {}", partial.display()))?;
    Ok(fs::rename(&partial, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_of_the_list_is_there_once() {
        let ids: Vec<&str> = all().iter().map(|claim| claim.id).collect();
        let wanted =
            "P1 P2 P3 P4 P5 P6 P6b P7 P8 S1 S2 S3 S4 S5 S6 S6b S7 S8 S9 F1 F2 F3 F4 F5 B1 B2 B5 T1 T1b T2 T3 T4";
        for id in wanted.split(' ') {
            assert_eq!(ids.iter().filter(|&&other| other == id).count(), 1, "{id}");
        }
    }

    #[test]
    fn claims_are_chosen_by_name_in_any_case() {
        let chosen = select(&["p3".to_owned(), "B2".to_owned()]).unwrap();
        assert_eq!(chosen.iter().map(|claim| claim.id).collect::<Vec<_>>(), ["P3", "B2"]);
        assert!(select(&["P99".to_owned()]).unwrap_err().to_string().contains("`P99`"));
    }
}
