//! `strobe record`, `count` and `trace`: record a program, and print how that went.
//!
//! The order matters. A program that cannot start must not cost an earlier profile. From the start
//! of the program on, nothing that goes wrong on strobe's side may keep it from running to its end.

pub mod control;
pub mod hardware;
mod left_alone;
mod live;
mod plan;
mod progress;
mod summary;
mod summary_counted;
mod summary_exact;
mod summary_values;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use attach::{Exit, Launchability};
use recorder::{Manner, ModeFacts, Progress, Recorded, Recorder, Requests, Warning};

use crate::look_up;
use crate::progress::Progress as ProgressText;
use crate::props::RecordProps;
use crate::record::live::Live;
use crate::record::progress::ProgressLine;

pub use recorder::own_cpu_time;

/// Runs the program; the exit code is the program's own. `cpu_before` is what the process had used
/// before strobe began.
pub fn run(props: &RecordProps, cpu_before: Duration) -> Result<ExitCode> {
    hardware::refuse(&props.hardware)?;
    if let Some(name) = props.now_called.as_ref().filter(|_| !props.quiet) {
        let _ = writeln!(std::io::stderr(), "strobe: note: `{name}` does this now; the old form still works");
    }
    let ignored_signals = attach::ignored_signals();
    let program = find(&props.command[0])?;
    let live = props.live.then(Live::prepare).transpose()?;
    let launchability = attach::probe_binary(&program);
    let unrecordable = (!launchability.is_profilable()).then(|| obstacle(&program, &launchability));
    if let Some(why) = unrecordable.as_ref().filter(|_| !can_start(&launchability)) {
        bail!("{why}");
    }
    let requests = Requests::listen(ignored_signals)?;
    if props.uses_cache
        && let Err(why) = recorder::cache::folder_or_why()
    {
        warn(&format!("nothing is kept for the next run: {why}"));
    }
    if let Err(why) = recorder::cache::limit() {
        warn(&why.to_string());
    }
    let manner = Manner { runs_alone_first: props.perturbation, cpu_before, ignored_signals };
    let plan = plan::plan(props, program);
    let command = plan.command_line();
    let mut redirect =
        |command: &mut std::process::Command| live.as_ref().map_or(Ok(()), |live| live.redirect(command));
    let mut recorder = Recorder::start(plan, &requests, manner, &mut redirect)?;
    if let Some(why) = &unrecordable {
        warn(&format!("{why}; it runs unrecorded"));
    }
    attend(props, &mut recorder, live, command)?;
    let recorded = recorder.finish(&look_up::of_recording())?;
    let exit = recorded.facts.exit;
    conclude(props, recorded, unrecordable.is_some());
    // Ending by a signal drops nothing, and the witness would be left to whoever reaps orphans.
    drop(requests);
    Ok(end_like(exit))
}

/// Looks after the recording until nothing is left to wait for.
fn attend(props: &RecordProps, recorder: &mut Recorder, mut live: Option<Live>, command: String) -> Result<()> {
    if let Some(Err(error)) = live.as_mut().map(|live| live.open(command)) {
        warn(&format!("no live view: {error:#}"));
    }
    let mut line = ProgressLine::new(props.quiet);
    loop {
        match recorder.step()? {
            Progress::Running => {}
            Progress::Stopped => {
                if let Some(live) = &mut live {
                    live.close();
                }
                attach::stop();
            }
            Progress::Settling => drop(live.take()),
            Progress::Done => return Ok(()),
        }
        if let Some(live) = &mut live {
            live.attend(recorder.take_latest());
        }
        if live.as_ref().is_none_or(|live| !live.is_open()) {
            line.show(&recorder.status());
        }
        recorder.wait();
    }
}

/// Prints the summary, after translating what the next run needs.
fn conclude(props: &RecordProps, recorded: Recorded, is_unrecordable: bool) {
    left_alone::warnings(&recorded.facts.left_alone).for_each(|warning| warn(&warning));
    for warning in recorded.warnings.iter().filter(|warning| **warning != Warning::NeverJoined || !is_unrecordable) {
        warn(&warning_text(warning));
    }
    prepare_next_run(&recorded, props.quiet);
    let file = props.output.display().to_string();
    if !props.quiet {
        let facts = &recorded.facts;
        let text = match &facts.of_mode {
            ModeFacts::Bursts(bursts) => summary::text(facts, bursts, &file),
            ModeFacts::Counted(counted) => summary_counted::text(facts, counted, &file),
            ModeFacts::Exact(exact) => summary_exact::text(facts, exact, &recorded.profile, &file),
        };
        let table = recorded.perturbation.as_ref().map(summary::perturbation).unwrap_or_default();
        let _ = write!(std::io::stderr(), "strobe: {}: {}\n{text}{table}", facts.command, facts.ended());
    }
    let (facts, error) = recorded.close();
    if !props.quiet {
        let _ = write!(std::io::stderr(), "{}", summary::own_text(&facts));
    }
    if let Some(error) = error {
        warn(&format!("the profile is incomplete: {error}"));
    }
}

fn warning_text(warning: &Warning) -> String {
    match warning {
        Warning::NeverJoined => "the program ran unrecorded: it never joined (it may have ended too soon, dropped LD_PRELOAD, have a limit on its address space, or run under a seccomp filter that strobe does not run under)".to_owned(),
        Warning::ValuesIncomplete(why) => format!("the values are incomplete: {why}"),
        Warning::PathTraceIncomplete(why) => format!("the trace is incomplete: {why}"),
        Warning::FalseSteps(n) => format!("{n} steps of traces are false; this is a bug in strobe"),
        other => format!("{other:?}"),
    }
}

/// Waits for the translations that ticks have asked for, which only the next run needs.
fn prepare_next_run(recorded: &Recorded, is_quiet: bool) {
    if !recorded.prepares_next_run() {
        return;
    }
    let progress = (!is_quiet).then(ProgressText::new);
    if let Some(progress) = &progress {
        progress.show("translating for the next run (Ctrl-C to skip)");
    }
    recorded.prepare_next_run();
}

fn find(name: &OsString) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = attach::find_program(name, &path);
    program.with_context(|| format!("{}: not found in PATH; give a path, or check the spelling", name.display()))
}

fn can_start(launchability: &Launchability) -> bool {
    !matches!(launchability, Launchability::Missing | Launchability::NotExecutable)
}

/// Returns why a program cannot be recorded, or cannot even be started.
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

/// Ends as the program did: with its exit code, or by the same signal.
fn end_like(exit: Exit) -> ExitCode {
    if let Some(signal) = exit.signal {
        attach::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(exit.code.unwrap_or(0) as u8)
}

fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "strobe: warning: {text}");
}
