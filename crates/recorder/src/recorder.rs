//! A recording from its start to its end.

use std::process::Command;
use std::time::{Duration, Instant};

use attach::{Exit, Injection, Launch, Listener, MetricSource, Noted, PassingOn, PathEnds, Settings, Target};
use image::NameKind;
use profile::model::CpuTime;
use profile::{Profile, query};
use store::Recording;
use store::path_trace::facts::Fact;
use store::path_trace::file::Writer;
use symbols::Symbolizer;

use crate::bursts::budget::Budget;
use crate::bursts::spots::SpotCounter;
use crate::cache::runtime_file;
use crate::error::{Error, Result};
use crate::exact;
use crate::facts::{Ending, RunFacts};
use crate::perturbation::{self, Perturbation, Taken};
use crate::plan::{BurstProbe, Bursts, Counted, Mode, Plan, Sampling};
use crate::requests::Requests;
use crate::session::{SHORTEST_NAP, Session, interval_ns};

/// Longest time that translations for the next run are waited for.
const LONGEST_PREPARATION: Duration = Duration::from_secs(60);
const PREPARATION_NAP: Duration = Duration::from_millis(10);

/// A recording in progress.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
    target: Target,
    passing_on: Option<PassingOn>,
    exit: Option<Exit>,
    /// When the program had ended, from the start of strobe's work.
    elapsed: Duration,
    started: Instant,
    start_up: Duration,
    asked_rate_hz: f64,
    /// What the program took by itself, if that was asked for.
    alone: Option<Taken>,
    cpu_before: Duration,
    nap: Duration,
}

/// The state of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The program runs.
    Running,
    /// The program has been stopped, as a shell does it with Ctrl-Z. Whoever records it should
    /// stop, too ([`attach::stop`]), until the user continues both.
    Stopped,
    /// The program has ended; what it left waits for control flow that is still being found.
    Settling,
    /// Nothing is left to wait for.
    Done,
}

/// Figures of a recording in progress.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// Whether recording is on.
    pub is_enabled: bool,
    /// Whether modules are being translated.
    pub is_translating: bool,
    /// Time since the start.
    pub elapsed: Duration,
    /// CPU seconds of the processes.
    pub cpu_seconds: f64,
    /// Seconds that recording has taken of these.
    pub cost_seconds: f64,
    /// Ticks so far.
    pub n_ticks: u64,
    /// Bursts so far.
    pub n_bursts: u64,
}

/// Something that whoever asked for a recording should be told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// No process joined, for a reason that is not known.
    NeverJoined,
    /// Noted values are missing.
    ValuesIncomplete(String),
    /// Paths are missing from the path trace.
    PathTraceIncomplete(String),
    /// Steps of bursts contradict the control flow: a bug in strobe.
    FalseSteps(u64),
}

/// A recording that has ended. Its profile has been written.
#[derive(Debug)]
pub struct Recorded {
    /// The profile.
    pub profile: Profile,
    /// What else is known of the run.
    pub facts: RunFacts,
    /// Both runs, if the program ran by itself before.
    pub perturbation: Option<Perturbation>,
    /// What should be told.
    pub warnings: Vec<Warning>,
    session: Session,
    cpu_before: Duration,
}

/// How to run a plan, beside what it records.
#[derive(Debug, Default, Clone, Copy)]
pub struct Manner {
    /// The program runs by itself first, for comparison.
    pub runs_alone_first: bool,
    /// What was on the process's CPU clock before strobe began.
    pub cpu_before: Duration,
    /// Signals that the program is to ignore from the start ([`attach::ignored_signals`]).
    pub ignored_signals: u64,
}

impl Recorder {
    /// Starts a recording and its program. `prepare` may redirect the program's streams.
    ///
    /// # Errors
    /// If the profile cannot be written, or the program cannot be started.
    pub fn start(
        plan: Plan,
        requests: &Requests,
        manner: Manner,
        prepare: &mut dyn FnMut(&mut Command) -> std::io::Result<()>,
    ) -> Result<Recorder> {
        let mut started = Instant::now();
        let recording = Recording::create(&plan.output)?;
        let settings = settings(&plan);
        let asked_rate_hz = Budget::new(plan.mode.wishes()).setting().rate_hz;
        let listener = Listener::bind()?;
        let launch = launch(&plan, &listener, manner.ignored_signals)?;
        let mut alone = None;
        if manner.runs_alone_first {
            alone = Some(perturbation::run_alone(&launch, requests)?);
            started = Instant::now();
        }
        let mut session = Session::start(plan, listener, settings, recording, requests.clone())?;
        let mut command = attach::command(&launch)?;
        prepare(&mut command)?;
        let name = format!("{}: cannot be started", launch.program.display());
        let target = Target::from(command.spawn().map_err(Error::io(name))?);
        let start_up = started.elapsed();
        let passing_on = requests.pass_on_to(&target);
        session.spots = spot_counter(&session.plan);
        session.delivery_seconds = attach::probe::delivery_ns().unwrap_or(0.0) / 1e9;
        Ok(Recorder {
            session,
            target,
            passing_on,
            exit: None,
            elapsed: Duration::ZERO,
            started,
            start_up,
            asked_rate_hz,
            alone,
            cpu_before: manner.cpu_before,
            nap: SHORTEST_NAP,
        })
    }

    /// Does one round of the work. Never blocks; call [`Recorder::wait`] before the next.
    ///
    /// # Errors
    /// If the system says nothing of the program.
    pub fn step(&mut self) -> Result<Progress> {
        if self.exit.is_none() {
            let Some(exit) = self.target.try_wait()? else { return Ok(self.step_running()) };
            self.exit = Some(exit);
            if let Some(passing_on) = self.passing_on.take() {
                passing_on.end();
            }
            self.session.end();
            self.elapsed = self.started.elapsed();
        }
        self.session.step();
        Ok(if self.session.is_settled() { Progress::Done } else { Progress::Settling })
    }

    fn step_running(&mut self) -> Progress {
        if self.target.take_stop_of_job() {
            return Progress::Stopped;
        }
        let has_samples = self.session.step();
        self.nap = self.session.next_nap(self.nap, has_samples);
        Progress::Running
    }

    /// Waits until the next step is due, or something happens that should not wait: a process joins
    /// or ends, a signal comes.
    pub fn wait(&mut self) {
        if self.exit.is_some() {
            std::thread::sleep(SHORTEST_NAP);
            return;
        }
        // What happens often is answered at intervals.
        let first = self.nap.min(SHORTEST_NAP);
        self.target.wait_for(first, &[]);
        let rest = self.nap - first;
        if !rest.is_zero() {
            self.target.wait_for(rest, &self.session.wakening());
            self.session.clear_wakening();
        }
    }

    /// Returns what can be said by now.
    #[must_use]
    pub fn status(&self) -> Status {
        let session = &self.session;
        Status {
            is_enabled: session.is_enabled(),
            is_translating: session.is_translating(),
            elapsed: session.started().elapsed(),
            cpu_seconds: session.cpu_seconds(),
            cost_seconds: session.cost().seconds(),
            n_ticks: session.sums.tally.n_samples,
            n_bursts: session.sums.tally.n_bursts,
        }
    }

    /// Returns the profile so far, if it has been written since the last time.
    pub fn take_latest(&mut self) -> Option<Profile> {
        self.session.take_latest()
    }

    /// Records until the end, for those who have nothing to show meanwhile.
    ///
    /// # Errors
    /// If a step fails.
    pub fn run(&mut self) -> Result<()> {
        while self.step()? != Progress::Done {
            self.wait();
        }
        Ok(())
    }

    /// Writes the profile, after the last step. Functions get their names from `symbols`.
    ///
    /// # Errors
    /// If the program has not ended.
    pub fn finish(self, symbols: &symbols::Options) -> Result<Recorded> {
        let Recorder { mut session, exit, elapsed, start_up, asked_rate_hz, alone, cpu_before, .. } = self;
        let Some(exit) = exit else { return Err(Error::Refused("the program has not ended".to_owned())) };
        let mut warnings = Vec::new();
        if session.n_processes == 0 && session.sums.left_alone.is_empty() {
            warnings.push(Warning::NeverJoined);
        }
        if let Some(stream) = &mut session.sums.value_stream {
            stream.close();
            warnings.extend(stream.error.clone().map(Warning::ValuesIncomplete));
        }
        let mut exact = session.plan.mode.counting().map(|counting| session.exact_outcome(counting));
        let agent_cpu = own_cpu_time().saturating_sub(cpu_before);
        let ending = Ending { exit, elapsed, start_up, agent_cpu, asked_rate_hz };
        let facts = RunFacts::new(&session, exact.as_ref(), &ending);
        let mut profile = profile(&mut session, exact.as_mut(), &facts);
        name_functions(&mut profile, symbols);
        let perturbation = alone.map(|without| {
            let metric_ns = profile.functions.iter().map(|row| row.self_ns.value).sum();
            Perturbation { without, with: Taken { used: exit.used, elapsed, metric_ns } }
        });
        for (name, value) in facts.rows().into_iter().chain(perturbation.iter().flat_map(Perturbation::facts)) {
            session.sums.recording.fact(name, value);
        }
        if let Some(writer) = &mut session.sums.path_trace {
            write_names(&profile, writer);
            warnings.extend(writer.error().map(|error| Warning::PathTraceIncomplete(error.to_string())));
        }
        if session.sums.findings.n_false > 0 {
            warnings.push(Warning::FalseSteps(session.sums.findings.n_false));
        }
        session.write(&profile);
        Ok(Recorded { profile, facts, perturbation, warnings, session, cpu_before })
    }
}

impl Recorded {
    /// Returns whether translations are still being made that only the next run needs. They go on
    /// until [`Recorded::close`]: a program that ended before its code was translated would be no
    /// better off next time.
    #[must_use]
    pub fn prepares_next_run(&self) -> bool {
        self.session.prepares_next_run() && !self.session.is_hurried()
    }

    /// Waits for translations that only the next run needs, for a minute at most.
    pub fn prepare_next_run(&self) {
        let started = Instant::now();
        while self.prepares_next_run() && started.elapsed() < LONGEST_PREPARATION {
            std::thread::sleep(PREPARATION_NAP);
        }
    }

    /// Ends the recording: strobe's own cost is complete. Returns the facts, and why the profile is
    /// incomplete if it is.
    #[must_use]
    pub fn close(self) -> (RunFacts, Option<String>) {
        let Recorded { profile, mut facts, session, cpu_before, .. } = self;
        session.translator.trim_cache();
        let (mut recording, mut error) = session.close();
        // All of that is strobe's own, so its time is taken as late as can be.
        drop(profile);
        facts.agent_cpu = own_cpu_time().saturating_sub(cpu_before);
        for (name, value) in facts.own_rows() {
            recording.fact(name, value);
        }
        if let Err(cause) = recording.flush() {
            error.get_or_insert(cause.to_string());
        }
        (facts, error)
    }
}

/// Returns what counts blocks in native code, where the mode has a use for it.
fn spot_counter(plan: &Plan) -> Option<SpotCounter> {
    match &plan.mode {
        Mode::Bursts(bursts) if bursts.counts_spots => SpotCounter::start(bursts.budget, plan.seed),
        Mode::Bursts(_) | Mode::Counted(_) | Mode::Exact(_) | Mode::Pep(_) => None,
    }
}

/// Returns what processes are told when they join.
fn settings(plan: &Plan) -> Settings {
    let setting = Budget::new(plan.mode.wishes()).setting();
    Settings {
        enabled: plan.window.starts_at_once(),
        tick_interval_ns: interval_ns(setting.rate_hz),
        seed: plan.seed,
        tick_source: plan.tick_source(),
        mode: mode(plan, setting.burst_checks),
    }
}

/// Returns the mode as processes are told it; bursts have `checks` at first.
fn mode(plan: &Plan, checks: u32) -> attach::Mode {
    let values = plan.event_settings();
    match &plan.mode {
        Mode::Bursts(bursts) => {
            let ends = bursts.sampling.map_or(PathEnds::ALL, path_ends);
            attach::Mode::Bursts { checks, stack_bytes: plan.stack_bytes, ends, values }
        }
        Mode::Counted(Counted { n_check, n_instr, logs, .. }) => attach::Mode::Counted {
            n_check: *n_check,
            n_instr: *n_instr,
            noted: if *logs { Noted::Words } else { values.map_or(Noted::Nothing, Noted::Values) },
        },
        Mode::Pep(pep) => attach::Mode::PathSampling { ends: path_ends(pep.sampling), values },
        Mode::Exact(exact) => {
            let metric = match exact.counting.metric() {
                Some(emit::Metric::Misses(_)) => MetricSource::CacheMisses,
                Some(emit::Metric::Cycles) | None => MetricSource::Cycles,
            };
            let noted = match exact.counting {
                emit::Counting::TracedPaths => Noted::Words,
                _ => values.map_or(Noted::Nothing, Noted::Values),
            };
            attach::Mode::Exact { metric, noted, keeps_paths: exact.counting.has_paths() }
        }
    }
}

fn path_ends(Sampling { policy, samples, stride }: Sampling) -> PathEnds {
    PathEnds { policy, samples, stride }
}

/// Returns how the program starts: with the runtime in it, if it can be recorded at all.
fn launch(plan: &Plan, listener: &Listener, ignored_signals: u64) -> Result<Launch> {
    let is_recordable = attach::probe_binary(&plan.program).is_profilable();
    let injection = is_recordable.then(|| -> Result<Injection> {
        Ok(Injection {
            runtime: runtime_file::install()?,
            session: listener.name().to_owned(),
            follow: plan.follows,
            no_op: matches!(plan.mode, Mode::Bursts(Bursts { probe: BurstProbe::Off, .. })),
            filters: attach::own_filters(),
        })
    });
    Ok(Launch {
        program: plan.program.clone(),
        argv: plan.command.clone(),
        injection: injection.transpose()?,
        ignored_signals,
    })
}

/// Makes the profile of all processes.
fn profile(session: &mut Session, exact: Option<&mut exact::Outcome>, facts: &RunFacts) -> Profile {
    session.name_untranslated();
    let tolerates = session.plan.noting.as_ref().is_some_and(|noting| noting.tolerance.is_some());
    let Some(outcome) = exact else {
        let mut profile = session.sums.builder.profile();
        profile.values = profile::of_whole_run(&profile, session.values_of_bursts());
        if session.recorded_all() {
            let rest_on_time = !session.sums.builder.has_spot_counts();
            query::account(&mut profile, measured_cpu(facts), rest_on_time);
        }
        return profile;
    };
    let mut profile = std::mem::take(&mut outcome.profile);
    let values = session.sums.values.rows(&outcome.in_profile);
    profile.values = if tolerates { profile::of_whole_run(&profile, values) } else { values };
    profile
}

/// Puts names from symbol tables into the profile itself, so that it can be read without the files.
fn name_functions(profile: &mut Profile, options: &symbols::Options) {
    let mut symbolizer = Symbolizer::new(profile, options);
    let places: Vec<_> = profile.functions.iter().map(|function| (function.module, function.address)).collect();
    symbolizer.resolve(&places);
    for function in &mut profile.functions {
        let name = symbolizer.function_name(function.module, function.address);
        if name.kind != NameKind::Synthetic {
            function.name = name.raw;
        }
    }
}

/// Returns CPU time of the program and its children, split as the kernel splits that of those that
/// were waited for.
fn measured_cpu(facts: &RunFacts) -> CpuTime {
    let (user_ns, system_ns) = (facts.user().as_nanos() as f64, facts.system().as_nanos() as f64);
    let all_ns = 1e9 * facts.cpu_seconds();
    let factor = if user_ns + system_ns > 0.0 { all_ns / (user_ns + system_ns) } else { 0.0 };
    CpuTime { user_ns: user_ns * factor, system_ns: system_ns * factor }
}

/// Writes the names of functions into the path trace, which can then be read without the files.
fn write_names(profile: &Profile, writer: &mut Writer) {
    for (index, module) in profile.modules.iter().enumerate() {
        let own = profile.functions.iter().filter(|function| function.module.index() == index);
        let named = own.filter(|function| !function.name.is_empty());
        let names: Vec<_> = named.map(|function| (function.address, function.name.clone())).collect();
        if !names.is_empty() {
            writer.fact(&Fact::Names { path: module.path.clone(), names });
        }
    }
}

/// Returns the CPU time of this process, which goes on where a program executes another.
#[must_use]
pub fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
