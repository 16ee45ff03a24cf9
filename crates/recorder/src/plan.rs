//! What a recording is asked to do, as plain values: everything is parsed, and every default is
//! filled in.
//!
//! What only one way of recording needs lies inside its [`Mode`], so that a plan cannot ask for the
//! burst length of an exact recording.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use attach::EventSettings;
use emit::{Counting, Events, Trigger};
use flow::checks::CheckPolicy;
use sampling::selector::Selector;
use wire::clusters::Version;
use wire::control::{Policy, TickSource};

/// Ticks per second that a POSIX timer reaches: the kernel looks at it once per scheduler tick.
const TIMER_LIMIT_HZ: f64 = 200.0;

/// Most bytes of stack that a tick keeps by default.
pub const STACK_BYTES: u32 = 131_072;

/// Share of the program's CPU time that recording may cost if nothing is said.
const BUDGET: f64 = 0.01;

/// A recording to be made.
#[derive(Debug)]
pub struct Plan {
    /// The file of the program.
    pub program: PathBuf,
    /// The program's name as it is called, and its arguments; at least one.
    pub command: Vec<OsString>,
    /// Where the profile goes.
    pub output: PathBuf,
    /// What is recorded, and how.
    pub mode: Mode,
    /// Where ticks come from.
    pub ticks: Ticks,
    /// Most bytes of stack that a tick keeps, a multiple of 8.
    pub stack_bytes: u32,
    /// Seed of the random phases of first ticks, and of compressors.
    pub seed: u64,
    /// The part of the run that is recorded.
    pub window: Window,
    /// Only modules whose file name contains one of these have copies; empty: all modules.
    pub modules: Vec<String>,
    /// Only threads with one of these ids, or with one of these in their name, are recorded; empty:
    /// all threads.
    pub threads: Vec<String>,
    /// Whether processes that the program starts are recorded as well.
    pub follows: bool,
    /// What is noted of single instructions, beside what the mode records.
    pub noting: Option<Noting>,
    /// Whether translations are kept for the next run, and those of earlier runs are used.
    pub uses_cache: bool,
}

/// A way of recording.
#[derive(Debug, Clone)]
pub enum Mode {
    /// Short bursts in copies; native code between them.
    Bursts(Bursts),
    /// Bursts that a count of checks starts, in copies that are never left.
    Counted(Counted),
    /// Copies that are never left and count everything.
    Exact(Exact),
    /// Copies that are never left and count some of the paths that end at a tick.
    Pep(Pep),
}

/// Recording in bursts.
#[derive(Debug, Clone, PartialEq)]
pub struct Bursts {
    /// Share of the program's CPU time that recording may cost; `None`: no limit.
    pub budget: Option<f64>,
    /// Ticks per second of CPU time; `None`: as the budget allows.
    pub rate_hz: Option<f64>,
    /// Checks per burst; `None`: as the budget allows.
    pub length: Option<u32>,
    /// Arnold and Grove's sampling of paths, instead of a burst that counts as a whole.
    pub sampling: Option<Sampling>,
    /// What a burst does.
    pub probe: BurstProbe,
    /// Whether the kernel counts some blocks in native code now and then, where it is permitted.
    pub counts_spots: bool,
    /// Whether the block records of bursts are kept in the profile.
    pub keeps_log: bool,
    /// Whether every step of every burst is checked against the control flow of the code.
    pub verifies: bool,
}

impl Bursts {
    /// Returns bursts at a rate, of a length or with samples of paths. The default budget chooses
    /// what is not given; there is none if nothing is left to choose.
    #[must_use]
    pub fn new(rate_hz: Option<f64>, length: Option<u32>, sampling: Option<Sampling>) -> Bursts {
        let is_fixed = rate_hz.is_some() && (length.is_some() || sampling.is_some());
        Bursts {
            budget: (!is_fixed).then_some(BUDGET),
            rate_hz,
            length,
            sampling,
            probe: BurstProbe::Blocks,
            counts_spots: false,
            keeps_log: false,
            verifies: false,
        }
    }
}

/// What a burst does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstProbe {
    /// It records every block.
    Blocks,
    /// It runs without recording: what the copies alone cost.
    Nothing,
    /// It does not start: what ticks alone cost.
    Off,
}

/// Which path ends count: `samples` of them at each tick, one in `stride`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Samples per tick.
    pub samples: u32,
    /// One path end in so many is a sample.
    pub stride: u32,
    /// Where path ends are skipped.
    pub policy: Policy,
}

/// Recording in bursts that a count of checks starts and ends: two runs that do the same have the
/// same bursts.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// Checks between two bursts.
    pub n_check: u32,
    /// Checks of a burst.
    pub n_instr: u32,
    /// Where checks are.
    pub checks: CheckPolicy,
    /// Whether bursts record blocks; if not, they only note values.
    pub logs: bool,
    /// The block records of bursts are kept in the profile.
    pub keeps_log: bool,
}

impl Counted {
    /// Returns for how many stretches between two checks one in a burst stands.
    #[must_use]
    pub fn weight(&self) -> f64 {
        (f64::from(self.n_check) + f64::from(self.n_instr)) / f64::from(self.n_instr.max(1))
    }

    fn trigger(&self, version: Version) -> Trigger {
        Trigger { version, policy: self.checks, logs: self.logs }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count:{}:{}", self.n_check, self.n_instr)
    }
}

/// Counting everything.
#[derive(Debug, Clone)]
pub struct Exact {
    /// What is counted.
    pub counting: Counting,
    /// An earlier profile to number paths by.
    pub guide: Option<GuideFile>,
}

/// Counting samples of paths, as PEP does.
#[derive(Debug, Clone)]
pub struct Pep {
    /// Which paths count.
    pub sampling: Sampling,
    /// Ticks per second of CPU time.
    pub rate_hz: f64,
    /// An earlier profile to number paths by.
    pub guide: Option<GuideFile>,
}

/// An earlier profile whose hot edges get no additions when paths are numbered.
#[derive(Debug, Clone)]
pub struct GuideFile {
    /// The profile.
    pub path: PathBuf,
    /// Whether hot edges are taken for cold ones, to see what numbering is worth.
    pub is_flipped: bool,
}

/// Where ticks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticks {
    /// The cheaper source that reaches the rate.
    Auto,
    /// POSIX timers on the CPU time of each thread.
    Timer,
    /// The task clock of perf events.
    Perf,
    /// There are none.
    Off,
}

/// The part of the run in which bursts may start, in time since the program started.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    /// Recording starts after this time.
    pub delay: Duration,
    /// Recording stops after so much more time.
    pub duration: Option<Duration>,
    /// Whether recording starts on request, not after the delay.
    pub starts_paused: bool,
}

impl Window {
    /// Returns whether recording starts with the program.
    #[must_use]
    pub fn starts_at_once(&self) -> bool {
        !self.starts_paused && self.delay.is_zero()
    }

    pub(crate) fn is_whole_run(&self) -> bool {
        self.starts_at_once() && self.duration.is_none()
    }
}

/// Values that are noted of single instructions: what loads load, where calls go.
#[derive(Debug, Clone)]
pub struct Noting {
    /// The kinds of values.
    pub events: Events,
    /// The instructions; `None`: all of them.
    pub selector: Option<Selector>,
    /// Noting ends when half more of the values change their profile by less than this.
    pub tolerance: Option<f64>,
    /// How the program compresses the stream of values; empty: not at all.
    pub compressor: String,
    /// Where values go instead of being counted.
    pub stream: Option<PathBuf>,
}

impl Plan {
    /// Returns a plan to record all of a run: every module, thread and process.
    #[must_use]
    pub fn new(program: PathBuf, command: Vec<OsString>, output: PathBuf, mode: Mode) -> Plan {
        Plan {
            program,
            command,
            output,
            mode,
            ticks: Ticks::Auto,
            stack_bytes: STACK_BYTES,
            seed: 0,
            window: Window::default(),
            modules: Vec::new(),
            threads: Vec::new(),
            follows: true,
            noting: None,
            uses_cache: true,
        }
    }

    pub(crate) fn events(&self) -> Events {
        self.noting.as_ref().map_or(Events::NONE, |noting| noting.events)
    }

    pub(crate) fn event_settings(&self) -> Option<EventSettings> {
        self.noting.as_ref().and_then(|noting| EventSettings::new(&noting.compressor, self.seed))
    }

    pub(crate) fn tick_source(&self) -> TickSource {
        match (self.ticks, &self.mode) {
            (Ticks::Timer, _) => TickSource::PosixTimer,
            (Ticks::Perf, _) => TickSource::Perf,
            (Ticks::Off, _) => TickSource::Off,
            (Ticks::Auto, Mode::Counted(_) | Mode::Exact(_) | Mode::Pep(_)) => TickSource::PosixTimer,
            (Ticks::Auto, Mode::Bursts(bursts)) => {
                let is_fast = bursts.rate_hz.is_some_and(|hz| hz > TIMER_LIMIT_HZ);
                let uses_perf = is_fast && attach::probe::system().has_perf_ticks;
                if uses_perf { TickSource::Perf } else { TickSource::PosixTimer }
            }
        }
    }

    /// Returns the command on one line.
    #[must_use]
    pub fn command_line(&self) -> String {
        self.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

impl Mode {
    /// Returns what copies count, if the mode never leaves them.
    #[must_use]
    pub fn counting(&self) -> Option<Counting> {
        match self {
            Mode::Bursts(_) | Mode::Counted(_) => None,
            Mode::Exact(exact) => Some(exact.counting),
            Mode::Pep(_) => Some(Counting::SampledPaths),
        }
    }

    /// Returns whether every path that ends is written to a file.
    pub(crate) fn traces_paths(&self) -> bool {
        self.counting() == Some(Counting::TracedPaths)
    }

    pub(crate) fn probe(&self) -> emit::Probe {
        match self {
            Mode::Bursts(Bursts { probe: BurstProbe::Blocks, .. }) => emit::Probe::Trace,
            Mode::Bursts(_) => emit::Probe::None,
            Mode::Counted(counted) => triggered(counted.trigger(Version::Instrumented)),
            Mode::Exact(exact) => emit::Probe::Exact(exact.counting),
            Mode::Pep(_) => emit::Probe::Exact(Counting::SampledPaths),
        }
    }

    /// Returns what the copies do that only check, if there are such.
    pub(crate) fn checking_probe(&self) -> Option<emit::Probe> {
        match self {
            Mode::Counted(counted) => Some(triggered(counted.trigger(Version::Checking))),
            Mode::Bursts(_) | Mode::Exact(_) | Mode::Pep(_) => None,
        }
    }

    /// Returns whether the control flow of modules is needed after they have been translated.
    pub(crate) fn keeps_flow(&self) -> bool {
        match self {
            Mode::Bursts(bursts) => bursts.verifies,
            Mode::Counted(_) => false,
            Mode::Exact(_) | Mode::Pep(_) => true,
        }
    }

    /// Returns what is fixed of rate and burst length.
    pub(crate) fn wishes(&self) -> Wishes {
        match self {
            Mode::Bursts(Bursts { budget, rate_hz, length, sampling, .. }) => {
                let samples = sampling.map(|sampling| sampling.samples);
                Wishes { budget: *budget, rate_hz: *rate_hz, burst_checks: length.or(samples) }
            }
            Mode::Counted(_) | Mode::Exact(_) => Wishes { budget: None, rate_hz: None, burst_checks: None },
            Mode::Pep(pep) => Wishes { budget: None, rate_hz: Some(pep.rate_hz), burst_checks: None },
        }
    }

    pub(crate) fn sampling(&self) -> Sampling {
        const NONE: Sampling = Sampling { samples: 0, stride: 1, policy: Policy::Plain };
        match self {
            Mode::Bursts(bursts) => bursts.sampling.unwrap_or(NONE),
            Mode::Counted(_) | Mode::Exact(_) => NONE,
            Mode::Pep(pep) => pep.sampling,
        }
    }

    /// Returns the earlier profile that paths are numbered by.
    pub(crate) fn guide(&self) -> Option<&GuideFile> {
        match self {
            Mode::Bursts(_) | Mode::Counted(_) => None,
            Mode::Exact(exact) => exact.guide.as_ref(),
            Mode::Pep(pep) => pep.guide.as_ref(),
        }
    }
}

fn triggered(trigger: Trigger) -> emit::Probe {
    emit::Probe::Exact(Counting::Triggered(trigger))
}

/// The rate of ticks and the length of bursts as far as they are given; the budget chooses the
/// rest.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    /// Share of the program's CPU time that recording may cost.
    pub budget: Option<f64>,
    /// Ticks per second of CPU time.
    pub rate_hz: Option<f64>,
    /// Checks per burst.
    pub burst_checks: Option<u32>,
}
