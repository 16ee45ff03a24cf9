//! The command line of the views of a profile, exactly as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use crate::view::props::{BranchOrder, CodeStyle, ContextsProps, MetricName, PathOrder, Query, Statistics, ViewProps};

#[derive(Debug, Subcommand)]
pub enum ViewCommand {
    Report(ReportArgs),
    Paths(PathsArgs),
    Edges(EdgesArgs),
    Calls(CallsArgs),
    Contexts(ContextsArgs),
    Annotate(AnnotateArgs),
    Loops(LoopsArgs),
    Branches(BranchesArgs),
    Methods(MethodsArgs),
    Values(ValuesArgs),
}

/// Show a profile at a glance: cost, coverage, system calls, hot functions, paths and contexts
#[derive(Debug, ClapArgs)]
#[command(before_help = REPORT_EXAMPLES, max_term_width = 100)]
pub struct ReportArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    top: TopArgs,

    /// Write one self-contained HTML page, with flame graph, source and loops
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  strobe report
  strobe report -n 30 nightly.strobe
  strobe report --html nightly.html nightly.strobe
  strobe report --json | jq '.functions[0]'";

/// Show hot paths: which way control really goes, block by block
#[derive(Debug, ClapArgs)]
#[command(before_help = PATHS_EXAMPLES, max_term_width = 100)]
pub struct PathsArgs {
    #[command(flatten)]
    rows: RowsArgs,

    /// What makes a path hot: time, flow (runs times branches) or count
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = PathOrder::Time, hide_possible_values = true)]
    by: PathOrder,

    /// Show instructions even where there are source lines
    #[arg(long)]
    asm: bool,

    /// List a path once for each calling context (needs `count --of context-paths`)
    #[arg(long)]
    by_context: bool,

    #[command(flatten)]
    statistics: StatisticsArgs,
}

const PATHS_EXAMPLES: &str = "\
Examples:
  strobe paths
  strobe paths -f deflate_fast --by count
  strobe paths --metric executions --hot 0.1%
  strobe paths --asm -n 1 nightly.strobe";

/// Show hot edges: steps from block to block
#[derive(Debug, ClapArgs)]
#[command(before_help = EDGES_EXAMPLES, max_term_width = 100)]
pub struct EdgesArgs {
    #[command(flatten)]
    rows: RowsArgs,
}

const EDGES_EXAMPLES: &str = "\
Examples:
  strobe edges
  strobe edges -f longest_match -n 100";

/// Show loads, arguments and calls that mostly have one value, for which code could be specialized
#[derive(Debug, ClapArgs)]
#[command(before_help = VALUES_EXAMPLES, max_term_width = 100)]
pub struct ValuesArgs {
    #[command(flatten)]
    rows: RowsArgs,
}

const VALUES_EXAMPLES: &str = "\
Examples:
  strobe count --of blocks --values -- ./program && strobe values
  strobe count --of blocks --call-targets --branches --types --addresses -- ./program
  strobe values -f longest_match -n 100";

/// Show who calls whom; with a function, its callers and callees
#[derive(Debug, ClapArgs)]
#[command(before_help = CALLS_EXAMPLES, max_term_width = 100)]
pub struct CallsArgs {
    #[command(flatten)]
    rows: RowsArgs,
}

const CALLS_EXAMPLES: &str = "\
Examples:
  strobe calls
  strobe calls -f malloc
  strobe calls -f libc.so.6:0x9a1b0";

/// Show the tree of calling contexts, with the CPU time in and below each
#[derive(Debug, ClapArgs)]
#[command(before_help = CONTEXTS_EXAMPLES, max_term_width = 100)]
pub struct ContextsArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    top: TopArgs,

    /// Leave out what has less than this share of CPU time, in percent
    #[arg(long, value_name = "PCT", default_value = "1%", value_parser = parse_share)]
    min: f64,

    /// Show only what runs below this function
    #[arg(long, value_name = "FN")]
    caller: Option<String>,

    /// Show only what leads to this function; times are those in and below it
    #[arg(long, value_name = "FN")]
    callee: Option<String>,

    /// Turn the tree around: functions by their own time, and below each its callers
    #[arg(long)]
    callers: bool,

    #[command(flatten)]
    statistics: StatisticsArgs,
}

const CONTEXTS_EXAMPLES: &str = "\
Examples:
  strobe contexts
  strobe contexts --min 5% --caller main
  strobe contexts --callers --callee malloc
  strobe contexts --metric executions";

/// Show the source and the instructions of a function, with counts and branch biases
#[derive(Debug, ClapArgs)]
#[command(before_help = ANNOTATE_EXAMPLES, max_term_width = 100)]
pub struct AnnotateArgs {
    /// The function: a name or a unique part of one, 0xADDRESS or MODULE:0xADDRESS
    #[arg(value_name = "FN")]
    function: String,

    #[command(flatten)]
    common: CommonArgs,

    /// Show source lines only, where there are any
    #[arg(long)]
    source: bool,
}

const ANNOTATE_EXAMPLES: &str = "\
Examples:
  strobe annotate deflate_fast
  strobe annotate 0x1a2b0 nightly.strobe
  strobe annotate --source parse_expr";

/// Show hot loops: how often they iterate, and what an iteration costs
#[derive(Debug, ClapArgs)]
#[command(before_help = LOOPS_EXAMPLES, max_term_width = 100)]
pub struct LoopsArgs {
    #[command(flatten)]
    rows: RowsArgs,
}

const LOOPS_EXAMPLES: &str = "\
Examples:
  strobe loops
  strobe loops -f longest_match";

/// Show conditional branches: which way they go, how predictable they are, and how far apart
#[derive(Debug, ClapArgs)]
#[command(before_help = BRANCHES_EXAMPLES, max_term_width = 100)]
pub struct BranchesArgs {
    #[command(flatten)]
    rows: RowsArgs,

    /// How to rank: count, or entropy (count times bits of entropy)
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = BranchOrder::Count, hide_possible_values = true)]
    by: BranchOrder,
}

const BRANCHES_EXAMPLES: &str = "\
Examples:
  strobe branches
  strobe branches --by entropy
  strobe branches -f qsort_compare";

/// Show functions by entries and loop iterations, the measure of just-in-time compilers
#[derive(Debug, ClapArgs)]
#[command(before_help = METHODS_EXAMPLES, max_term_width = 100)]
pub struct MethodsArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    top: TopArgs,
}

const METHODS_EXAMPLES: &str = "\
Examples:
  strobe methods
  strobe methods -n 100 --json nightly.strobe | jq '.methods[].function.name'";

/// What all views have in common.
#[derive(Debug, ClapArgs)]
struct CommonArgs {
    /// The profile
    #[arg(value_name = "PROFILE", default_value = "profile.strobe")]
    profile: PathBuf,

    /// Print as JSON (docs/profile-json.md describes it)
    #[arg(long)]
    json: bool,

    /// Use no pager, even on a terminal; PAGER chooses the pager
    #[arg(long)]
    no_pager: bool,

    /// Ask the servers in DEBUGINFOD_URLS for debug data that is not here
    #[arg(long)]
    debuginfod: bool,
}

/// Options of views that can sum up instead of listing.
#[derive(Debug, ClapArgs)]
struct StatisticsArgs {
    /// Print statistics instead: what is hot by executions, instructions, branches, cycles or l1d
    #[arg(long, value_enum, value_name = "M", hide_possible_values = true)]
    metric: Option<MetricName>,

    /// Share of the metric that makes something hot, in percent
    #[arg(long, value_name = "PCT", default_value = "1%", value_parser = parse_share, requires = "metric")]
    hot: f64,
}

impl StatisticsArgs {
    fn wanted(&self) -> Option<Statistics> {
        self.metric.map(|metric| Statistics { metric, hot_share: self.hot })
    }
}

#[derive(Debug, ClapArgs)]
struct TopArgs {
    /// Rows to show [default: what suits the view]
    #[arg(short = 'n', long, value_name = "N")]
    top: Option<usize>,
}

/// Options of views that list parts of functions.
#[derive(Debug, ClapArgs)]
struct RowsArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    top: TopArgs,

    /// Show only this function: a name or a unique part of one, 0xADDRESS or MODULE:0xADDRESS
    #[arg(short, long, value_name = "FN")]
    function: Option<String>,
}

impl ViewCommand {
    pub fn into_props(self) -> ViewProps {
        match self {
            ViewCommand::Report(args) => args.common.into_props(args.top.top, Query::Report { html: args.html }),
            ViewCommand::Paths(PathsArgs { rows, by, asm, by_context, statistics }) => {
                let style = if asm { CodeStyle::Instructions } else { CodeStyle::Source };
                let statistics = statistics.wanted();
                rows.into_props(|function| match statistics {
                    Some(statistics) => Query::PathClasses { function, statistics, is_by_context: by_context },
                    None => Query::Paths { function, by, style, is_by_context: by_context },
                })
            }
            ViewCommand::Edges(EdgesArgs { rows }) => rows.into_props(|function| Query::Edges { function }),
            ViewCommand::Calls(CallsArgs { rows }) => rows.into_props(|function| Query::Calls { function }),
            ViewCommand::Contexts(ContextsArgs { common, top, min, caller, callee, callers, statistics }) => {
                let part = ContextsProps { min_share: min, caller, callee, is_inverted: callers };
                common.into_props(top.top, statistics.wanted().map_or(Query::Contexts(part), Query::ContextTree))
            }
            ViewCommand::Annotate(AnnotateArgs { function, common, source }) => {
                let style = if source { CodeStyle::Source } else { CodeStyle::Instructions };
                common.into_props(None, Query::Annotate { function, style })
            }
            ViewCommand::Loops(LoopsArgs { rows }) => rows.into_props(|function| Query::Loops { function }),
            ViewCommand::Values(ValuesArgs { rows }) => rows.into_props(|function| Query::Values { function }),
            ViewCommand::Methods(args) => args.common.into_props(args.top.top, Query::Methods),
            ViewCommand::Branches(BranchesArgs { rows, by }) => {
                rows.into_props(|function| Query::Branches { function, by })
            }
        }
    }
}

impl RowsArgs {
    fn into_props(self, query: impl FnOnce(Option<String>) -> Query) -> ViewProps {
        self.common.into_props(self.top.top, query(self.function))
    }
}

impl CommonArgs {
    fn into_props(self, top: Option<usize>, query: Query) -> ViewProps {
        ViewProps {
            profile: self.profile,
            query,
            top,
            json: self.json,
            use_pager: !self.no_pager,
            use_debuginfod: self.debuginfod,
        }
    }
}

/// `1%` or `1` as 0.01.
fn parse_share(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a percentage from 0 to 100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("0"), Ok(0.0));
        for bad in ["", "x", "-1", "101%"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
