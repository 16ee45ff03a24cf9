//! Options shared by the commands that run a program: `record`, `count` and `trace`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};
use emit::Events;
use recorder::{GuideFile, Mode, Noting, STACK_BYTES, Ticks, Window};
use sampling::selector::Selector;

use crate::args_values;
use crate::props::{RecordProps, TickChoice};

/// Heading of options that reproduce published experiments.
pub const EXPERIMENTS: &str = "Experiments";
/// Heading of options that say which part of the run is recorded.
const SCOPE: &str = "What is recorded";
/// Heading of options that choose which values are noted.
pub const VALUES: &str = "Values of instructions (`strobe values` shows them)";

/// Heading of the program and of where results go.
const PROGRAM: &str = "Program and output";

/// The program, the part of its run that is recorded, and the output.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = PROGRAM)]
pub struct RunArgs {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,

    /// Where the profile goes; one that is there is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "profile.strobe")]
    output: PathBuf,

    /// Print no progress and no summary, only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    /// Show the profile while it grows, as `strobe top` does
    #[arg(long)]
    live: bool,

    /// Record only modules whose file name contains TEXT; repeatable
    #[arg(long, value_name = "TEXT", help_heading = SCOPE)]
    module: Vec<String>,

    /// Record only threads with this id, or with TEXT in their name; repeatable
    #[arg(long, value_name = "TID|TEXT", help_heading = SCOPE)]
    thread: Vec<String>,

    /// Do not record processes that the program starts
    #[arg(long, help_heading = SCOPE)]
    no_follow: bool,

    /// Start recording after this much time
    #[arg(long, value_name = "TIME", value_parser = args_values::duration, default_value = "0", help_heading = SCOPE)]
    delay: Duration,

    /// Stop recording this much later; the program runs on
    #[arg(long, value_name = "TIME", value_parser = args_values::duration, help_heading = SCOPE)]
    duration: Option<Duration>,

    /// Record nothing until `strobe ctl start`, or a USR1 signal
    #[arg(long, conflicts_with = "delay", help_heading = SCOPE)]
    paused: bool,
}

/// Options that are rarely needed.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "More")]
pub struct MoreArgs {
    /// Where ticks come from: auto, timer, perf, off
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = TickChoice::Auto, hide_possible_values = true)]
    tick_source: TickChoice,

    /// Bytes of stack to keep with each tick
    #[arg(long, value_name = "BYTES", default_value_t = STACK_BYTES, value_parser = clap::value_parser!(u32).range(0..=i64::from(STACK_BYTES)))]
    stack: u32,

    /// Seed of the random phases of first ticks
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Translate everything anew, and keep no translations for the next run
    #[arg(long)]
    no_cache: bool,
}

/// Options that choose which values are noted, and at which instructions.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = VALUES, group = ArgGroup::new("noting").multiple(true))]
pub struct NotingArgs {
    /// Note what loads load, and the arguments of functions
    #[arg(long, group = "noting")]
    values: bool,

    /// Note where indirect calls go
    #[arg(long, group = "noting")]
    call_targets: bool,

    /// Note where conditional and indirect jumps go
    #[arg(long, group = "noting")]
    branches: bool,

    /// Note method tables that calls go through
    #[arg(long, group = "noting")]
    types: bool,

    /// Note addresses of memory operands
    #[arg(long, group = "noting")]
    addresses: bool,

    /// Note values only at these instructions, such as 'load8 & function:main'; repeatable
    #[arg(long, value_name = "EXPR", requires = "noting", value_parser = args_values::selector)]
    select: Vec<Selector>,

    /// Stop when half as many values again change the profile by less than this
    #[arg(long, value_name = "PCT", requires = "noting", value_parser = args_values::percent)]
    converge: Option<f64>,
}

/// Options for noted values when everything is counted.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = VALUES)]
pub struct StreamArgs {
    /// How values are compressed in the program; `none` keeps all of them
    #[arg(long, value_name = "EXPR", requires = "noting", default_value = args_values::DEFAULT_COMPRESSOR, value_parser = args_values::compressor)]
    compress: String,

    /// Write all values to a file instead: address and value, 8 bytes each
    #[arg(long, value_name = "FILE", requires = "noting", conflicts_with_all = ["compress", "converge"])]
    value_stream: Option<PathBuf>,
}

/// Numbering paths by an earlier profile, and comparing a recording with a plain run.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = EXPERIMENTS)]
pub struct CostArgs {
    /// Run the program by itself first, discard its output, and compare the cost of both runs
    #[arg(long, conflicts_with = "live")]
    pub perturbation: bool,

    /// Number paths so that edges that were hot in an earlier profile cost nothing
    #[arg(long, value_name = "FILE")]
    guide: Option<PathBuf>,

    /// Number paths as if cold edges were hot, to see what the guide is worth
    #[arg(long, requires = "guide")]
    flip_guide: bool,
}

impl RunArgs {
    /// Returns the whole request, for a mode and what is noted beside it.
    pub fn into_props(self, more: MoreArgs, mode: Mode, noting: Option<Noting>) -> RecordProps {
        RecordProps {
            command: self.command,
            output: self.output,
            mode,
            ticks: match more.tick_source {
                TickChoice::Auto => Ticks::Auto,
                TickChoice::Timer => Ticks::Timer,
                TickChoice::Perf => Ticks::Perf,
                TickChoice::Off => Ticks::Off,
            },
            stack_bytes: more.stack & !7,
            seed: more.seed.unwrap_or_else(time_seed),
            window: Window { delay: self.delay, duration: self.duration, starts_paused: self.paused },
            modules: self.module,
            threads: self.thread,
            follows: !self.no_follow,
            noting,
            uses_cache: !more.no_cache,
            hardware: Vec::new(),
            perturbation: false,
            quiet: self.quiet,
            live: self.live,
            now_called: None,
        }
    }
}

impl NotingArgs {
    pub fn is_any(&self) -> bool {
        self.values || self.call_targets || self.branches || self.types || self.addresses
    }

    /// Returns what is noted, if anything is. Only modes that count everything have it compressed.
    pub fn into_noting(self, stream: StreamArgs, is_compressed: bool) -> Option<Noting> {
        let kinds = [
            (self.values, Events::LOADS | Events::ARGUMENTS),
            (self.call_targets, Events::CALL_TARGETS),
            (self.branches, Events::JUMP_TARGETS | Events::BRANCH_TARGETS),
            (self.types, Events::METHOD_TABLES),
            (self.addresses, Events::ADDRESSES),
        ];
        let events = kinds.into_iter().filter(|&(is_on, _)| is_on).fold(Events::NONE, |all, (_, kind)| all | kind);
        let is_compressed = is_compressed && stream.value_stream.is_none();
        (!events.is_empty()).then(|| Noting {
            events,
            selector: (!self.select.is_empty()).then(|| self.select.into_iter().collect()),
            tolerance: self.converge,
            compressor: if is_compressed { stream.compress } else { String::new() },
            stream: stream.value_stream,
        })
    }
}

impl CostArgs {
    pub fn into_guide(self) -> Option<GuideFile> {
        self.guide.map(|path| GuideFile { path, is_flipped: self.flip_guide })
    }
}

fn time_seed() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}
