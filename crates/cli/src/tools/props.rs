//! What the tools are asked to do, as plain values.

use std::path::PathBuf;

use clap_complete::Shell;

#[derive(Debug)]
pub enum ToolJob {
    Diff(DiffProps),
    Merge(MergeProps),
    Accuracy(AccuracyProps),
    Export(ExportProps),
    Flame(FlameProps),
    Archive(ArchiveProps),
    Top(TopProps),
    Man(ManProps),
    Completions(CompletionsProps),
}

#[derive(Debug)]
pub struct DiffProps {
    pub before: PathBuf,
    pub after: PathBuf,
    /// Largest growth of a function's share of CPU time that is no failure.
    pub fail_above: Option<f64>,
    /// Rows to show of each table.
    pub n_rows: usize,
    /// Whether changes are shown that may be chance.
    pub shows_chance: bool,
    pub json: bool,
}

#[derive(Debug)]
pub struct MergeProps {
    pub output: PathBuf,
    /// The profiles to add; at least one.
    pub inputs: Vec<PathBuf>,
    pub quiet: bool,
}

#[derive(Debug)]
pub struct AccuracyProps {
    pub exact: PathBuf,
    pub sampled: PathBuf,
    pub json: bool,
}

#[derive(Debug)]
pub struct ExportProps {
    pub format: export::Format,
    /// `-` is standard output.
    pub output: PathBuf,
    pub profile: PathBuf,
    /// Part of the path of the module that formats about one module describe; `None`: the recorded
    /// program.
    pub module: Option<String>,
    pub table: export::csv::Table,
}

#[derive(Debug)]
pub struct FlameProps {
    /// `-` is standard output.
    pub output: PathBuf,
    pub profile: PathBuf,
    pub title: Option<String>,
    pub is_reversed: bool,
}

#[derive(Debug)]
pub enum ArchiveProps {
    Create { profile: PathBuf, archive: PathBuf, scrub: bool },
    Extract { archive: PathBuf, folder: PathBuf },
}

#[derive(Debug)]
pub struct TopProps {
    pub profile: PathBuf,
}

#[derive(Debug)]
pub struct ManProps {
    pub folder: PathBuf,
}

#[derive(Debug)]
pub struct CompletionsProps {
    pub shell: Shell,
}
