//! Commands on whole profiles: `diff`, `merge`, `accuracy`, `export`, `flame`, `archive`, `top`;
//! and the program's own manual.
//!
//! Each command is one module with `run(props, out)`. All of them read profiles through [`opened`].

mod accuracy;
mod archive;
mod binary_facts;
mod diff;
mod diff_json;
mod export;
mod flame;
mod manual;
mod merge;
mod opened;
mod props;
mod sides;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Command;

pub use archive::binary_of;
pub use props::{
    AccuracyProps, ArchiveProps, CompletionsProps, DiffProps, ExportProps, FlameProps, ManProps, MergeProps, ToolJob,
    TopProps,
};

/// Does the work; the manual is that of `program`. The exit code says what `diff --fail-above`
/// found, and is success otherwise.
pub fn run(job: &ToolJob, program: Command, out: &mut impl Write) -> Result<ExitCode> {
    match job {
        ToolJob::Diff(props) => return diff::run(props, out),
        ToolJob::Merge(props) => merge::run(props)?,
        ToolJob::Accuracy(props) => accuracy::run(props, out)?,
        ToolJob::Export(props) => export::run(props, out)?,
        ToolJob::Flame(props) => flame::run(props, out)?,
        ToolJob::Archive(props) => archive::run(props)?,
        ToolJob::Top(props) => crate::top::run(&props.profile)?,
        ToolJob::Man(props) => manual::write_pages(program, &props.folder)?,
        ToolJob::Completions(props) => manual::write_completions(program, props.shell, out)?,
    }
    Ok(ExitCode::SUCCESS)
}
