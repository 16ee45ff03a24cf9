//! Cost of recording by short units of work inside one process.
//!
//! Two identical runs of a program differ by up to 20 % on a shared machine, and so do two
//! processes of one run, by their addresses alone. So everything is compared inside one process. An
//! interpreter does equal units of some 50 ms, one whenever it is told to, and strobe is told
//! before each whether to record it, by signals as users would tell it. Rounds of three, in
//! changing order: recorded, not recorded, not recorded again. The CPU time of a unit comes from
//! the kernel's scheduler. Per round, the two ratios to the first unrecorded unit are all that
//! counts, so that what drifts slowly cancels; the median over rounds is what is stated, and
//! intervals come from drawing rounds anew. The second unrecorded unit shows what the method cannot
//! resolve.
//!
//! What strobe costs when nothing is to be recorded cannot be had inside one process:
//! [`measure_idle`] runs many short processes in turn, with strobe told never to tick and without
//! strobe, and compares the medians of their units; a second arm without strobe shows the limits.
//!
//! Ticks come in unrecorded units as well, but start no bursts: the ratio shows the cost of bursts.
//! It is compared with the accounted cost of bursts in recorded units less the native time of the
//! instructions that they executed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::cpu_time::cpu_seconds;
use crate::resample;
use crate::table::Table;

/// An interpreter that does one unit for each line of its input, and answers each with a line.
struct Subject {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// The file of the first argument that is to be written, and what to.
    script: Option<(&'static str, &'static str)>,
    /// What makes it do a unit.
    request: &'static str,
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "python",
        program: "/usr/bin/python3.11",
        arguments: &[],
        script: Some((
            "units.py",
            "import sys\n\
             def unit():\n    d = {}\n    for i in range(160000):\n        d[i % 997] = d.get(i % 991, 0) + i\n\
             for line in iter(sys.stdin.readline, ''):\n    unit(); print('done', flush=True)\n",
        )),
        request: "go\n",
    },
    Subject {
        name: "perl",
        program: "/usr/bin/perl",
        arguments: &[],
        script: Some((
            "units.pl",
            "$| = 1; sub unit { my %d; for my $i (0..160000) { $d{$i % 997} += length(\"$i\") } }\n\
             while (<STDIN>) { unit(); print \"done\\n\" }\n",
        )),
        request: "go\n",
    },
    Subject {
        name: "lua",
        program: "/usr/bin/lua5.4",
        arguments: &[],
        script: Some((
            "units.lua",
            "local function unit() local d = {} for i = 1, 900000 do local k = i % 997 d[k] = (d[k] or 0) + i end end\n\
             for line in io.lines() do unit() print('done') io.stdout:flush() end\n",
        )),
        request: "go\n",
    },
    Subject {
        name: "sqlite3",
        program: "/usr/bin/sqlite3",
        arguments: &["-interactive", "-batch", ":memory:"],
        script: None,
        request: "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 150000) SELECT sum(x * x % 7) FROM c;\n",
    },
];

/// What a round is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Plain,
    PlainAgain,
    Recorded,
}

const ORDERS: [[Unit; 3]; 6] = {
    use Unit::{Plain, PlainAgain, Recorded};
    [
        [Plain, Recorded, PlainAgain],
        [PlainAgain, Plain, Recorded],
        [Recorded, PlainAgain, Plain],
        [PlainAgain, Recorded, Plain],
        [Plain, PlainAgain, Recorded],
        [Recorded, Plain, PlainAgain],
    ]
};

/// Rounds before the copies are in place and the caches of the interpreter full.
const N_WARM_UP: usize = 12;
/// Time for strobe to do as it was told.
const SETTLE: Duration = Duration::from_millis(25);

/// CPU seconds of the units of a round, by [`Unit`].
type Round = [f64; 3];

/// What was measured of an interpreter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    name: String,
    /// Ratios to plain, by round, of units that are plain again,
    again: Vec<f64>,
    /// and of recorded ones.
    recorded: Vec<f64>,
    /// What the accounting says of recorded units, as a ratio to plain,
    accounted: f64,
    /// and of their bursts alone, which is what recorded units have and plain ones have not.
    accounted_bursts: f64,
}

/// Measures all interpreters.
pub fn measure(strobe: &Path, folder: &Path, n_rounds: usize) -> anyhow::Result<Vec<Measured>> {
    fs::create_dir_all(folder)?;
    let of_subject = |subject: &Subject| {
        eprintln!("  {}: {n_rounds} rounds of short units", subject.name);
        let profile = folder.join("units.strobe");
        let session = run(subject, strobe, folder, &profile, n_rounds)?;
        let ratios = |unit: Unit| -> Vec<f64> {
            session.rounds.iter().map(|round| round[unit as usize] / round[Unit::Plain as usize]).collect()
        };
        let facts = store::facts(&profile)?;
        let share =
            |name| fact(&facts, name).map(|percent| percent / 100.0 * session.cpu_seconds / session.recorded_seconds);
        Ok(Measured {
            name: subject.name.to_owned(),
            again: ratios(Unit::PlainAgain),
            recorded: ratios(Unit::Recorded),
            accounted: 1.0 + share("cost_percent")?,
            accounted_bursts: 1.0 + share("cost_bursts_percent")?,
        })
    };
    SUBJECTS.iter().map(of_subject).collect()
}

/// Ratios to plain, with intervals.
#[must_use]
pub fn table(measured: &[Measured]) -> Table {
    let heading =
        ["interpreter", "rounds", "plain again", "interval", "recorded", "interval", "accounted", "without ticks"];
    let mut table = Table::new(&heading);
    for one in measured {
        table.row([
            one.name.clone(),
            one.again.len().to_string(),
            format!("{:.4}", median(&one.again)),
            interval(&one.again),
            format!("{:.4}", median(&one.recorded)),
            interval(&one.recorded),
            format!("{:.4}", one.accounted),
            format!("{:.4}", one.accounted_bursts),
        ]);
    }
    table
}

/// Means over interpreters, in percent beyond plain.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Of recorded units.
    pub recorded: f64,
    /// Of plain ones: what the method cannot resolve.
    pub again: f64,
    /// What the accounting says of bursts in recorded ones.
    pub accounted_bursts: f64,
}

impl Means {
    /// Of what was measured.
    #[must_use]
    pub fn of(measured: &[Measured]) -> Means {
        let percent = |ratio: fn(&Measured) -> f64| {
            100.0 * (resample::mean(&measured.iter().map(ratio).collect::<Vec<f64>>()) - 1.0)
        };
        Means {
            recorded: percent(|one| median(&one.recorded)),
            again: percent(|one| median(&one.again)),
            accounted_bursts: percent(|one| one.accounted_bursts),
        }
    }
}

/// Measures what being under strobe costs when it never ticks, by interpreter.
pub fn measure_idle(strobe: &Path, folder: &Path, n_processes: usize) -> anyhow::Result<Table> {
    const N_UNITS: usize = 20;
    fs::create_dir_all(folder)?;
    let mut table = Table::new(&["interpreter", "plain again", "interval", "no ticks", "interval"]);
    for subject in &SUBJECTS {
        eprintln!("{}: {n_processes} processes of each kind", subject.name);
        let profile = folder.join("idle.strobe");
        let mut rounds: Vec<Round> = Vec::new();
        for index in 0..n_processes {
            let mut round = Round::default();
            for unit in ORDERS[index % ORDERS.len()] {
                let watched = (unit == Unit::Recorded).then_some((strobe, profile.as_path()));
                let mut interpreter = Interpreter::start(subject, folder, watched, &["--tick-source", "off"])?;
                let units: anyhow::Result<Vec<f64>> =
                    (0..N_UNITS).map(|_| interpreter.timed(subject.request)).collect();
                round[unit as usize] = median(&units?);
                interpreter.finish()?;
            }
            rounds.push(round);
        }
        let ratios = |unit: Unit| -> Vec<f64> {
            rounds.iter().map(|round| round[unit as usize] / round[Unit::Plain as usize]).collect()
        };
        let (again, idle) = (ratios(Unit::PlainAgain), ratios(Unit::Recorded));
        table.row([
            subject.name.to_owned(),
            format!("{:.4}", median(&again)),
            interval(&again),
            format!("{:.4}", median(&idle)),
            interval(&idle),
        ]);
    }
    Ok(table)
}

fn fact(facts: &BTreeMap<String, String>, name: &str) -> anyhow::Result<f64> {
    Ok(facts.get(name).with_context(|| format!("the profile has no {name}"))?.parse()?)
}

struct Session {
    rounds: Vec<Round>,
    /// Of the whole process.
    cpu_seconds: f64,
    /// Of its recorded units.
    recorded_seconds: f64,
}

fn run(subject: &Subject, strobe: &Path, folder: &Path, profile: &Path, n_rounds: usize) -> anyhow::Result<Session> {
    // At about the rate and burst length that the controller settles on; with a budget, it would
    // make up for the pauses.
    let options = ["--rate", "100", "--burst", "4000", "--paused"];
    let mut interpreter = Interpreter::start(subject, folder, Some((strobe, profile)), &options)?;
    let mut session = Session { rounds: Vec::new(), cpu_seconds: 0.0, recorded_seconds: 0.0 };
    for index in 0..N_WARM_UP + n_rounds {
        let mut round = Round::default();
        for unit in ORDERS[index % ORDERS.len()] {
            let seconds = interpreter.unit(subject.request, unit == Unit::Recorded)?;
            round[unit as usize] = seconds;
            if unit == Unit::Recorded {
                session.recorded_seconds += seconds;
            }
        }
        if index >= N_WARM_UP {
            session.rounds.push(round);
        }
    }
    session.cpu_seconds = interpreter.finish()?;
    Ok(session)
}

/// An interpreter, under strobe or not.
struct Interpreter {
    /// Strobe, or the interpreter itself.
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    pid: u32,
}

impl Interpreter {
    /// `watched` is strobe and the profile that it writes; `options` are for `strobe record`.
    fn start(
        subject: &Subject,
        folder: &Path,
        watched: Option<(&Path, &Path)>,
        options: &[&str],
    ) -> anyhow::Result<Interpreter> {
        let mut command = match watched {
            Some((strobe, profile)) => {
                let mut command = Command::new(strobe);
                command.args(["record", "-q"]).args(options).arg("-o").arg(profile).arg("--").arg(subject.program);
                command
            }
            None => Command::new(subject.program),
        };
        command.args(subject.arguments);
        if let Some((name, text)) = subject.script {
            fs::write(folder.join(name), text)?;
            command.arg(folder.join(name));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", subject.program))?;
        let (requests, answers) = child.stdin.take().zip(child.stdout.take()).context("pipes")?;
        let mut interpreter = Interpreter { child, requests, answers: BufReader::new(answers), pid: 0 };
        interpreter.ask(subject.request)?;
        let id = interpreter.child.id();
        interpreter.pid = if watched.is_some() { child_of(id).context("strobe has no child")? } else { id };
        Ok(interpreter)
    }

    fn unit(&mut self, request: &str, is_recorded: bool) -> anyhow::Result<f64> {
        let signal = if is_recorded { "-USR1" } else { "-USR2" };
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "cannot send a signal to strobe");
        std::thread::sleep(SETTLE);
        self.timed(request)
    }

    /// CPU seconds of a unit.
    fn timed(&mut self, request: &str) -> anyhow::Result<f64> {
        let before = cpu_seconds(self.pid)?;
        self.ask(request)?;
        Ok(cpu_seconds(self.pid)? - before)
    }

    fn ask(&mut self, request: &str) -> anyhow::Result<()> {
        self.requests.write_all(request.as_bytes())?;
        self.requests.flush()?;
        let mut answer = String::new();
        ensure!(self.answers.read_line(&mut answer)? > 0, "the interpreter has ended");
        Ok(())
    }

    /// CPU seconds of the process.
    fn finish(mut self) -> anyhow::Result<f64> {
        let seconds = cpu_seconds(self.pid)?;
        drop(self.requests);
        ensure!(self.child.wait()?.success(), "strobe or the interpreter failed");
        Ok(seconds)
    }
}

fn child_of(pid: u32) -> Option<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The middle 95 % of the median when rounds are drawn anew.
pub(crate) fn interval(values: &[f64]) -> String {
    let (low, high) = resample::interval(values, median);
    format!("{low:.4}-{high:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbances_do_not_move_the_median() {
        let mut ratios = vec![1.0; 50];
        ratios[..20].fill(9.0);
        assert_eq!(median(&ratios), 1.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), 2.5);
        let text = interval(&ratios);
        assert!(text.starts_with("1.0000-"), "{text}");
    }

    #[test]
    fn means_are_percents_beyond_plain() {
        let one = |recorded: f64| Measured {
            name: String::new(),
            again: vec![1.0, 1.002, 0.5],
            recorded: vec![recorded; 3],
            accounted: 1.02,
            accounted_bursts: 1.01,
        };
        let means = Means::of(&[one(1.01), one(1.03)]);
        assert!((means.recorded - 2.0).abs() < 1e-9 && means.again.abs() < 1e-9, "{means:?}");
        assert!((means.accounted_bursts - 1.0).abs() < 1e-9, "{means:?}");
    }

    #[test]
    fn every_order_has_each_unit_once() {
        for order in ORDERS {
            let mut seen = [0; 3];
            order.iter().for_each(|&unit| seen[unit as usize] += 1);
            assert_eq!(seen, [1; 3]);
        }
    }
}
