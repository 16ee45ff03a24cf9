//! The command lines of `record` and `ctl`, exactly as typed.
//!
//! The options with which `record` counted and traced before `count` and `trace` existed still
//! work. They are not shown, and using one prints a note that names the new command.

use clap::{ArgGroup, Args as ClapArgs, ValueEnum as _};
use flow::checks::{CheckPolicy, EntryChecks, LoopChecks};
use recorder::{BurstProbe, Bursts, Counted as CountedBursts, Mode, Pep, Sampling};
use wire::control::Policy;

use crate::args_count::{self, Counted, PerArgs};
use crate::args_recording::{CostArgs, EXPERIMENTS, MoreArgs, NotingArgs, RunArgs, StreamArgs};
use crate::args_values::{self, Trigger};
use crate::props::{CtlAction, CtlProps, Probe, RecordProps};

/// Run a program and record which blocks, edges and paths it really runs
///
/// The program is not changed and runs at full speed; at ticks of its CPU time, strobe lets it run
/// a short burst in an instrumented copy of its code. Its output and exit status are its own, and
/// so are the signals that end, stop and continue programs: signals sent to strobe alone are passed
/// on, and strobe ends as the program does. `kill -USR1` and `kill -USR2` of strobe start and stop
/// recording, as `strobe ctl` does. With --live the terminal belongs to the view until the program
/// ends or `q` is pressed: what the program prints there is held back until then, it reads nothing
/// from there, and Ctrl-C still interrupts it. Redirected input and output are the program's own.
#[derive(Debug, ClapArgs)]
#[command(before_help = EXAMPLES, max_term_width = 100, group = ArgGroup::new("staying"),
          mut_arg("metric", |arg| arg.hide(true).conflicts_with_all(BURSTS_ONLY)),
          mut_arg("per_call_site", |arg| arg.hide(true)),
          mut_arg("compress", |arg| arg.hide(true).requires("exact")),
          mut_arg("value_stream", |arg| arg.hide(true)),
          mut_arg("guide", |arg| arg.requires("staying")))]
pub struct RecordArgs {
    #[command(flatten)]
    budget: BudgetArgs,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    noting: NotingArgs,

    #[command(flatten)]
    more: MoreArgs,

    #[command(flatten)]
    experiments: ExperimentArgs,

    #[command(flatten)]
    cost: CostArgs,

    /// Count everything: `strobe count` does now
    #[arg(long, value_name = "WHAT", value_parser = parse_older, num_args = 0..=1, require_equals = true, default_missing_value = "paths",
          hide = true, group = "staying", conflicts_with_all = BURSTS_ONLY)]
    exact: Option<Older>,

    #[command(flatten)]
    per: PerArgs,

    #[command(flatten)]
    stream: StreamArgs,
}

/// Options that apply only to bursts.
const BURSTS_ONLY: [&str; 6] = ["overhead", "rate", "burst", "samples", "keep_trace", "verify"];

/// Options for how much is recorded, and what that may cost.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Cost and bursts")]
struct BudgetArgs {
    /// Percent of the program's CPU time that recording may cost [default: 1]
    ///
    /// If --rate and --burst are both given, there is no limit unless this option sets one.
    #[arg(long, value_name = "PCT", value_parser = args_values::percent)]
    overhead: Option<f64>,

    /// Ticks per second of CPU time [default: by the budget, at most 100]
    #[arg(long, value_name = "HZ", value_parser = args_values::rate)]
    rate: Option<f64>,

    /// Checks of a burst: entries and iterations [default: by the budget, at most 10000]
    #[arg(long, value_name = "CHECKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    burst: Option<u32>,

    /// What starts a burst: ticks of CPU time, or a count of checks
    ///
    /// `timer`: ticks; the program runs natively between bursts. `count:CHECKS:BURST`: after CHECKS
    /// checks, for BURST of them. The program then never leaves the copies, which slows it down,
    /// and two runs that do the same record the same. `count` alone is count:99991:1009; CHECKS may
    /// be `infinity`.
    #[arg(long, value_name = "TRIGGER", value_parser = args_values::trigger)]
    trigger: Option<Trigger>,

    /// With --trigger count: which entries and loops have checks [default: EC]
    ///
    /// The policies of bursty tracing: orig, EL, EC, EN, L4, L10, LN, or one for entries and one
    /// for loops joined by `+`, as in EC+L4. A loop without checks is never recorded.
    #[arg(long, value_name = "POLICY", requires = "trigger")]
    checks: Option<CheckPolicy>,

    /// Keep the burst logs in the profile; `strobe dump bursts` prints them
    #[arg(long)]
    keep_trace: bool,

    /// Check every step of every burst against the control-flow graphs
    #[arg(long)]
    verify: bool,
}

/// Policies of published profilers, and recordings that leave something out to measure its cost.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = EXPERIMENTS)]
struct ExperimentArgs {
    /// What bursts do: trace, none, off
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Probe::Trace, hide_possible_values = true)]
    probe: Probe,

    /// Count some blocks in native code by breakpoints, for absolute counts
    ///
    /// Without, absolute counts rest on a model of how fast code is.
    #[arg(long)]
    spot_counts: bool,

    /// Arnold-Grove: samples per tick, instead of a burst of fixed length
    #[arg(long, value_name = "N", requires = "stride", conflicts_with = "burst", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: Option<u32>,

    /// Arnold-Grove: skip 0 to N-1 intervals before the first sample of a tick
    #[arg(long, value_name = "N", requires = "samples", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    stride: Option<u32>,

    /// Arnold-Grove: take one interval in STRIDE, instead of consecutive ones
    #[arg(long, requires = "stride")]
    full_stride: bool,

    /// PEP: stay in the copies and sample N paths per tick, one in M [,simplified]
    #[arg(long, value_name = "N,M", value_parser = args_values::pep, group = "staying",
          conflicts_with_all = ["overhead", "burst", "samples", "keep_trace", "verify", "exact", "metric", "perturbation", "per_call_site"])]
    pep: Option<Sampling>,
}

const EXAMPLES: &str = "\
Examples:
  strobe record -- gzip -k big.tar
  strobe record --overhead 0.2 -o nightly.strobe -- ./server --config prod.toml";

/// Start or stop a running recording
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

/// Ticks per second of CPU time for `--pep`.
const PEP_RATE_HZ: f64 = 100.0;

/// Where checks of the counted trigger are if nothing is said: a set of entries that every cycle of
/// calls meets, and all loops, so that nothing goes unrecorded.
const DEFAULT_CHECKS: CheckPolicy = CheckPolicy { entries: EntryChecks::CallCycles, loops: LoopChecks::Every };

/// What the value of `--exact` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    Count(Counted),
    Trace,
}

impl RecordArgs {
    pub fn into_props(self) -> RecordProps {
        let counts = self.exact.is_some() || self.per.is_given();
        if self.exact == Some(Older::Trace) && self.noting.is_any() {
            refuse("--exact=trace does not go with --values and the like\n")
        }
        let now_called = counts.then(|| now_called(self.exact));
        let hardware = self.per.hardware();
        let perturbation = self.cost.perturbation;
        let guide = self.cost.into_guide();
        let mode = match (self.experiments.pep, self.exact) {
            (Some(sampling), _) => Mode::Pep(Pep { sampling, rate_hz: self.budget.rate.unwrap_or(PEP_RATE_HZ), guide }),
            (None, Some(Older::Trace)) => args_count::tracing(guide),
            (None, Some(Older::Count(counted))) => args_count::counting(Some(counted), self.per, guide),
            (None, None) if counts => args_count::counting(None, self.per, guide),
            (None, None) => self.budget.mode(&self.experiments, self.noting.is_any()),
        };
        if self.budget.is_counted() && !matches!(mode, Mode::Counted(_)) {
            refuse("--trigger count does not go with counting everything, nor with --pep\n")
        }
        let noting = self.noting.into_noting(self.stream, !matches!(mode, Mode::Bursts(_)));
        RecordProps { hardware, now_called, perturbation, ..self.run.into_props(self.more, mode, noting) }
    }
}

impl BudgetArgs {
    fn is_counted(&self) -> bool {
        matches!(self.trigger, Some(Trigger::Count { .. }))
    }

    fn mode(&self, experiments: &ExperimentArgs, notes_values: bool) -> Mode {
        let Some(Trigger::Count { n_check, n_instr }) = self.trigger else {
            if self.checks.is_some() {
                refuse("--checks goes with --trigger count only\n")
            }
            return Mode::Bursts(self.bursts(experiments));
        };
        let given = [
            ("--overhead", self.overhead.is_some()),
            ("--rate", self.rate.is_some()),
            ("--burst", self.burst.is_some()),
            ("--samples", experiments.samples.is_some()),
            ("--probe", experiments.probe != Probe::Trace),
            ("--spot-counts", experiments.spot_counts),
            ("--verify", self.verify),
        ];
        if let Some((option, _)) = given.into_iter().find(|&(_, is_given)| is_given) {
            refuse(&format!("{option} is about bursts that ticks start; it does not go with --trigger count\n"))
        }
        Mode::Counted(CountedBursts {
            n_check,
            n_instr,
            checks: self.checks.unwrap_or(DEFAULT_CHECKS),
            logs: !notes_values,
            keeps_log: self.keep_trace,
        })
    }

    fn bursts(&self, experiments: &ExperimentArgs) -> Bursts {
        let sampling = experiments.samples.map(|samples| Sampling {
            samples,
            stride: experiments.stride.unwrap_or(1),
            policy: if experiments.full_stride { Policy::Full } else { Policy::Simplified },
        });
        let bursts = Bursts::new(self.rate, self.burst, sampling);
        Bursts {
            budget: self.overhead.or(bursts.budget),
            probe: match experiments.probe {
                Probe::Trace => BurstProbe::Blocks,
                Probe::None => BurstProbe::Nothing,
                Probe::Off => BurstProbe::Off,
            },
            counts_spots: experiments.spot_counts && experiments.probe == Probe::Trace,
            keeps_log: self.keep_trace,
            verifies: self.verify,
            ..bursts
        }
    }
}

impl CtlArgs {
    pub fn into_props(self) -> CtlProps {
        CtlProps { action: self.action, pid: self.pid }
    }
}

fn refuse(message: &str) -> ! {
    clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message).exit()
}

fn parse_older(text: &str) -> Result<Older, String> {
    if text == "trace" {
        return Ok(Older::Trace);
    }
    Counted::from_str(text, false).map(Older::Count)
}

/// Returns the command that does what `record` was asked to do.
fn now_called(exact: Option<Older>) -> String {
    match exact {
        Some(Older::Trace) => "strobe trace".to_owned(),
        Some(Older::Count(counted)) => {
            let name = counted.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            format!("strobe count --of {name}")
        }
        None => "strobe count".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use emit::{Counting, Events};

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        record: RecordArgs,
    }

    fn props(options: &[&str]) -> RecordProps {
        Typed::parse_from([&["strobe"], options, &["--", "program"]].concat()).record.into_props()
    }

    #[test]
    fn several_kinds_of_values_are_noted_at_once() {
        let noting = props(&["--call-targets", "--branches", "--select", "call"]).noting.expect("kinds were given");
        assert!(noting.events.has(Events::CALL_TARGETS) && noting.events.has(Events::BRANCH_TARGETS));
        assert!(!noting.events.has(Events::LOADS) && noting.selector.is_some());
    }

    #[test]
    fn bursts_have_a_budget_unless_rate_and_length_are_given() {
        let budget = |options: &[&str]| match props(options).mode {
            Mode::Bursts(bursts) => bursts.budget,
            other => panic!("{other:?}"),
        };
        assert_eq!(budget(&[]), Some(0.01));
        assert_eq!(budget(&["--rate", "50"]), Some(0.01));
        assert_eq!(budget(&["--rate", "50", "--burst", "64"]), None);
        assert_eq!(budget(&["--rate", "50", "--burst", "64", "--overhead", "2%"]), Some(0.02));
    }

    #[test]
    fn a_count_of_checks_starts_bursts() {
        let counted = |options: &[&str]| match props(options).mode {
            Mode::Counted(counted) => counted,
            other => panic!("{other:?}"),
        };
        let plain = counted(&["--trigger", "count"]);
        assert_eq!((plain.n_check, plain.n_instr, plain.logs), (99_991, 1009, true));
        assert_eq!(plain.checks.to_string(), "EC");
        let other = counted(&["--trigger", "count:1000:50", "--checks", "EC+L4", "--values", "--keep-trace"]);
        assert_eq!((other.n_check, other.n_instr, other.logs, other.keeps_log), (1000, 50, false, true));
        assert_eq!(other.checks.to_string(), "EC+L4");
        assert!(matches!(props(&["--trigger", "timer", "--rate", "50"]).mode, Mode::Bursts(_)));
    }

    #[test]
    fn what_record_used_to_do_is_told_its_name() {
        let of = |options: &[&str]| {
            let RecordProps { mode, now_called, .. } = props(options);
            (mode.counting(), now_called.unwrap_or_default())
        };
        assert_eq!(of(&["--exact"]), (Some(Counting::Paths), "strobe count --of paths".to_owned()));
        assert_eq!(of(&["--exact=blocks"]), (Some(Counting::Blocks), "strobe count --of blocks".to_owned()));
        assert_eq!(of(&["--exact=trace"]), (Some(Counting::TracedPaths), "strobe trace".to_owned()));
        let contexts = Counting::contexts(false, Some(emit::Metric::Cycles));
        assert_eq!(of(&["--metric=cycles"]), (Some(contexts), "strobe count".to_owned()));
        assert_eq!(of(&["--pep", "64,17", "--rate", "500"]), (Some(Counting::SampledPaths), String::new()));
        assert_eq!(of(&[]), (None, String::new()));
    }

    #[test]
    fn options_that_do_not_go_together_are_errors() {
        for options in [
            &["--exact", "--burst", "64"][..],
            &["--metric=cycles", "--rate", "50"],
            &["--pep", "64,17", "--exact"],
            &["--pep", "64,17", "--overhead", "1"],
            &["--compress", "none", "--values"],
            &["--guide", "a.strobe"],
            &["--trigger", "count:0:1"],
            &["--trigger", "sometimes"],
            &["--checks", "EC"],
            &["--trigger", "count", "--checks", "EE"],
            &["--exact=everything"],
        ] {
            let typed = [&["strobe"], options, &["--", "program"]].concat();
            assert!(Typed::try_parse_from(typed).is_err(), "{options:?}");
        }
    }
}
