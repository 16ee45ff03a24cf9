//! How good a sampled profile is: recordings against exact counts of the same program and input.
//!
//! The truth is a recording that counted all paths, and another one for calling contexts, made once
//! per program, input and build ([`truth`]). A sampled run is judged by the metrics of
//! [`profile::accuracy`], once with the estimates of the profile and once with what bursts saw,
//! unweighted. Beside accuracy stands what it took: bursts, accounted cost, and net cost, which is
//! the accounted one less the native time of the instructions that bursts ran. Their share of the
//! program's time is taken to be their share of its instructions, of which both profiles know the
//! number.
//!
//! The first recording of a program finds no translations; as long as code had to be translated,
//! the program is recorded again.

mod observation;
mod settings;
mod truth;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use profile::Profile;
use profile::accuracy::{Of, compare, honesty, interval_score};
use profile::model::{BlockEnd, Call};
use profile::query::scale_factor;
use recorder::Mode;

use crate::corpus::{Data, Size, Workload};
use crate::machine;
use crate::recording::{self, Run};
use crate::table::Table;
pub use observation::{Figures, Intervals, Observation, mean};
pub use settings::{Extra, Policy, Setting, cross};
pub use truth::What;

/// Estimates that rest on fewer bursts are no test of error bars.
pub(crate) const MIN_BURSTS: f64 = 10.0;

/// Recordings until one finds everything translated: a program may end before strobe has translated
/// it.
const MAX_TRIES: usize = 3;

/// What all observations share.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Inputs.
    pub data: Data,
    /// Their size.
    pub size: Size,
    /// Where exact profiles are kept.
    pub truths: PathBuf,
    /// Recordings that are added up for one observation.
    pub n_runs: usize,
}

impl Bench {
    /// Inputs of `programs` in `dir`, where exact profiles are kept as well.
    pub fn open(dir: &Path, size: Size, programs: &[Workload], n_runs: usize) -> anyhow::Result<Bench> {
        Ok(Bench { data: Data::generate(dir, size, programs)?, size, truths: dir.join("truth"), n_runs })
    }

    /// The exact profile of a program.
    pub fn truth(&self, workload: &Workload) -> anyhow::Result<Profile> {
        self.counted(workload, What::Paths)
    }

    /// An exact profile of a program.
    pub fn counted(&self, workload: &Workload, what: What) -> anyhow::Result<Profile> {
        Ok(store::open(&self.counted_file(workload, what)?)?)
    }

    /// The same, if the program's own code was counted: copies of a large program that simulate a
    /// cache may find no room.
    pub fn counted_program(&self, workload: &Workload, what: What) -> anyhow::Result<Option<Profile>> {
        let program = self.data.runnable(workload)?;
        Ok(Some(self.counted(workload, what)?).filter(|profile| has_run_in(profile, &program.to_string_lossy())))
    }

    /// The file of it.
    pub fn counted_file(&self, workload: &Workload, what: What) -> anyhow::Result<PathBuf> {
        truth::exact_profile(self, workload, what)
    }

    /// Records a program and judges the result.
    pub fn observe(&self, workload: &Workload, setting: &Setting, truth: &Profile) -> anyhow::Result<Observation> {
        let mut runs = Vec::new();
        for seed in 0..self.n_runs {
            runs.push(self.record(workload, setting, seed)?);
        }
        self.judge(workload, setting, truth, &runs)
    }

    /// Judges recordings of a program, of which there is at least one.
    pub fn judge(
        &self,
        workload: &Workload,
        setting: &Setting,
        truth: &Profile,
        runs: &[Run],
    ) -> anyhow::Result<Observation> {
        let (first, others) = runs.split_first().context("no run to judge")?;
        let mut merged = first.profile.clone();
        others.iter().for_each(|run| profile::merge(&mut merged, &run.profile));
        let contexts = self.counted(workload, What::Contexts)?;
        let context_overlap = |sampled: &Profile| compare(&contexts, sampled).context_overlap;
        let contexts = [&merged, &raw(&merged)].map(context_overlap);
        leave_out_uncounted_calls(&mut merged, truth);
        let (mut n_bursts, mut cpu_seconds, mut accounted_percent, mut ticks_percent) = (0.0, 0.0, 0.0, 0.0);
        for run in runs {
            let bursts = run.bursts()?;
            let shares = bursts.shares(&run.facts);
            n_bursts += bursts.tally.n_bursts as f64;
            cpu_seconds += run.facts.cpu_seconds();
            accounted_percent += 100.0 * shares.total() / self.n_runs as f64;
            ticks_percent += 100.0 * shares.ticks / self.n_runs as f64;
        }
        let n_instructions: f64 = truth.blocks.iter().map(|row| row.count.value * f64::from(row.n_insns)).sum();
        let in_bursts: f64 = merged.blocks.iter().map(|row| row.count.seen as f64 * f64::from(row.n_insns)).sum();
        let native_percent = 100.0 * in_bursts / (n_instructions * self.n_runs as f64).max(1.0);
        let whole = if self.n_runs == 1 { truth.clone() } else { profile::scale(truth, self.n_runs as f64) };
        Ok(Observation {
            program: workload.name.to_owned(),
            setting: setting.name.clone(),
            size: self.size.to_string(),
            n_runs: self.n_runs,
            cpu_seconds,
            n_bursts,
            ticks_percent,
            accounted_percent,
            net_percent: accounted_percent - native_percent,
            native_percent,
            estimated: Figures::of(&compare(truth, &merged), contexts[0]),
            raw: Figures::of(&compare(truth, &raw(&merged)), contexts[1]),
            intervals: Intervals::of(&honesty(&whole, &merged, Of::Shares, MIN_BURSTS)),
            count_intervals: Intervals::of(&honesty(&whole, &merged, Of::Counts, MIN_BURSTS)),
            count_score: interval_score(&whole, &merged, Of::Counts, MIN_BURSTS).map(|score| score.mean),
            scale_factor: scale_factor(&merged),
            total_ratio: total_blocks(&merged) / total_blocks(&whole).max(1.0),
            load: machine::load().parse().ok(),
        })
    }

    /// Records a program until all of its code was translated before.
    pub(crate) fn record(&self, workload: &Workload, setting: &Setting, seed: usize) -> anyhow::Result<Run> {
        let path = self.data.root().join(format!("out/{}.strobe", workload.name));
        let record = || {
            let mode = Mode::Bursts(setting.bursts.clone());
            recording::record(&self.data, workload, &path, mode, seed as u64 + 1)
        };
        let mut run = record()?;
        for _ in 1..MAX_TRIES {
            if run.found_everything_translated() {
                break;
            }
            run = record()?;
        }
        Ok(run)
    }
}

/// Whether blocks of a module were counted.
fn has_run_in(profile: &Profile, module: &str) -> bool {
    profile.blocks.iter().filter(|block| block.count.value > 0.0).any(|block| {
        let function = &profile.functions[block.function.index()];
        profile.modules[function.module.index()].path == module
    })
}

/// Exact recordings may know no targets of computed calls and jumps, stubs of the linkage table
/// among them; then nothing can be said about these call pairs.
fn leave_out_uncounted_calls(sampled: &mut Profile, truth: &Profile) {
    let is_computed = |profile: &Profile, call: &Call| {
        let end = profile.blocks[call.site.index()].end;
        matches!(end, BlockEnd::IndirectCall | BlockEnd::IndirectJump)
    };
    if !truth.calls.iter().any(|call| is_computed(truth, call)) {
        let calls = std::mem::take(&mut sampled.calls);
        sampled.calls = calls.into_iter().filter(|call| !is_computed(sampled, call)).collect();
    }
}

/// The profile that says of the run what bursts saw, unweighted.
fn raw(profile: &Profile) -> Profile {
    let mut raw = profile.clone();
    let counts = raw.blocks.iter_mut().map(|row| &mut row.count);
    let counts = counts.chain(raw.edges.iter_mut().map(|row| &mut row.count));
    let counts = counts.chain(raw.paths.iter_mut().map(|row| &mut row.count));
    let counts = counts.chain(raw.calls.iter_mut().map(|row| &mut row.count));
    let counts = counts.chain(raw.contexts.iter_mut().map(|row| &mut row.entries));
    let counts = counts.chain(raw.functions.iter_mut().map(|row| &mut row.entries));
    counts.for_each(|count| count.value = count.seen as f64);
    raw
}

pub(crate) fn total_blocks(profile: &Profile) -> f64 {
    profile.blocks.iter().map(|row| row.count.value).sum()
}

/// Observes every program at every setting.
pub fn run(
    bench: &Bench,
    programs: &[Workload],
    settings: &[Setting],
    mut report: impl FnMut(&Observation),
) -> anyhow::Result<Vec<Observation>> {
    let mut observations = Vec::new();
    for workload in programs {
        let truth = bench.truth(workload)?;
        for setting in settings {
            let observation = bench.observe(workload, setting, &truth)?;
            report(&observation);
            observations.push(observation);
        }
    }
    Ok(observations)
}

/// One row per observation, and the mean of each setting.
#[must_use]
pub fn table(observations: &[Observation]) -> Table {
    let mut table = Table::new(&Observation::HEADING);
    observations.iter().for_each(|observation| table.row(observation.cells()));
    let names: BTreeSet<&str> = observations.iter().map(|observation| observation.setting.as_str()).collect();
    for name in names {
        let of_setting: Vec<&Observation> = observations.iter().filter(|row| row.setting == name).collect();
        if of_setting.len() > 1 {
            table.row(mean(&of_setting).cells());
        }
    }
    table
}
