//! `--perturbation`: how recording changes what is measured, as in table 2 of Ammons, Ball and
//! Larus.
//!
//! The program runs once by itself before it is recorded, and both runs are compared. What it
//! prints then is thrown away. If it reads a file from its standard input, it reads that twice;
//! from a terminal or a pipe, which can be read only once, the run by itself gets nothing. A
//! program that changes files, or goes on where it ended the last time, is not the same the second
//! time.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use attach::{Exit, Launch, ResourceUse, Target};

use crate::error::{Result, refused};
use crate::requests::Requests;

/// How long to wait before looking whether it has stopped.
const NAP: Duration = Duration::from_millis(10);

/// The measurements of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    pub used: ResourceUse,
    pub elapsed: Duration,
    /// Time that the recording has charged to contexts or paths; of the run by itself, its CPU
    /// time.
    pub metric_ns: f64,
}

/// Runs the program by itself.
///
/// # Errors
/// If it cannot be started, or was ended by a signal.
pub fn run_alone(launch: &Launch, requests: &Requests) -> Result<Taken> {
    let alone = Launch { injection: None, ..launch.clone() };
    let input = Input::of_standard()?;
    let mut command = attach::command(&alone)?;
    command.stdin(input.for_child()?).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut target = Target::from(command.spawn()?);
    let passing_on = requests.pass_on_to(&target);
    let exit = loop {
        if let Some(exit) = target.try_wait()? {
            break exit;
        }
        if target.take_stop_of_job() {
            attach::stop();
        }
        target.wait_for(NAP, &[]);
    };
    if let Some(passing_on) = passing_on {
        passing_on.end();
    }
    if let Some(signal) = exit.signal {
        return refused(format!("the run without recording was ended by signal {signal}"));
    }
    input.rewind()?;
    Ok(Taken::of_run(exit, started.elapsed()))
}

impl Taken {
    fn of_run(exit: Exit, elapsed: Duration) -> Taken {
        let used = exit.used;
        Taken { used, elapsed, metric_ns: 1e3 * (used.user_us + used.system_us) as f64 }
    }
}

/// Standard input, if it can be read twice.
struct Input(Option<(File, u64)>);

impl Input {
    fn of_standard() -> io::Result<Input> {
        let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Ok(Input(if is_file { Some(file.stream_position().map(|at| (file, at))?) } else { None }))
    }

    fn for_child(&self) -> io::Result<Stdio> {
        match &self.0 {
            Some((file, _)) => Ok(Stdio::from(file.try_clone()?)),
            None => Ok(Stdio::null()),
        }
    }

    /// Both runs share the place in the file.
    fn rewind(self) -> io::Result<()> {
        match self.0 {
            Some((mut file, at)) => file.seek(io::SeekFrom::Start(at)).map(drop),
            None => Ok(()),
        }
    }
}

/// What is compared: its name in the table and among facts, and how it is found.
type Measure = (&'static str, &'static str, fn(&Taken) -> f64);

const MEASURES: [Measure; 6] = [
    ("user time, s", "perturbation_user_s", |taken| taken.used.user_us as f64 / 1e6),
    ("system time, s", "perturbation_system_s", |taken| taken.used.system_us as f64 / 1e6),
    ("elapsed, s", "perturbation_elapsed_s", |taken| taken.elapsed.as_secs_f64()),
    ("memory, MiB", "perturbation_memory_mib", |taken| taken.used.max_resident_bytes as f64 / 1_048_576.0),
    ("waits", "perturbation_waits", |taken| taken.used.voluntary_switches as f64),
    ("preemptions", "perturbation_preemptions", |taken| taken.used.involuntary_switches as f64),
];
const CYCLES: Measure = ("cycles, as s", "perturbation_cycles_s", |taken| taken.metric_ns / 1e9);

/// A measure, without and with recording.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name in a table.
    pub name: &'static str,
    fact: &'static str,
    /// Without recording.
    pub without: f64,
    /// With recording.
    pub with: f64,
}

/// Both runs of a program, without and with recording.
#[derive(Debug, Clone, Copy)]
pub struct Perturbation {
    /// What the run by itself took.
    pub without: Taken,
    /// What the recorded run took.
    pub with: Taken,
}

impl Perturbation {
    /// Returns all measures that there are.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let Perturbation { without, with } = self;
        let cycles = (0.0 < with.metric_ns).then_some(CYCLES);
        let row = |(name, fact, measure): Measure| Row { name, fact, without: measure(without), with: measure(with) };
        MEASURES.into_iter().chain(cycles).map(row).collect()
    }

    /// Returns the rows as facts of the profile.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let fact = |row: &Row| (row.fact, format!("{:.3} without, {:.3} with", row.without, row.with));
        self.rows().iter().map(fact).collect()
    }
}
