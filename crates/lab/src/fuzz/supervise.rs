//! The process that starts workers, watches them, and adds up what they say.
//!
//! A worker runs under a limit on its address space, so that a blow-up kills it and not the
//! machine. A worker that says nothing for the time limit hangs: it is killed. Either way the input
//! it was at is recorded as a failure, and a new worker goes on behind it.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use anyhow::Context;
use indicatif::ProgressBar;

use super::exercise::Outcome;
use super::worker::{Message, Share};
use super::{Failure, FailureKind, Options, Summary};

/// Name of the hidden subcommand that runs a worker.
pub const WORKER_COMMAND: &str = "fuzz-worker";

/// Runs all inputs with several workers at a time.
pub fn run(base_dir: &Path, options: &Options) -> anyhow::Result<Summary> {
    let progress = ProgressBar::new(options.iterations);
    let jobs = options.jobs.get() as u64;
    let summaries: Vec<anyhow::Result<Summary>> = thread::scope(|scope| {
        let start = |job: u64| {
            let share = Share { seed: options.seed, from: job, to: options.iterations, step: jobs };
            let progress = progress.clone();
            scope.spawn(move || run_share(base_dir, options, share, &progress))
        };
        let running: Vec<_> = (0..jobs).map(start).collect();
        running.into_iter().map(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    progress.finish_and_clear();
    let mut total = Summary::default();
    for summary in summaries {
        total.add(summary?);
    }
    total.failures.sort_by_key(|failure| failure.index);
    Ok(total)
}

/// Runs one share of the inputs, with as many workers in a row as it takes.
fn run_share(base_dir: &Path, options: &Options, mut share: Share, progress: &ProgressBar) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    while share.from < share.to {
        let mut worker = start_worker(base_dir, options, share)?;
        let messages = listen(&mut worker)?;
        let mut current = None;
        let stopped = loop {
            match messages.recv_timeout(options.time_limit) {
                Ok(Message::Begin(index)) => current = Some(index),
                Ok(Message::End { time_us, outcome }) => {
                    if let Some(index) = current.take() {
                        summary.record(index, time_us, outcome);
                        progress.inc(1);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    worker.kill().context("cannot stop a worker that hangs")?;
                    worker.wait()?;
                    break Some(FailureKind::Hang);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = worker.wait()?;
                    break (!status.success()).then(|| FailureKind::Crash(status.to_string()));
                }
            }
        };
        match (stopped, current) {
            (None, _) => return Ok(summary),
            (Some(kind), Some(index)) => {
                summary.n_inputs += 1;
                summary.failures.push(Failure { index, kind });
                share.from = index + share.step;
            }
            (Some(kind), None) => anyhow::bail!("a worker stopped outside any input: {kind}"),
        }
    }
    Ok(summary)
}

fn start_worker(base_dir: &Path, options: &Options, share: Share) -> anyhow::Result<Child> {
    let Share { seed, from, to, step } = share;
    Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {}; exec \"$0\" \"$@\"", options.memory_limit_mib * 1024))
        .arg(env::current_exe()?)
        .arg(WORKER_COMMAND)
        .arg(base_dir)
        .args([seed, from, to, step].map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start a fuzz worker")
}

/// A thread reads the worker's messages, so that waiting for them can time out.
fn listen(worker: &mut Child) -> anyhow::Result<Receiver<Message>> {
    let out = worker.stdout.take().context("a worker without standard output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        for message in lines.filter_map(|line| Message::from_line(&line)) {
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

impl Summary {
    fn record(&mut self, index: u64, time_us: u64, outcome: Result<Outcome, String>) {
        self.n_inputs += 1;
        self.slowest = self.slowest.max((time_us, index));
        match outcome {
            Ok(Outcome::Refused(reason)) => *self.refused.entry(reason).or_default() += 1,
            Ok(Outcome::Analyzed { problems }) if problems.is_empty() => self.n_clean += 1,
            Ok(Outcome::Analyzed { problems }) => {
                self.n_partial += 1;
                for (kind, count) in problems {
                    let (inputs, total) = self.problems.entry(kind).or_default();
                    *inputs += 1;
                    *total = total.saturating_add(count);
                }
            }
            Err(message) => self.failures.push(Failure { index, kind: FailureKind::Panic(message) }),
        }
    }

    fn add(&mut self, other: Summary) {
        self.n_inputs += other.n_inputs;
        self.n_clean += other.n_clean;
        self.n_partial += other.n_partial;
        self.slowest = self.slowest.max(other.slowest);
        add_counts(&mut self.refused, other.refused);
        for (kind, (inputs, total)) in other.problems {
            let sum = self.problems.entry(kind).or_default();
            *sum = (sum.0 + inputs, sum.1.saturating_add(total));
        }
        self.failures.extend(other.failures);
    }
}

fn add_counts(sum: &mut BTreeMap<String, u64>, other: BTreeMap<String, u64>) {
    for (key, count) in other {
        *sum.entry(key).or_default() += count;
    }
}
