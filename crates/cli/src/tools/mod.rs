//! What is done with profiles as a whole: comparing, adding, judging, exporting, drawing, packing,
//! watching; and the program's own manual.
//!
//! Each command is one module with `run(props, out)`. All of them read profiles through [`opened`],
//! which also finds names.

mod accuracy;
mod archive;
mod basic_block_ids;
mod binary_facts;
mod bolt_names;
mod diff;
mod diff_json;
mod export;
pub mod figures;
mod flame;
mod manual;
mod merge;
pub mod opened;
pub mod output;
mod props;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

pub use archive::binary_of;
pub use props::{
    AccuracyProps, ArchiveProps, CompletionsProps, DiffProps, ExportProps, FlameProps, ManProps, MergeProps, ToolJob,
    TopProps,
};

/// Does the work. The exit code says what `diff --fail-above` found, and is success otherwise.
pub fn run(job: &ToolJob, out: &mut impl Write) -> Result<ExitCode> {
    match job {
        ToolJob::Diff(props) => return diff::run(props, out),
        ToolJob::Merge(props) => merge::run(props)?,
        ToolJob::Accuracy(props) => accuracy::run(props, out)?,
        ToolJob::Export(props) => export::run(props, out)?,
        ToolJob::Flame(props) => flame::run(props, out)?,
        ToolJob::Archive(props) => archive::run(props)?,
        ToolJob::Top(props) => crate::top::run(&props.profile)?,
        ToolJob::Man(props) => manual::write_pages(&props.folder)?,
        ToolJob::Completions(props) => manual::write_completions(props.shell, out)?,
    }
    Ok(ExitCode::SUCCESS)
}
