//! What a run is asked to do, as plain values: no defaults left to find, nothing left to parse.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use image::Svma;
use recorder::{Mode, Noting, Ticks, Window};

/// A recording to be made. The program's file is looked up later.
#[derive(Debug)]
pub struct RecordProps {
    /// Program and arguments; at least one.
    pub command: Vec<OsString>,
    pub output: PathBuf,
    pub mode: Mode,
    pub ticks: Ticks,
    pub stack_bytes: u32,
    pub seed: u64,
    pub window: Window,
    pub modules: Vec<String>,
    pub threads: Vec<String>,
    pub follows: bool,
    pub noting: Option<Noting>,
    pub uses_cache: bool,
    /// Hardware counters that were asked for.
    pub hardware: Vec<Hardware>,
    /// Whether the program runs by itself before, for comparison.
    pub perturbation: bool,
    pub quiet: bool,
    /// Whether the profile is shown while it grows.
    pub live: bool,
    /// The command that does this now, if an older form was typed.
    pub now_called: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TickChoice {
    /// The cheaper one that reaches the rate
    Auto,
    /// POSIX timers on the CPU time of each thread: cheap, at most one tick per scheduler tick
    Timer,
    /// perf_event task clock: any rate, but more expensive and not everywhere allowed
    Perf,
    /// Nothing ticks: to see what being watched costs
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// Record every block of a burst
    Trace,
    /// Run bursts without recording blocks: what the copies alone cost
    None,
    /// Take ticks and never start a burst: what ticks alone cost
    Off,
}

/// A hardware counter by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    pub name: &'static str,
    pub counter: attach::probe::HardwareCounter,
}

#[derive(Debug)]
pub struct CtlProps {
    pub action: CtlAction,
    pub pid: u32,
}

/// What becomes of the cache.
#[derive(Debug)]
pub enum CacheProps {
    Size {
        json: bool,
    },
    List {
        json: bool,
    },
    /// To so many bytes; `None`: to the limit.
    Trim {
        limit: Option<u64>,
    },
    Clear,
    /// At least one.
    Warm {
        binaries: Vec<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CtlAction {
    /// Let ticks start bursts
    Start,
    /// Pause: the program runs on, unrecorded
    Stop,
}

#[derive(Debug)]
pub struct InspectProps {
    pub module: ModuleProps,
    /// `None`: the module as a whole.
    pub function: Option<FunctionSelector>,
    /// The path to show; only with a function.
    pub path: Option<u64>,
    /// Whether to check graphs and numberings; only without a function.
    pub verify: bool,
    pub numbering: NumberingProps,
    pub syntax: Syntax,
    pub view: View,
}

#[derive(Debug)]
pub struct DumpProps {
    pub stage: Stage,
    pub module: ModuleProps,
    /// `None`: all functions.
    pub function: Option<FunctionSelector>,
    pub numbering: NumberingProps,
    /// The part of a trace to print.
    pub range: TraceRange,
}

/// A part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRange {
    /// Blocks in the order in which they ran, instead of paths in the order in which they ended.
    pub by_block: bool,
    /// `None`: all threads.
    pub thread: Option<u32>,
    /// Lines of each thread to leave out.
    pub from: u64,
    /// `None`: all that follow.
    pub limit: Option<u64>,
}

#[derive(Debug)]
pub struct ModuleProps {
    pub binary: PathBuf,
    pub n_threads: NonZeroUsize,
    pub use_debug_files: bool,
}

/// How a user names a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionSelector {
    Name(String),
    /// Anywhere inside the function.
    Address(Svma),
}

impl FunctionSelector {
    /// `0x` and hexadecimal digits are an address; anything else is a name.
    pub fn parse(text: &str) -> FunctionSelector {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(address) => FunctionSelector::Address(Svma(address)),
            None => FunctionSelector::Name(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberingProps {
    pub truncation: Truncation,
    pub order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Truncation {
    /// At edges back to a loop header (Ball and Larus)
    BackEdges,
    /// At every edge into a loop header (PEP)
    Headers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Edges in address order
    Classic,
    /// Likely hot edges first, so that they need no addition
    Smart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// Segments, sections, symbols, functions, unwind ranges, problems
    Image,
    /// Blocks, edges, loops, indirect jumps
    Cfg,
    /// Path counts, cuts, additions
    Paths,
    /// Instrumented copies, disassembled beside the originals
    Emit,
    /// What `strobe trace` wrote: paths as they ended, thread by thread
    Trace,
    /// What `record --keep-trace` kept in a profile: burst by burst
    Bursts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Intel,
    Att,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Text,
    Json,
    Dot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        assert_eq!(FunctionSelector::parse("0x1F"), FunctionSelector::Address(Svma(0x1f)));
        for name in ["main", "1f", "0xyz", "0x", "0x11112222333344445"] {
            assert_eq!(FunctionSelector::parse(name), FunctionSelector::Name(name.to_owned()));
        }
    }
}
