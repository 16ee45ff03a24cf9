//! `strobe`: which paths a native x86-64 Linux program really runs, and what is in it.
//!
//! A run has two steps. [`args`] holds exactly what was typed and turns it into a [`job`], plain
//! values that are ready to use; the work takes only those. Exit codes: 0 success, 1 the work
//! failed, 2 the command line is wrong. A reader that closes the pipe early has seen enough: that
//! is success.
#![forbid(unsafe_code)]

mod args;
mod args_cache;
mod args_count;
mod args_record;
mod args_recording;
mod args_tools;
mod args_values;
mod args_view;
mod cache;
mod doctor;
mod dump;
mod figures;
mod find;
mod html;
mod input;
mod inspect;
mod job;
mod listing;
mod look_up;
mod metric;
mod module;
mod names;
mod numbers;
mod output;
mod progress;
mod props;
mod record;
mod report;
mod tools;
#[cfg(feature = "tui")]
mod top;
#[cfg(not(feature = "tui"))]
#[path = "no_top.rs"]
mod top;
mod view;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anstream::AutoStream;
use clap::{CommandFactory as _, Parser as _};

use crate::args::Args;
use crate::job::{Job, Props};

fn main() -> ExitCode {
    // Whoever has executed strobe in its own place, as `cargo run` does, has left its time on the
    // clock of the process.
    let cpu_before = record::own_cpu_time();
    let Props { color, job } = Args::parse().into_props();
    match run(&job, color, cpu_before) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "strobe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(job: &Job, color: anstream::ColorChoice, cpu_before: Duration) -> anyhow::Result<ExitCode> {
    let stdout = AutoStream::new(io::stdout().lock(), color);
    let mut out = BufWriter::with_capacity(1 << 16, stdout);
    match job {
        Job::Record(props) => return record::run(props, cpu_before),
        Job::Ctl(props) => record::control::control(props)?,
        Job::Cache(props) => cache::run(props, &mut out)?,
        Job::Doctor { json } => doctor::run(*json, &mut out)?,
        Job::Inspect(props) => inspect::run(props, &mut out)?,
        Job::Dump(props) => dump::run(props, &mut out)?,
        Job::View(props) => view::run(props, color)?,
        Job::Tool(job) => {
            let code = tools::run(job, Args::command(), &mut out)?;
            out.flush()?;
            return Ok(code);
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
