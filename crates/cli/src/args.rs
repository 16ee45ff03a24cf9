//! The command line, exactly as typed. This file is the only definition of its grammar and help.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::args_cache::CacheArgs;
use crate::args_count::{CountArgs, TraceArgs};
use crate::args_record::{CtlArgs, RecordArgs};
use crate::args_tools::ToolCommand;
use crate::args_view::ViewCommand;
use crate::job::{Job, Props};
use crate::props::{
    DumpProps, FunctionSelector, InspectProps, ModuleProps, NumberingProps, Order, Stage, Syntax, TraceRange,
    Truncation, View,
};

/// Profile native x86-64 Linux programs as they are: which blocks, edges and paths really run.
#[derive(Debug, Parser)]
#[command(name = "strobe", version, before_help = EXAMPLES, after_help = EXIT_CODES, max_term_width = 100, disable_help_flag = true)]
pub struct Args {
    /// Use colour: auto (on a terminal without NO_COLOR), always, never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto, hide_possible_values = true, hide_default_value = true)]
    color: Color,

    /// Print help; the manual pages say more
    // One screen, also for `--help`.
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  strobe record -- gzip -k big.tar              run a program and record what it does
  strobe report                                 what the recording says; then `strobe paths`, `strobe annotate FN`
  strobe count -- gzip -k small.tar             every count, exact; takes a multiple of the program's time
  strobe doctor                                 what this machine allows, and what a tick costs here
  strobe inspect /usr/bin/gzip                  what the program contains
  strobe inspect /usr/bin/gzip -f main          one function: blocks, loops, paths
  strobe inspect ./a.out -f 0x1139 --path 3     the blocks and source lines of one path
  strobe inspect ./a.out -f main --dot | dot -Tsvg > main.svg
  strobe dump cfg /usr/bin/gzip | grep jump-table";

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure (one line on standard error says why), 2 wrong usage; \
                          commands that run a program end as it did";

#[derive(Debug, Subcommand)]
enum Command {
    Record(Box<RecordArgs>),
    Count(Box<CountArgs>),
    Trace(Box<TraceArgs>),
    Ctl(CtlArgs),
    Doctor(DoctorArgs),
    Cache(CacheArgs),
    Inspect(InspectArgs),
    Dump(DumpArgs),
    #[command(flatten)]
    View(ViewCommand),
    #[command(flatten)]
    Tool(ToolCommand),
}

/// Say what this machine allows strobe to do, what it costs here, and what to change
#[derive(Debug, ClapArgs)]
#[command(before_help = DOCTOR_EXAMPLES, max_term_width = 100)]
struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  strobe doctor
  strobe doctor --json | jq .";

/// Show what a program or library contains, or everything about one of its functions
#[derive(Debug, ClapArgs)]
#[command(before_help = INSPECT_EXAMPLES, max_term_width = 100)]
struct InspectArgs {
    #[command(flatten)]
    module: ModuleArgs,

    /// The function to show: a name (raw or demangled, `memcpy@plt`, `fn_1a2b0`) or an address
    /// inside it (`0x1a2b4`)
    #[arg(short, long, value_name = "NAME|ADDR")]
    function: Option<String>,

    /// Show the path with this number, with source lines where the program has them
    #[arg(long, value_name = "ID", requires = "function", conflicts_with = "dot")]
    path: Option<u64>,

    #[command(flatten)]
    numbering: NumberingArgs,

    /// Check every graph and numbering against its invariants
    #[arg(long, conflicts_with = "function")]
    verify: bool,

    /// AT&T syntax instead of Intel
    #[arg(long, requires = "function")]
    att: bool,

    /// Print the control-flow graph for Graphviz
    #[arg(long, requires = "function", conflicts_with = "json")]
    dot: bool,

    /// Print everything as JSON (docs/inspect-json.md describes it)
    #[arg(long)]
    json: bool,
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  strobe inspect /usr/bin/gzip
  strobe inspect /usr/bin/gzip -f main --order smart --truncation headers
  strobe inspect ./a.out -f fib --path 0
  strobe inspect ./a.out --json | jq .paths.buckets";

/// Print one stage of the analysis as plain text, one fact per line
#[derive(Debug, ClapArgs)]
#[command(before_help = DUMP_EXAMPLES, max_term_width = 100)]
struct DumpArgs {
    /// The stage to print
    #[arg(value_enum)]
    stage: Stage,

    #[command(flatten)]
    module: ModuleArgs,

    /// Print only this function
    #[arg(short, long, value_name = "NAME|ADDR")]
    function: Option<String>,

    #[command(flatten)]
    numbering: NumberingArgs,

    /// For a trace or bursts: print blocks in the order in which they ran
    #[arg(long)]
    blocks: bool,

    /// For a trace or bursts: print only the thread with this id
    #[arg(long, value_name = "TID")]
    thread: Option<u32>,

    /// For a trace or bursts: leave out the first N of each thread
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,

    /// For a trace or bursts: print at most N of each thread
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

const DUMP_EXAMPLES: &str = "\
Examples:
  strobe dump image /usr/bin/gzip | grep ^problem
  strobe dump cfg /usr/bin/gzip | grep unresolved
  strobe dump paths ./a.out -f main
  strobe dump trace profile.strobe.trace --from 1000 --limit 20
  strobe dump bursts profile.strobe --blocks --limit 1";

#[derive(Debug, ClapArgs)]
struct ModuleArgs {
    /// The program or shared library; for `trace` and `bursts`, the trace file or the profile
    binary: PathBuf,

    /// Threads to analyze with [default: as many as the machine offers]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Do not read separate debug files
    #[arg(long)]
    no_debug_files: bool,
}

#[derive(Debug, ClapArgs)]
struct NumberingArgs {
    /// Where paths through loops are cut
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Truncation::BackEdges)]
    truncation: Truncation,

    /// Which edge out of a block gets the smallest numbers: the first, or the one that looks
    /// hottest
    #[arg(long, value_enum, default_value_t = Order::Classic)]
    order: Order,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Args {
    pub fn into_props(self) -> Props {
        let color = match self.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        let job = match self.command {
            Command::Record(args) => Job::Record(Box::new(args.into_props())),
            Command::Count(args) => Job::Record(Box::new(args.into_props())),
            Command::Trace(args) => Job::Record(Box::new(args.into_props())),
            Command::Ctl(args) => Job::Ctl(args.into_props()),
            Command::Cache(args) => Job::Cache(args.into_props()),
            Command::Doctor(args) => Job::Doctor { json: args.json },
            Command::Inspect(args) => Job::Inspect(args.into_props()),
            Command::Dump(args) => Job::Dump(args.into_props()),
            Command::View(command) => Job::View(command.into_props()),
            Command::Tool(command) => Job::Tool(command.into_job()),
        };
        Props { color, job }
    }
}

impl InspectArgs {
    fn into_props(self) -> InspectProps {
        let view = match (self.json, self.dot) {
            (true, _) => View::Json,
            (false, true) => View::Dot,
            (false, false) => View::Text,
        };
        InspectProps {
            module: self.module.into_props(),
            function: self.function.as_deref().map(FunctionSelector::parse),
            path: self.path,
            verify: self.verify,
            numbering: self.numbering.into_props(),
            syntax: if self.att { Syntax::Att } else { Syntax::Intel },
            view,
        }
    }
}

impl DumpArgs {
    fn into_props(self) -> DumpProps {
        DumpProps {
            stage: self.stage,
            module: self.module.into_props(),
            function: self.function.as_deref().map(FunctionSelector::parse),
            numbering: self.numbering.into_props(),
            range: TraceRange { by_block: self.blocks, thread: self.thread, from: self.from, limit: self.limit },
        }
    }
}

impl ModuleArgs {
    fn into_props(self) -> ModuleProps {
        let available = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        ModuleProps {
            binary: self.binary,
            n_threads: self.threads.unwrap_or_else(available),
            use_debug_files: !self.no_debug_files,
        }
    }
}

impl NumberingArgs {
    fn into_props(self) -> NumberingProps {
        NumberingProps { truncation: self.truncation, order: self.order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_grammar_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_argument_has_help() {
        let command = Args::command();
        for subcommand in command.get_subcommands() {
            assert!(subcommand.get_about().is_some(), "{}", subcommand.get_name());
            for argument in subcommand.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", subcommand.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn options_of_commands_that_run_programs_have_headings() {
        let command = Args::command();
        for name in ["record", "count", "trace"] {
            let subcommand = command.find_subcommand(name).expect("a command");
            for argument in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help_heading().is_some(), "{name} {}", argument.get_id());
            }
            let heading =
                |id: &str| subcommand.get_arguments().find(|argument| argument.get_id() == id)?.get_help_heading();
            assert_eq!(heading("output"), Some("Program and output"), "{name}");
            assert_eq!(heading("module"), Some("What is recorded"), "{name}");
        }
    }

    #[test]
    fn unknown_options_and_commands_are_errors_that_suggest_known_ones() {
        for (typed, meant) in [("--overhaed", "'--overhead'"), ("--live-view", "'--live'")] {
            let error = Args::try_parse_from(["strobe", "record", typed, "--", "true"]).unwrap_err().to_string();
            assert!(error.contains(meant), "{error}");
        }
        let error = Args::try_parse_from(["strobe", "recrod"]).unwrap_err().to_string();
        assert!(error.contains("'record'"), "{error}");
    }

    #[test]
    fn typed_options_become_props() {
        let typed = ["strobe", "inspect", "a.out", "-f", "0x40", "--json", "--threads", "3", "--order", "smart"];
        let Job::Inspect(props) = Args::parse_from(typed).into_props().job else { panic!("not inspect") };
        assert_eq!(props.function, Some(FunctionSelector::Address(image::Svma(0x40))));
        assert_eq!(props.view, View::Json);
        assert_eq!(props.module.n_threads.get(), 3);
        assert_eq!(props.numbering, NumberingProps { truncation: Truncation::BackEdges, order: Order::Smart });
    }

    #[test]
    fn options_about_a_function_need_one() {
        for option in [&["--path", "1"][..], &["--dot"], &["--att"]] {
            let typed = ["strobe", "inspect", "a.out"].iter().chain(option);
            assert!(Args::try_parse_from(typed).is_err(), "{option:?}");
        }
    }
}
