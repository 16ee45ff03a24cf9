//! `strobe record`: runs a program and records it.
//!
//! The order matters. A program that cannot start must not cost an earlier profile. Then the profile is opened, because a run that cannot be
//! kept should not start. Then the socket, then the program; from there on nothing that goes wrong on our side may keep the program from running to its end. It fails only if the program
//! could not be started; if it merely cannot be recorded, it runs, and a warning says why.

mod budget;
mod code;
mod converge;
mod digest;
mod events;
mod exact;
mod guide;
pub mod hardware;
mod layout;
mod left_alone;
mod live;
pub mod outside;
mod perturbation;
mod process;
mod progress;
mod runtime_file;
mod select;
mod session;
mod summary;
mod tally;
mod trace_check;
mod tracing;
mod translation;
mod unwind;
mod value_summary;
mod work;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use attach::{EventSettings, Exit, Injection, Launch, Launchability, Listener, Settings, Target};
use image::NameKind;
use profile::model::CpuTime;
use profile::query;
use store::Recording;
use symbols::Symbolizer;
use wire::control::TickSource;

use crate::cache;
use crate::look_up;
use crate::progress::Progress;
use crate::props::{Exact, Probe, RecordProps, TickChoice};
use crate::record::budget::{Budget, Wishes};
use crate::record::events::ValueStream;
use crate::record::guide::Guide;
use crate::record::live::Live;
use crate::record::outside::Requests;
use crate::record::perturbation::Taken;
use crate::record::progress::ProgressLine;
use crate::record::session::{Session, interval_ns};
use crate::record::summary::Ending;
use crate::trace::facts::Fact;
use crate::trace::file::Writer;
use crate::trace::path_beside;

/// Ticks per second that a POSIX timer can be relied on for: the kernel looks at it once per scheduler tick.
const TIMER_LIMIT_HZ: f64 = 200.0;
/// Time that strobe stays after the program has ended.
const LONGEST_PREPARATION: Duration = Duration::from_secs(60);
const LONGEST_NAP: Duration = Duration::from_millis(10);
/// A ring of values or of a trace that nobody reads makes the program wait.
const EVENTS_NAP: Duration = Duration::from_micros(200);
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// Runs the program; the exit code is the program's own. What was on the process's CPU clock before strobe began is not its own.
pub fn run(props: &RecordProps, cpu_before: Duration) -> Result<ExitCode> {
    let started = Instant::now();
    hardware::refuse(&props.hardware)?;
    let ignored_signals = attach::ignored_signals();
    let program = find(&props.command[0])?;
    let mut live = props.live.then(Live::prepare).transpose()?;
    let guide = props.guide.as_deref().map(|path| Guide::read(path, props.flip_guide)).transpose()?.unwrap_or_default();
    let launchability = attach::probe_binary(&program);
    if !launchability.is_profilable() && !can_start(&launchability) {
        bail!("{}", obstacle(&program, &launchability));
    }
    let recording = Recording::create(&props.output)?;
    let requests = Requests::listen(ignored_signals)?;
    let mut warnings = Vec::new();
    if !launchability.is_profilable() {
        warnings.push(format!("{}; it runs unrecorded", obstacle(&program, &launchability)));
    }
    if props.use_cache
        && let Err(why) = cache::folder_or_why()
    {
        warn(&format!("nothing is kept for the next run: {why:#}"));
    }
    let source = tick_source(props);
    let setting = Budget::new(wishes(props)).setting();
    let settings = Settings {
        enabled: !props.window.starts_paused && props.window.delay.is_zero(),
        tick_interval_ns: interval_ns(setting.rate_hz),
        burst_checks: setting.burst_checks,
        stack_bytes: props.stack_bytes,
        policy: props.policy,
        samples: props.samples,
        stride: props.stride,
        seed: props.seed,
        tick_source: source,
        is_exact: props.exact.is_some(),
        counts_misses: props.exact.is_some_and(|exact| matches!(exact.metric, Some(emit::Metric::Misses(_)))),
        traces_paths: is_traced(props),
        events: (!props.noted.is_empty()).then(|| EventSettings::new(&props.compressor, props.seed)).flatten(),
    };
    let value_stream = props.value_stream.as_deref().map(ValueStream::create).transpose()?;
    let trace = is_traced(props).then(|| Writer::create(&path_beside(&props.output))).transpose()?;
    let listener = Listener::bind()?;
    let injection = launchability.is_profilable().then(|| -> Result<Injection> {
        Ok(Injection {
            runtime: runtime_file::install()?,
            session: listener.name().to_owned(),
            follow: props.follow,
            no_op: props.probe == Probe::Off,
            filters: attach::own_filters(),
        })
    });
    let launch = Launch {
        program: program.clone(),
        argv: props.command.clone(),
        injection: injection.transpose()?,
        ignored_signals,
    };
    let alone = props.perturbation.then(|| perturbation::run_alone(&launch, &requests)).transpose()?;
    let started = if alone.is_some() { Instant::now() } else { started };
    let mut session = Session::start(props, listener, settings, recording, requests.clone(), guide);
    session.value_stream = value_stream;
    session.trace = trace;
    let mut target = start(&launch, live.as_ref())?;
    let start_up = started.elapsed();
    let passing_on = requests.pass_on_to(&target);
    session.delivery_seconds = attach::probe::delivery_ns().unwrap_or(0.0) / 1e9;
    for warning in &warnings {
        warn(warning);
    }
    if let Some(Err(error)) = live.as_mut().map(|live| live.open(command_line(props))) {
        warn(&format!("no live view: {error:#}"));
    }
    let exit = attend(props, &mut session, &mut target, live.as_mut())?;
    passing_on.end();
    drop(live);
    session.finish();
    conclude(
        props,
        session,
        &requests,
        Conclusion { exit, started, start_up, source, warnings, rate_hz: setting.rate_hz, alone, cpu_before },
    )?;
    // Ending by a signal drops nothing, and the witness would be left to whoever reaps orphans.
    drop(requests);
    Ok(end_like(exit))
}

/// Starts the program, off the terminal if a live view wants that.
fn start(launch: &Launch, live: Option<&Live>) -> Result<Target> {
    let Some(live) = live else { return Ok(attach::spawn(launch)?) };
    let mut command = attach::command(launch)?;
    live.redirect(&mut command)?;
    let child = command.spawn().with_context(|| format!("{}: cannot be started", launch.program.display()))?;
    Ok(Target::from(child))
}

/// Looks after the program until it has ended.
fn attend(
    props: &RecordProps,
    session: &mut Session<'_>,
    target: &mut Target,
    mut live: Option<&mut Live>,
) -> Result<Exit> {
    let mut progress = ProgressLine::new(props.quiet);
    let mut nap = SHORTEST_NAP;
    loop {
        if let Some(exit) = target.try_wait()? {
            return Ok(exit);
        }
        if target.take_stop_of_job() {
            if let Some(live) = &mut live {
                live.close();
            }
            attach::stop();
        }
        // In exact mode the program waits for answers.
        let has_samples = session.step() || props.exact.is_some();
        nap = if (!props.noted.is_empty() || is_traced(props)) && props.exact.is_some() {
            EVENTS_NAP
        } else if has_samples {
            SHORTEST_NAP.max(nap / 2)
        } else {
            (nap * 2).min(LONGEST_NAP)
        };
        if let Some(live) = &mut live {
            live.attend(session.take_latest());
        }
        if live.as_ref().is_none_or(|live| !live.is_open()) {
            progress.show(session);
        }
        target.wait_for(nap);
    }
}

struct Conclusion {
    exit: Exit,
    started: Instant,
    start_up: Duration,
    source: TickSource,
    warnings: Vec<String>,
    rate_hz: f64,
    /// What the program took by itself, if that was asked for.
    alone: Option<Taken>,
    cpu_before: Duration,
}

/// Writes the facts, prints the summary.
fn conclude(props: &RecordProps, mut session: Session<'_>, requests: &Requests, conclusion: Conclusion) -> Result<()> {
    let Conclusion { exit, started, start_up, source, mut warnings, rate_hz, alone, cpu_before } = conclusion;
    let used = exit.used;
    session.loners.warnings().for_each(|warning| warn(&warning));
    if session.n_processes == 0 && warnings.is_empty() && session.loners.is_empty() {
        warnings.push("the program ran unrecorded: it never joined (it may have ended too soon, dropped LD_PRELOAD, have a limit on its address space, or run under a seccomp filter that strobe does not run under)".to_owned());
        warn(warnings.last().map_or("", String::as_str));
    }
    let mut ending = Ending {
        command: command_line(props),
        how: how_it_ended(exit),
        elapsed: started.elapsed(),
        user: Duration::from_micros(used.user_us),
        system: Duration::from_micros(used.system_us),
        agent_cpu: own_cpu_time().saturating_sub(cpu_before),
        start_up,
        tick_source: match source {
            TickSource::PosixTimer => "POSIX timers".to_owned(),
            TickSource::Perf => "perf events".to_owned(),
            TickSource::Off => "off".to_owned(),
        },
        asked_rate_hz: rate_hz,
    };
    if let Some(stream) = &mut session.value_stream {
        stream.close();
        if let Some(error) = &stream.error {
            warn(&format!("the values are incomplete: {error}"));
        }
    }
    let exact = props.exact.map(|exact| (exact, session.exact_outcome(exact)));
    let facts = match &exact {
        Some((exact, outcome)) => exact::facts(&session, outcome, *exact, &ending),
        None => summary::facts(&session, &ending),
    };
    for (name, value) in facts {
        session.recording.fact(name, value);
    }
    session.name_untranslated();
    let mut profile = exact.as_ref().map_or_else(|| session.builder.profile(), |(_, outcome)| outcome.profile.clone());
    if exact.is_none() {
        profile.values = session.values_of_bursts();
    }
    if exact.is_none() || props.tolerance.is_some() {
        let seen = std::mem::take(&mut profile.values);
        profile.values = profile::of_whole_run(&profile, seen);
    }
    let perturbed = alone.map(|alone| {
        let metric_ns = profile.functions.iter().map(|row| row.self_ns.value).sum();
        (alone, Taken { used, elapsed: ending.elapsed, metric_ns })
    });
    for (name, value) in perturbed.iter().flat_map(|(without, with)| perturbation::facts(without, with)) {
        session.recording.fact(name, value);
    }
    if exact.is_none() && session.recorded_all() {
        query::account(&mut profile, measured_cpu(&session, &ending));
    }
    name_functions(&mut profile);
    if let Some(writer) = &mut session.trace {
        write_names(&profile, writer);
        if let Some(error) = writer.error() {
            warn(&format!("the trace is incomplete: {error}"));
        }
    }
    session.write(&profile);
    prepare_next_run(&session, requests, props.quiet);
    translation::clean_cache();
    if !props.quiet {
        let text = match &exact {
            Some((exact, outcome)) => {
                exact::text(&session, outcome, *exact, &ending, &props.output.display().to_string())
            }
            None => summary::text(&session, &ending, props.budget),
        };
        let table = perturbed.map(|(without, with)| perturbation::text(&without, &with)).unwrap_or_default();
        let _ = write!(std::io::stderr(), "strobe: {}: {}\n{text}{table}", ending.command, ending.how);
    }
    let false_steps = session.findings.n_false;
    let mut write_error = session.write_error.take();
    let cost_in_program = summary::cost_in_program(&session, &ending);
    // All of that is strobe's own, so its time is taken as late as can be.
    let mut recording = session.close();
    drop((profile, exact));
    ending.agent_cpu = own_cpu_time().saturating_sub(cpu_before);
    for (name, value) in summary::own_facts(&ending) {
        recording.fact(name, value);
    }
    if let Err(error) = recording.flush() {
        write_error.get_or_insert(error.to_string());
    }
    if !props.quiet {
        let _ = write!(std::io::stderr(), "{}", summary::own_text(&ending, cost_in_program));
    }
    if let Some(error) = write_error {
        warn(&format!("the profile is incomplete: {error}"));
    }
    if false_steps > 0 {
        warn(&format!("{false_steps} steps of traces are false; this is a bug in strobe"));
    }
    Ok(())
}

/// CPU time of the program and its children, split as the kernel splits that of those that were waited for.
fn measured_cpu(session: &Session<'_>, ending: &Ending) -> CpuTime {
    let (user_ns, system_ns) = (ending.user.as_nanos() as f64, ending.system.as_nanos() as f64);
    let all_ns = 1e9 * summary::cpu_seconds(session, ending);
    let factor = if user_ns + system_ns > 0.0 { all_ns / (user_ns + system_ns) } else { 0.0 };
    CpuTime { user_ns: user_ns * factor, system_ns: system_ns * factor }
}

/// Names from symbol tables are in the profile itself, so that it can be read without the files.
fn name_functions(profile: &mut profile::Profile) {
    let mut symbolizer = Symbolizer::new(profile, &look_up::of_recording());
    let places: Vec<_> = profile.functions.iter().map(|function| (function.module, function.address)).collect();
    symbolizer.resolve(&places);
    for function in &mut profile.functions {
        let name = symbolizer.function_name(function.module, function.address);
        if name.kind != NameKind::Synthetic {
            function.name = name.raw;
        }
    }
}

/// The trace has them, too.
fn write_names(profile: &profile::Profile, writer: &mut Writer) {
    for (index, module) in profile.modules.iter().enumerate() {
        let own = profile.functions.iter().filter(|function| function.module.index() == index);
        let named = own.filter(|function| !function.name.is_empty());
        let names: Vec<_> = named.map(|function| (function.address, function.name.clone())).collect();
        if !names.is_empty() {
            writer.fact(&Fact::Names { path: module.path.clone(), names });
        }
    }
}

/// A program that ended before its code was translated would be no better off next time, so what ticks have asked for is finished.
fn prepare_next_run(session: &Session<'_>, requests: &Requests, is_quiet: bool) {
    if !session.prepares_next_run() || requests.is_hurried() {
        return;
    }
    let progress = (!is_quiet).then(Progress::new);
    if let Some(progress) = &progress {
        progress.show("translating for the next run (Ctrl-C to skip)");
    }
    let started = Instant::now();
    while session.prepares_next_run() && started.elapsed() < LONGEST_PREPARATION && !requests.is_hurried() {
        std::thread::sleep(LONGEST_NAP);
    }
}

/// What the user left to the budget, and what not.
fn wishes(props: &RecordProps) -> Wishes {
    Wishes {
        budget: props.budget,
        rate_hz: props.rate_hz,
        burst_checks: props.burst_checks.or((props.samples > 0).then_some(props.samples)),
    }
}

fn is_traced(props: &RecordProps) -> bool {
    props.exact.is_some_and(|exact| exact.what == Exact::Trace)
}

fn tick_source(props: &RecordProps) -> TickSource {
    match props.tick_source {
        TickChoice::Timer => TickSource::PosixTimer,
        TickChoice::Perf => TickSource::Perf,
        TickChoice::Off => TickSource::Off,
        TickChoice::Auto if props.exact.is_some() => TickSource::PosixTimer,
        TickChoice::Auto => {
            let is_fast = props.rate_hz.is_some_and(|hz| hz > TIMER_LIMIT_HZ);
            if is_fast && attach::probe::system().has_perf_ticks { TickSource::Perf } else { TickSource::PosixTimer }
        }
    }
}

fn command_line(props: &RecordProps) -> String {
    props.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn find(name: &OsString) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = attach::find_program(name, &path);
    program.with_context(|| format!("{}: not found in PATH; give a path, or check the spelling", name.display()))
}

fn can_start(launchability: &Launchability) -> bool {
    !matches!(launchability, Launchability::Missing | Launchability::NotExecutable)
}

/// Why a program cannot be recorded, or not even be started.
fn obstacle(program: &Path, launchability: &Launchability) -> String {
    let why = match launchability {
        Launchability::Missing => "no such file; check the path",
        Launchability::NotExecutable => "not an executable file; check its permissions",
        Launchability::Static => "statically linked, which strobe cannot record yet",
        Launchability::Bits32 => "a 32-bit program, which strobe does not record",
        Launchability::Foreign { .. } => "not a program for x86-64, which strobe does not record",
        Launchability::Privileged => {
            "it takes the rights of another user, and such programs cannot be recorded; run strobe as that user"
        }
        Launchability::Script { interpreter, then } => {
            return format!("{}: its interpreter: {}", program.display(), obstacle(interpreter, then));
        }
        Launchability::UnknownFormat => "neither an ELF program nor a script",
        _ => "cannot be read, so that strobe does not know whether it can be recorded",
    };
    format!("{}: {why}", program.display())
}

fn how_it_ended(exit: Exit) -> String {
    match exit.signal {
        Some(signal) => format!("killed by signal {signal}"),
        None => format!("exit {}", exit.code.unwrap_or(0)),
    }
}

/// Ends as the program did: with its exit code, or by the same signal.
fn end_like(exit: Exit) -> ExitCode {
    if let Some(signal) = exit.signal {
        attach::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(exit.code.unwrap_or(0) as u8)
}

/// CPU time of this process, which goes on where a program executes another.
pub fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "strobe: warning: {text}");
}
