//! The command line of commands on whole profiles, exactly as typed: comparing, adding, exporting,
//! drawing, archiving.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use clap_complete::Shell;

use crate::tools::{
    AccuracyProps, ArchiveProps, CompletionsProps, DiffProps, ExportProps, FlameProps, ManProps, MergeProps, ToolJob,
    TopProps,
};

/// Read if no profile is named.
const DEFAULT_PROFILE: &str = "profile.strobe";

#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    Diff(DiffArgs),
    Merge(MergeArgs),
    Accuracy(AccuracyArgs),
    Export(ExportArgs),
    Flame(FlameArgs),
    Archive(ArchiveArgs),
    Top(TopArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
}

/// Show what changed from one profile to another beyond the error bars
///
/// Compares shares of CPU time and counts of functions, paths and loops, and the ways of branches.
/// A change is shown if it is more than chance: at most 5 % of the changes shown are expected to be
/// false.
#[derive(Debug, ClapArgs)]
#[command(before_help = DIFF_EXAMPLES, max_term_width = 100)]
pub struct DiffArgs {
    /// The profile before
    before: PathBuf,

    /// The profile after
    after: PathBuf,

    /// Exit with 1 if a function's share of CPU time grew by more than this many percentage points,
    /// beyond the error bars
    #[arg(long, value_name = "PCT", value_parser = parse_points)]
    fail_above: Option<f64>,

    /// Rows to show of each table
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    rows: usize,

    /// Also show changes that may be chance
    #[arg(long)]
    all: bool,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  strobe diff before.strobe after.strobe
  strobe diff --fail-above 3% main.strobe branch.strobe || echo slower
  strobe diff --json a.strobe b.strobe | jq '.functions[] | select(.share.is_significant)'";

/// Add up the profiles of several runs
#[derive(Debug, ClapArgs)]
#[command(before_help = MERGE_EXAMPLES, max_term_width = 100)]
pub struct MergeArgs {
    /// Where the sum goes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The profiles to add
    #[arg(value_name = "PROFILE", required = true)]
    inputs: Vec<PathBuf>,

    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  strobe merge -o week.strobe monday.strobe tuesday.strobe
  strobe merge -o all.strobe runs/*.strobe";

/// Judge a sampled profile by the exact one of the same program and input
#[derive(Debug, ClapArgs)]
#[command(before_help = ACCURACY_EXAMPLES, max_term_width = 100)]
pub struct AccuracyArgs {
    /// The profile of `strobe count`
    exact: PathBuf,

    /// The profile to judge
    sampled: PathBuf,

    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

const ACCURACY_EXAMPLES: &str = "\
Examples:
  strobe accuracy exact.strobe sampled.strobe
  strobe accuracy --json exact.strobe sampled.strobe | jq .wall_weight";

/// Write a profile in the format of another tool
#[derive(Debug, ClapArgs)]
#[command(before_help = EXPORT_EXAMPLES, after_help = formats_help(), max_term_width = 100)]
pub struct ExportArgs {
    /// The format; one of those below
    #[arg(short, long, value_name = "NAME", value_parser = parse_format)]
    format: export::Format,

    /// Where it goes; `-` is standard output [default: named after the profile and the format]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The profile
    #[arg(default_value = DEFAULT_PROFILE)]
    profile: PathBuf,

    /// For formats about one binary: the module whose path contains TEXT [default: the recorded
    /// program]
    #[arg(short, long, value_name = "TEXT")]
    module: Option<String>,

    /// For csv: functions, edges, paths, calls, contexts, loops, methods or regions
    #[arg(long, value_name = "NAME", value_parser = parse_table, default_value = "functions")]
    table: export::csv::Table,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  strobe export --format pprof -o profile.pb.gz && go tool pprof -http : profile.pb.gz
  strobe export --format bolt-fdata -o app.fdata run1.strobe
  strobe export --format csv --table paths -o - | column -ts,";

/// Draw CPU time by calling context as a flame graph
///
/// Kernel time is a frame [kernel] on top of the function that entered the kernel. The picture can
/// be zoomed and searched in a browser.
#[derive(Debug, ClapArgs)]
#[command(before_help = FLAME_EXAMPLES, max_term_width = 100)]
pub struct FlameArgs {
    /// Where the SVG file goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flame.svg")]
    output: PathBuf,

    /// The profile
    #[arg(default_value = DEFAULT_PROFILE)]
    profile: PathBuf,

    /// Title of the picture [default: the recorded command]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Start with the functions in which time was spent, with their callers above them
    #[arg(long)]
    reverse: bool,
}

const FLAME_EXAMPLES: &str = "\
Examples:
  strobe flame -o flame.svg
  strobe flame --reverse -o - run1.strobe > callees.svg";

/// Pack a profile with the binaries and debug files it needs on another machine
///
/// The result is a tar file compressed with zstd. Extracted, it is a folder whose profile.strobe
/// finds its files beside it.
#[derive(Debug, ClapArgs)]
#[command(before_help = ARCHIVE_EXAMPLES, max_term_width = 100)]
pub struct ArchiveArgs {
    /// The archive, or with --extract the folder to make
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The profile, or with --extract the archive
    #[arg(default_value = DEFAULT_PROFILE)]
    input: PathBuf,

    /// Unpack an archive into a new folder
    #[arg(short = 'x', long, conflicts_with = "scrub")]
    extract: bool,

    /// Leave out paths, arguments, host and user names; and the binaries, whose debug data has them
    #[arg(long)]
    scrub: bool,
}

const ARCHIVE_EXAMPLES: &str = "\
Examples:
  strobe archive -o run1.tar.zst run1.strobe
  strobe archive --scrub -o public.tar.zst
  strobe archive --extract -o run1 run1.tar.zst && strobe report run1/profile.strobe";

/// Watch a profile that is being recorded
///
/// Shows hot functions, paths and contexts, and what recording costs, about once a second. Keys: q
/// quits, p pauses, tab goes to the next table, the arrows move.
#[derive(Debug, ClapArgs)]
#[command(before_help = TOP_EXAMPLES, max_term_width = 100)]
pub struct TopArgs {
    /// The profile
    #[arg(default_value = DEFAULT_PROFILE)]
    profile: PathBuf,
}

const TOP_EXAMPLES: &str = "\
Examples:
  strobe record -- ./server & strobe top
  strobe top nightly.strobe";

/// Write the manual pages
#[derive(Debug, ClapArgs)]
#[command(before_help = MAN_EXAMPLES, max_term_width = 100)]
pub struct ManArgs {
    /// The folder that they go to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

const MAN_EXAMPLES: &str = "\
Examples:
  strobe man -o ~/.local/share/man/man1
  strobe man -o /tmp/man && man -l /tmp/man/strobe-record.1";

/// Print the completions of a shell
#[derive(Debug, ClapArgs)]
#[command(before_help = COMPLETIONS_EXAMPLES, max_term_width = 100)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  strobe completions bash > ~/.local/share/bash-completion/completions/strobe
  strobe completions zsh > ~/.zfunc/_strobe";

impl ToolCommand {
    pub fn into_job(self) -> ToolJob {
        match self {
            ToolCommand::Diff(args) => ToolJob::Diff(DiffProps {
                before: args.before,
                after: args.after,
                fail_above: args.fail_above,
                n_rows: args.rows,
                shows_chance: args.all,
                json: args.json,
            }),
            ToolCommand::Merge(args) => {
                ToolJob::Merge(MergeProps { output: args.output, inputs: args.inputs, quiet: args.quiet })
            }
            ToolCommand::Accuracy(args) => {
                ToolJob::Accuracy(AccuracyProps { exact: args.exact, sampled: args.sampled, json: args.json })
            }
            ToolCommand::Export(args) => ToolJob::Export(args.into_props()),
            ToolCommand::Flame(args) => ToolJob::Flame(FlameProps {
                output: args.output,
                profile: args.profile,
                title: args.title,
                is_reversed: args.reverse,
            }),
            ToolCommand::Archive(args) => ToolJob::Archive(args.into_props()),
            ToolCommand::Top(args) => ToolJob::Top(TopProps { profile: args.profile }),
            ToolCommand::Man(args) => ToolJob::Man(ManProps { folder: args.output }),
            ToolCommand::Completions(args) => ToolJob::Completions(CompletionsProps { shell: args.shell }),
        }
    }
}

impl ExportArgs {
    fn into_props(self) -> ExportProps {
        let extension = self.format.extension();
        let output = self.output.unwrap_or_else(|| self.profile.with_extension(extension));
        ExportProps { format: self.format, output, profile: self.profile, module: self.module, table: self.table }
    }
}

impl ArchiveArgs {
    fn into_props(self) -> ArchiveProps {
        match self.extract {
            true => ArchiveProps::Extract { archive: self.input, folder: self.output },
            false => ArchiveProps::Create { profile: self.input, archive: self.output, scrub: self.scrub },
        }
    }
}

fn formats_help() -> String {
    let line = |format: export::Format| format!("\n  {:<16} {}", format.name(), format.description());
    export::Format::ALL.into_iter().fold("Formats:".to_owned(), |help, format| help + &line(format))
}

fn parse_format(text: &str) -> Result<export::Format, String> {
    text.parse().map_err(|unknown: export::UnknownName| unknown.to_string())
}

fn parse_table(text: &str) -> Result<export::csv::Table, String> {
    text.parse().map_err(|unknown: export::UnknownName| unknown.to_string())
}

/// Percentage points as a share.
fn parse_points(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points / 100.0),
        _ => Err("give percentage points from 0 to 100, for example 3%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(subcommand)]
        command: ToolCommand,
    }

    fn job(words: &[&str]) -> Result<ToolJob, clap::Error> {
        Typed::try_parse_from(["strobe"].iter().chain(words)).map(|typed| typed.command.into_job())
    }

    #[test]
    fn points_may_have_a_percent_sign() {
        assert_eq!((parse_points("3%"), parse_points("0.5")), (Ok(0.03), Ok(0.005)));
        for bad in ["", "%", "-1", "101", "three"] {
            assert!(parse_points(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_export_is_named_after_profile_and_format() {
        let Ok(ToolJob::Export(props)) = job(&["export", "--format", "pprof", "run.1.strobe"]) else { panic!() };
        assert_eq!(props.output, PathBuf::from("run.1.pb.gz"));
        let Ok(ToolJob::Export(props)) = job(&["export", "-f", "csv", "--table", "loops", "-o", "-"]) else { panic!() };
        assert_eq!((props.profile, props.output), (PathBuf::from("profile.strobe"), PathBuf::from("-")));
        assert_eq!(props.table, export::csv::Table::Loops);
    }

    #[test]
    fn unknown_formats_are_answered_with_the_known() {
        let message = job(&["export", "--format", "perf"]).unwrap_err().to_string();
        assert!(message.contains("perf-script") && message.contains("bolt-fdata"), "{message}");
    }

    #[test]
    fn extracting_scrubs_nothing() {
        assert!(job(&["archive", "-x", "--scrub", "-o", "x"]).is_err());
        assert!(matches!(job(&["archive", "-x", "-o", "x", "y"]), Ok(ToolJob::Archive(ArchiveProps::Extract { .. }))));
    }
}
