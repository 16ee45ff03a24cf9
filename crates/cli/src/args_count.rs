//! The command lines of `count` and `trace`, exactly as typed.

use clap::{Args as ClapArgs, ValueEnum};
use emit::Counting;
use recorder::{Exact, GuideFile, Mode};

use crate::args_recording::{CostArgs, MoreArgs, NotingArgs, RunArgs, StreamArgs};
use crate::metric::{self, Wanted};
use crate::props::RecordProps;

/// Run a program and count everything that it runs
///
/// Nothing is sampled: every path, block or call is counted, also in processes that the program
/// starts. The program takes a multiple of its time, and two runs of a deterministic program have
/// the same counts. Output, exit status and signals are the program's own.
#[derive(Debug, ClapArgs)]
#[command(before_help = COUNT_EXAMPLES, max_term_width = 100)]
pub struct CountArgs {
    /// What is counted; `--metric` alone means contexts
    #[arg(long, value_enum, value_name = "WHAT", help_heading = COUNTS)]
    of: Option<Counted>,

    #[command(flatten)]
    per: PerArgs,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    noting: NotingArgs,

    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    more: MoreArgs,

    #[command(flatten)]
    cost: CostArgs,
}

const COUNT_EXAMPLES: &str = "\
Examples:
  strobe count -- gzip -k big.tar
  strobe count --of contexts --metric cycles -- ./program";

/// Heading of what is counted.
const COUNTS: &str = "What is counted";

/// Options for what is added up beside counts.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = COUNTS)]
pub struct PerArgs {
    /// Add up along paths or contexts: cycles, or misses of a cache, l1d:SIZE:WAYS:LINE
    #[arg(long, value_name = "NAME", value_parser = metric::parse)]
    metric: Option<Wanted>,

    /// Tell calling contexts apart by call site as well
    #[arg(long)]
    per_call_site: bool,
}

/// Run a program and write every path that it executes to a file, in order
///
/// The trace goes to a file beside the profile, named like it with `.trace` appended, as one stream
/// per thread. The profile has the counts. `strobe dump trace` prints it.
#[derive(Debug, ClapArgs)]
#[command(before_help = TRACE_EXAMPLES, max_term_width = 100)]
pub struct TraceArgs {
    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    more: MoreArgs,

    #[command(flatten)]
    cost: CostArgs,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  strobe trace -o run.strobe -- ./program
  strobe dump trace run.strobe.trace --limit 20";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Counted {
    /// Ball-Larus paths, and the blocks and edges that follow from them [default]
    Paths,
    /// Ball-Larus paths that end wherever control comes to a loop header
    HeaderPaths,
    /// Blocks and edges
    Blocks,
    /// Calls, by calling context
    Contexts,
    /// Ball-Larus paths, by calling context
    ContextPaths,
    /// Nothing, to measure the cost of running in copies alone
    #[value(hide = true)]
    Nothing,
}

impl CountArgs {
    pub fn into_props(self) -> RecordProps {
        let hardware = self.per.hardware();
        let perturbation = self.cost.perturbation;
        let mode = counting(self.of, self.per, self.cost.into_guide());
        let noting = self.noting.into_noting(self.stream, true);
        RecordProps { hardware, perturbation, ..self.run.into_props(self.more, mode, noting) }
    }
}

impl TraceArgs {
    pub fn into_props(self) -> RecordProps {
        let perturbation = self.cost.perturbation;
        let mode = tracing(self.cost.into_guide());
        RecordProps { perturbation, ..self.run.into_props(self.more, mode, None) }
    }
}

impl PerArgs {
    /// Returns the hardware counters that were asked for.
    pub fn hardware(&self) -> Vec<crate::props::Hardware> {
        self.metric.clone().map(Wanted::hardware).unwrap_or_default()
    }

    pub fn is_given(&self) -> bool {
        self.metric.is_some() || self.per_call_site
    }
}

/// Returns the mode that counts; what does not go together ends the program.
pub fn counting(of: Option<Counted>, per: PerArgs, guide: Option<GuideFile>) -> Mode {
    let refuse = |message: &str| -> ! { clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message).exit() };
    let of = of.unwrap_or(if per.metric.is_some() { Counted::Contexts } else { Counted::Paths });
    if per.metric.is_some() && !matches!(of, Counted::Paths | Counted::Contexts | Counted::ContextPaths) {
        refuse("--metric goes with paths, contexts and context-paths only\n")
    }
    if per.per_call_site && !matches!(of, Counted::Contexts | Counted::ContextPaths) {
        refuse("--per-call-site goes with contexts and context-paths only\n")
    }
    let metric = per.metric.as_ref().and_then(Wanted::counted);
    let counting = match of {
        Counted::Paths => metric.map_or(Counting::Paths, Counting::PathMetric),
        Counted::HeaderPaths => Counting::HeaderPaths,
        Counted::Blocks => Counting::Blocks,
        Counted::Contexts => Counting::contexts(false, metric),
        Counted::ContextPaths => Counting::contexts(true, metric),
        Counted::Nothing => Counting::Nothing,
    };
    Mode::Exact(Exact { counting: if per.per_call_site { counting.by_call_site() } else { counting }, guide })
}

/// Returns the mode that writes every path to a file.
pub fn tracing(guide: Option<GuideFile>) -> Mode {
    Mode::Exact(Exact { counting: Counting::TracedPaths, guide })
}
