//! The command line of `record` and `ctl`, exactly as typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};
use emit::Events;
use sampling::selector::Selector;
use wire::control::Policy;

use crate::metric::{self, Wanted};
use crate::props::{CtlAction, CtlProps, Exact, ExactProps, Probe, RecordProps, TickChoice, TimeWindow};

/// Run a program and record which blocks, edges and paths it really runs
///
/// The program is not changed and runs at full speed; at ticks of its CPU time, strobe lets it run
/// a short burst in an instrumented copy of its code. Its output and exit status are its own, and
/// so are the signals that end, stop and continue programs: what is sent to strobe alone is passed
/// on, and strobe ends as the program does. `kill -USR1` and `kill -USR2` of strobe start and stop
/// recording, as `strobe ctl` does. With --live the terminal belongs to the view until the program
/// ends or `q` is pressed: what the program prints there is held back until then, it reads nothing
/// from there, and Ctrl-C still interrupts it. Redirected input and output are the program's own.
#[derive(Debug, ClapArgs)]
#[command(before_help = EXAMPLES, max_term_width = 100, group = ArgGroup::new("noting").multiple(true),
          group = ArgGroup::new("staying"))]
pub struct RecordArgs {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,

    /// Where the profile goes
    #[arg(short, long, value_name = "FILE", default_value = "profile.strobe")]
    output: PathBuf,

    /// Percent of the program's CPU time that recording may cost [default: 1]
    ///
    /// There is no such limit by default if --rate and --burst are both given.
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    overhead: Option<f64>,

    /// Ticks per second of CPU time [default: by the budget, at most 100]
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    rate: Option<f64>,

    /// Length in entries and iterations [default: by budget, at most 10000]
    #[arg(long, value_name = "CHECKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    burst: Option<u32>,

    /// Where ticks come from: auto, timer, perf, off
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = TickChoice::Auto, hide_possible_values = true)]
    tick_source: TickChoice,

    /// Arnold-Grove: samples per tick, instead of a burst of fixed length
    #[arg(long, value_name = "N", requires = "stride", conflicts_with = "burst", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: Option<u32>,

    /// Arnold-Grove: skip 0 to N-1 before the first; --full-stride: each
    #[arg(long, value_name = "N", requires = "samples", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    stride: Option<u32>,

    /// Arnold-Grove: one in STRIDE between samples, too (PEP: all)
    #[arg(long, requires = "stride", hide = true)]
    full_stride: bool,

    /// Start recording after this much time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0")]
    delay: Duration,

    /// Stop recording after this much more time; the program runs on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Record nothing until `strobe ctl start`, or a USR1 signal
    #[arg(long, conflicts_with = "delay")]
    paused: bool,

    /// Bursts only in modules whose file name has TEXT; repeatable
    #[arg(long, value_name = "TEXT")]
    module: Vec<String>,

    /// Record only threads with this id, or TEXT in the name; repeatable
    #[arg(long, value_name = "TID|TEXT")]
    thread: Vec<String>,

    /// Do not record processes that the program starts
    #[arg(long)]
    no_follow: bool,

    /// Keep the raw traces of bursts in the profile
    #[arg(long)]
    keep_trace: bool,

    /// Check every step of every burst against the control-flow graphs
    #[arg(long)]
    verify: bool,

    /// What bursts do
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Probe::Trace)]
    probe: Probe,

    /// Count all: =header-paths, =blocks, =contexts, =context-paths, =trace
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "paths",
          hide_possible_values = true, group = "staying", conflicts_with_all = ["overhead", "rate", "burst", "samples", "keep_trace", "verify", "probe"])]
    exact: Option<Exact>,

    /// PEP: in copies only, sample N paths per tick, 1 in M [,simplified]
    #[arg(long, value_name = "N,M", value_parser = parse_pep, group = "staying",
          conflicts_with_all = ["exact", "metric", "overhead", "burst", "samples", "keep_trace", "verify", "probe", "perturbation", "per_call_site"])]
    pep: Option<Pep>,

    /// Add up by context, or with --exact by path: cycles; l1d:SIZE:WAYS:LINE
    #[arg(long, value_name = "NAME", conflicts_with_all = ["overhead", "rate", "burst", "samples", "keep_trace", "verify", "probe"], value_parser = metric::parse)]
    metric: Option<Wanted>,

    /// Note loads and arguments (others: --call-targets, --branches, --types)
    #[arg(long, group = "noting")]
    values: bool,

    /// The same of where indirect calls go
    #[arg(long, group = "noting", hide = true)]
    call_targets: bool,

    /// The same of where conditional and indirect jumps go
    #[arg(long, group = "noting", hide = true)]
    branches: bool,

    /// The same of method tables that calls go through
    #[arg(long, group = "noting", hide = true)]
    types: bool,

    /// The same of addresses of memory operands
    #[arg(long, group = "noting", hide = true)]
    addresses: bool,

    /// Of values [default: H[P251]2048]; fewer: --select, --converge
    #[arg(long, value_name = "EXPR", requires_all = ["noting", "exact"], default_value = DEFAULT_COMPRESSOR, hide_default_value = true, value_parser = parse_compressor)]
    compress: String,

    /// Note only there, for example 'load8 & function:main'; repeatable
    #[arg(long, value_name = "EXPR", requires = "noting", value_parser = parse_selector, hide_short_help = true, hide_long_help = true)]
    select: Vec<Selector>,

    /// Stop when half more of them change the profile by less than this
    #[arg(long, value_name = "PCT", requires = "noting", conflicts_with = "value_stream", value_parser = parse_percent, hide_short_help = true, hide_long_help = true)]
    converge: Option<f64>,

    /// Write all values to a file instead of counting them: address and value, 8 bytes each,
    /// little-endian
    #[arg(long, value_name = "FILE", requires = "noting", conflicts_with = "compress", hide = true)]
    value_stream: Option<PathBuf>,

    /// Run it by itself first, output thrown away, and compare what both took
    #[arg(long, conflicts_with = "live", hide_short_help = true, hide_long_help = true)]
    perturbation: bool,

    /// Tell calling contexts apart by call site, too
    #[arg(long, hide_short_help = true, hide_long_help = true)]
    per_call_site: bool,

    /// Number paths by what an earlier profile found hot: less to do on the way
    #[arg(long, value_name = "FILE", requires = "staying", hide_short_help = true, hide_long_help = true)]
    guide: Option<PathBuf>,

    /// Number them by the contrary, to see what that costs
    #[arg(long, requires = "guide", hide = true)]
    flip_guide: bool,

    /// Bytes of stack to keep with each tick
    #[arg(long, value_name = "BYTES", default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(0..=131_072))]
    stack: u32,

    /// Seed of the random phases of first ticks
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Translate everything anew, and keep no translations for the next run
    #[arg(long)]
    no_cache: bool,

    /// No progress and no summary; warnings and errors only
    #[arg(short, long)]
    quiet: bool,

    /// Show the profile while it grows, as `strobe top` does
    #[arg(long)]
    live: bool,
}

const EXAMPLES: &str = "\
Examples:
  strobe record -- gzip -k big.tar
  strobe record --overhead 0.2 -o nightly.strobe -- ./server --config prod.toml";

/// Start or stop a recording from outside
#[derive(Debug, ClapArgs)]
#[command(before_help = CTL_EXAMPLES, max_term_width = 100)]
pub struct CtlArgs {
    /// What to do
    #[arg(value_enum)]
    action: CtlAction,

    /// Process id of the `strobe record`
    pid: u32,
}

const CTL_EXAMPLES: &str = "\
Examples:
  strobe record --paused -- ./server & strobe ctl start $!
  strobe ctl stop 4711";

/// Two thousand strata, in each of which every 251st event is sent: a prime number, so that it does
/// not keep step with loops (`docs/sampling.md`).
const DEFAULT_COMPRESSOR: &str = "H[P251]2048";

/// Ticks per second of CPU time with --pep.
const PEP_RATE_HZ: f64 = 100.0;

/// Which paths are sampled at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pep {
    samples: u32,
    stride: u32,
    policy: Policy,
}

/// Default share of CPU time that recording may cost.
const DEFAULT_BUDGET: f64 = 0.01;

impl RecordArgs {
    pub fn into_props(self) -> RecordProps {
        let is_length_given = self.burst.is_some() || self.samples.is_some();
        let is_fixed = self.rate.is_some() && is_length_given || self.pep.is_some();
        let bursts = self.samples.map(|samples| Pep {
            samples,
            stride: self.stride.unwrap_or(1),
            policy: if self.full_stride { Policy::Full } else { Policy::Simplified },
        });
        let Pep { samples, stride, policy } =
            self.pep.or(bursts).unwrap_or(Pep { samples: 0, stride: 1, policy: Policy::Plain });
        let noted = [
            (self.values, Events::LOADS | Events::ARGUMENTS),
            (self.call_targets, Events::CALL_TARGETS),
            (self.branches, Events::JUMP_TARGETS | Events::BRANCH_TARGETS),
            (self.types, Events::METHOD_TABLES),
            (self.addresses, Events::ADDRESSES),
        ];
        let what = self.pep.map_or(self.exact, |_| Some(Exact::SampledPaths));
        let exact = checked(what, self.metric.as_ref(), self.per_call_site);
        if what == Some(Exact::Trace) && noted.iter().any(|&(is_on, _)| is_on) {
            let message = "--exact=trace does not go with --values and the like\n";
            clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message).exit()
        }
        // What bursts note goes as it is.
        let is_compressed = exact.is_some() && self.value_stream.is_none();
        RecordProps {
            command: self.command,
            output: self.output,
            rate_hz: self.rate.or(self.pep.map(|_| PEP_RATE_HZ)),
            burst_checks: self.burst,
            budget: self.overhead.or((!is_fixed).then_some(DEFAULT_BUDGET)),
            tick_source: self.tick_source,
            policy,
            samples,
            stride,
            seed: self.seed.unwrap_or_else(time_seed),
            stack_bytes: self.stack & !7,
            window: TimeWindow { delay: self.delay, duration: self.duration, starts_paused: self.paused },
            modules: self.module,
            threads: self.thread,
            follow: !self.no_follow,
            keep_trace: self.keep_trace,
            verify: self.verify,
            probe: self.probe,
            exact,
            hardware: self.metric.map(Wanted::hardware).unwrap_or_default(),
            noted: noted.into_iter().filter(|&(is_on, _)| is_on).fold(Events::NONE, |all, (_, events)| all | events),
            selector: (!self.select.is_empty()).then(|| self.select.into_iter().collect()),
            tolerance: self.converge,
            compressor: if is_compressed { self.compress } else { String::new() },
            value_stream: self.value_stream,
            perturbation: self.perturbation,
            per_call_site: self.per_call_site,
            guide: self.guide,
            flip_guide: self.flip_guide,
            use_cache: !self.no_cache,
            quiet: self.quiet,
            live: self.live,
        }
    }
}

impl CtlArgs {
    pub fn into_props(self) -> CtlProps {
        CtlProps { action: self.action, pid: self.pid }
    }
}

fn time_seed() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a percentage from 0.01 to 100".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (0.1..=10_000.0).contains(&hz) => Ok(hz),
        _ => Err("give ticks per second of CPU time, from 0.1 to 10000".to_owned()),
    }
}

fn parse_pep(text: &str) -> Result<Pep, String> {
    const HELP: &str = "give samples per tick and stride, as in 64,17 or 64,17,simplified; 0,1 samples nothing";
    let parts: Vec<&str> = text.split(',').collect();
    let (numbers, policy) = match parts[..] {
        [samples, stride] | [samples, stride, "full"] => ([samples, stride], Policy::Full),
        [samples, stride, "simplified"] => ([samples, stride], Policy::Simplified),
        _ => return Err(HELP.to_owned()),
    };
    match numbers.map(|number| number.trim().parse::<u32>()) {
        [Ok(samples @ 0..=1_000_000), Ok(stride @ 1..=10_000)] => Ok(Pep { samples, stride, policy }),
        _ => Err(HELP.to_owned()),
    }
}

/// What is counted, if anything is, and what is added up there: without --exact, in calling
/// contexts.
fn checked(exact: Option<Exact>, wanted: Option<&Wanted>, per_call_site: bool) -> Option<ExactProps> {
    let refuse = |message: &str| clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message).exit();
    let what = exact.or(wanted.map(|_| Exact::Contexts));
    if wanted.is_some() && !matches!(what, Some(Exact::Paths | Exact::Contexts | Exact::ContextPaths)) {
        refuse("--metric goes with --exact=paths, =contexts and =context-paths only\n")
    }
    if per_call_site && !matches!(what, Some(Exact::Contexts | Exact::ContextPaths)) {
        refuse("--per-call-site goes with --exact=contexts, --exact=context-paths or --metric only\n")
    }
    what.map(|what| ExactProps { what, metric: wanted.and_then(Wanted::counted) })
}

fn parse_selector(text: &str) -> Result<Selector, String> {
    text.parse().map_err(|error: sampling::ParseError| error.to_string())
}

/// Returns the expression, empty for `none`.
fn parse_compressor(text: &str) -> Result<String, String> {
    const BYTES_PER_ENTRY: u64 = 320;
    const OTHER_BYTES: u64 = 64 << 10;
    if text == "none" {
        return Ok(String::new());
    }
    let expression: sampling::Expression = text.parse().map_err(|error: sampling::ParseError| error.to_string())?;
    let printed = expression.to_string();
    if printed.len() > wire::events::MAX_EXPRESSION {
        return Err(format!("longer than {} characters", wire::events::MAX_EXPRESSION));
    }
    let n_bytes = expression.n_entries().saturating_mul(BYTES_PER_ENTRY).saturating_add(OTHER_BYTES);
    if n_bytes > u64::from(wire::events::COMPRESSOR_BYTES) {
        return Err(format!(
            "{} entries; a compressor in a program can have some twenty thousand",
            expression.n_entries()
        ));
    }
    Ok(printed)
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}; give for example 500ms, 10s, 2m, 1h")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..1e9).contains(&number) => Ok(Duration::from_secs_f64(number * factor)),
        _ => Err("give a time such as 500ms, 10s, 2m, 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "x", "5y", "-1s", "1e99"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn compressors() {
        assert_eq!(parse_compressor("none"), Ok(String::new()));
        assert_eq!(parse_compressor(DEFAULT_COMPRESSOR), Ok(DEFAULT_COMPRESSOR.to_owned()));
        for bad in ["", "H[P0]2", "H[P256", "A1000000", "H[A1000]1000"] {
            assert!(parse_compressor(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn samples_and_strides() {
        let pep = |samples, stride, policy| Ok(Pep { samples, stride, policy });
        assert_eq!(parse_pep("64,17"), pep(64, 17, Policy::Full));
        assert_eq!(parse_pep("64,17,simplified"), pep(64, 17, Policy::Simplified));
        assert_eq!(parse_pep("0,1"), pep(0, 1, Policy::Full));
        for bad in ["", "64", "64,0", "64,17,both", "-1,1", "64,17,"] {
            assert!(parse_pep(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages() {
        assert_eq!(parse_percent("1"), Ok(0.01));
        assert_eq!(parse_percent("0.2%"), Ok(0.002));
        for bad in ["0", "101", "%", "one"] {
            assert!(parse_percent(bad).is_err(), "{bad}");
        }
    }
}
