//! Damaged files through the real parsers and the real analysis.
//!
//! What must hold for every input: no panic, no hang, no memory blow-up; either a typed error, or a
//! result that counts what it left out. An input follows from the seed and its index, so any
//! failure can be had again; the bytes are saved as well.

mod bases;
mod exercise;
mod mutate;
mod supervise;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

pub use supervise::WORKER_COMMAND;
pub use worker::{Share, run as run_worker};

use crate::table::{Table, grouped};

/// How to fuzz.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of inputs.
    pub iterations: u64,
    /// Inputs with different seeds are different.
    pub seed: u64,
    /// Workers at a time.
    pub jobs: NonZeroUsize,
    /// Longest time that one input may take.
    pub time_limit: Duration,
    /// Most address space of a worker.
    pub memory_limit_mib: u64,
    /// Where base files and failing inputs are kept.
    pub dir: PathBuf,
}

/// What came of all inputs.
#[derive(Debug, Default)]
pub struct Summary {
    /// Inputs exercised.
    pub n_inputs: u64,
    /// Inputs analysed in which nothing wrong was noticed.
    pub n_clean: u64,
    /// Inputs analysed in part, with counted damage.
    pub n_partial: u64,
    /// Inputs refused, by error.
    pub refused: BTreeMap<String, u64>,
    /// Damage noticed: inputs that had it, and its extent.
    pub problems: BTreeMap<String, (u64, u64)>,
    /// Time in microseconds and index of the slowest input.
    pub slowest: (u64, u64),
    /// Panics, crashes and hangs.
    pub failures: Vec<Failure>,
}

/// An input that broke the analysis.
#[derive(Debug)]
pub struct Failure {
    /// Index of the input.
    pub index: u64,
    /// How.
    pub kind: FailureKind,
}

/// How an input broke the analysis.
#[derive(Debug)]
pub enum FailureKind {
    /// A panic, with its message.
    Panic(String),
    /// The process died, by a signal, or because memory ran out.
    Crash(String),
    /// The time limit passed.
    Hang,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Panic(message) => write!(f, "panic: {message}"),
            FailureKind::Crash(status) => write!(f, "crash or out of memory: {status}"),
            FailureKind::Hang => f.write_str("hang"),
        }
    }
}

/// Exercises all inputs, and saves those that fail.
pub fn run(options: &Options) -> anyhow::Result<Summary> {
    let base_dir = prepare(&options.dir)?;
    let summary = supervise::run(&base_dir, options)?;
    if !summary.failures.is_empty() {
        let bases = bases::read(&base_dir)?;
        for failure in &summary.failures {
            let (_, bytes) = mutate::input(&bases, options.seed, failure.index);
            let path = options.dir.join(format!("failure-{}-{}.elf", options.seed, failure.index));
            fs::write(&path, bytes).with_context(|| format!("cannot save {}", path.display()))?;
        }
    }
    Ok(summary)
}

/// Exercises a single input in this process, so that a panic shows where it came from, and says
/// what came of it.
pub fn run_one(dir: &Path, seed: u64, index: u64) -> anyhow::Result<String> {
    let (strategy, bytes, outcome) = worker::run_one(&prepare(dir)?, seed, index)?;
    Ok(format!("input {index} ({strategy}, {} bytes): {outcome:?}", bytes.len()))
}

/// Makes fresh base files and returns their directory.
fn prepare(dir: &Path) -> anyhow::Result<PathBuf> {
    let base_dir = dir.join("bases");
    if base_dir.exists() {
        fs::remove_dir_all(&base_dir)?;
    }
    fs::create_dir_all(&base_dir).with_context(|| format!("cannot make {}", base_dir.display()))?;
    bases::collect(&base_dir)?;
    Ok(base_dir)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut outcomes = Table::new(&["outcome", "inputs"]);
        outcomes.row(["analysed, nothing wrong noticed".to_owned(), grouped(self.n_clean)]);
        outcomes.row(["analysed in part, damage counted".to_owned(), grouped(self.n_partial)]);
        for (error, &inputs) in &self.refused {
            outcomes.row([format!("refused: {error}"), grouped(inputs)]);
        }
        outcomes.row(["failed".to_owned(), grouped(self.failures.len() as u64)]);
        outcomes.row(["all".to_owned(), grouped(self.n_inputs)]);
        let mut problems = Table::new(&["damage", "inputs", "in all"]);
        for (kind, &(inputs, total)) in &self.problems {
            problems.row([kind.clone(), grouped(inputs), grouped(total)]);
        }
        let (time_us, index) = self.slowest;
        writeln!(f, "{outcomes}\n{problems}\nslowest input: {index}, {:.1} ms", time_us as f64 / 1e3)?;
        for Failure { index, kind } in &self.failures {
            writeln!(f, "input {index}: {kind}")?;
        }
        Ok(())
    }
}
