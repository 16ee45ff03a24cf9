//! What the comparison prints.

use std::collections::BTreeMap;
use std::fmt;

use image::Svma;
use serde_json::{Value, json};

use super::COUNTINGS;
use super::compare::{Compared, Finding, Kind, Reason, Tally, Verdict};
use super::counts::Place;
use crate::table::{Table, grouped};

/// All programs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which they ran.
    pub programs: Vec<ProgramReport>,
}

/// One program.
#[derive(Clone, Debug)]
pub struct ProgramReport {
    /// As the corpus calls it.
    pub name: &'static str,
    /// Most executed first.
    pub files: Vec<FileReport>,
}

/// One file of a program.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Without its folder.
    pub name: String,
    /// By counting.
    pub compared: [Compared; COUNTINGS.len()],
    /// What is not equal, by counting, verdict and function.
    pub rest: [BTreeMap<(Verdict, String), Vec<Finding>>; COUNTINGS.len()],
}

impl FileReport {
    /// Sorts what was found by function.
    pub fn new(name: String, compared: [Compared; COUNTINGS.len()], function: impl Fn(Svma) -> String) -> FileReport {
        let rest = compared.each_ref().map(|compared| {
            let mut rest: BTreeMap<(Verdict, String), Vec<Finding>> = BTreeMap::new();
            for &finding in &compared.findings {
                rest.entry((finding.verdict, function(finding.place.at()))).or_default().push(finding);
            }
            rest
        });
        FileReport { name, compared, rest }
    }
}

impl ProgramReport {
    /// Stable counts that differ without a reason.
    #[must_use]
    pub fn n_different(&self) -> u64 {
        let of_counting = |counting| self.tally(counting, |_, verdict| verdict == Verdict::Different).places;
        (0..COUNTINGS.len()).map(of_counting).sum()
    }

    fn tally(&self, counting: usize, choose: impl Fn(Kind, Verdict) -> bool) -> Tally {
        let tallies = self.files.iter().flat_map(|file| &file.compared[counting].tallies);
        tallies.filter(|&(&(kind, verdict), _)| choose(kind, verdict)).map(|(_, &tally)| tally).sum()
    }

    /// Executions of all instructions.
    fn n_executions(&self, counting: usize) -> u64 {
        self.tally(counting, |kind, _| kind == Kind::Instruction).executions
    }

    /// What is not equal, by counting, verdict, file and function, with executions of instructions;
    /// most executed first.
    fn rest(&self) -> Vec<Rest<'_>> {
        let mut rest = Vec::new();
        for (counting, file) in
            (0..COUNTINGS.len()).flat_map(|counting| self.files.iter().map(move |file| (counting, file)))
        {
            for ((verdict, function), findings) in &file.rest[counting] {
                let instructions = findings.iter().filter(|finding| Kind::of(finding.place) == Kind::Instruction);
                let executions = instructions.map(|finding| finding.callgrind.max(finding.strobe)).sum();
                rest.push(Rest { counting, file: &file.name, verdict: *verdict, function, findings, executions });
            }
        }
        rest.sort_by_key(|rest| (std::cmp::Reverse(rest.executions), rest.counting, rest.verdict, rest.function));
        rest
    }
}

/// What is not equal in a function.
struct Rest<'a> {
    counting: usize,
    file: &'a str,
    verdict: Verdict,
    function: &'a str,
    findings: &'a [Finding],
    executions: u64,
}

impl Report {
    /// Whether every stable count of every program is equal, or differs for a known reason.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.programs.iter().all(|program| program.n_different() == 0)
    }

    /// A row for each program and counting.
    #[must_use]
    pub fn summary(&self) -> Table {
        let mut table = Table::new(&[
            "program",
            "instructions",
            "equal",
            "edges",
            "equal",
            "calls",
            "equal",
            "unstable",
            "moving",
            "explained",
            "different",
        ]);
        for program in &self.programs {
            for (counting, what) in COUNTINGS.iter().enumerate() {
                let mut cells = vec![format!("{} {what}", program.name)];
                for kind in Kind::ALL {
                    let all = program.tally(counting, |of, _| of == kind).places;
                    let equal = program.tally(counting, |of, verdict| of == kind && verdict == Verdict::Equal).places;
                    cells.extend([grouped(all), grouped(equal)]);
                }
                let count =
                    |choose: fn(Verdict) -> bool| grouped(program.tally(counting, |_, verdict| choose(verdict)).places);
                cells.push(count(|verdict| verdict == Verdict::Unstable));
                cells.push(count(|verdict| verdict == Verdict::Moving));
                cells.push(count(|verdict| matches!(verdict, Verdict::Explained(_))));
                cells.push(count(|verdict| verdict == Verdict::Different));
                table.row(cells);
            }
        }
        table
    }

    /// Places by reason, and their share of all executions of instructions.
    #[must_use]
    pub fn reasons(&self) -> Table {
        let mut table = Table::new(&["not equal because", "blocks: places", "share", "paths: places", "share"]);
        let verdicts = [Verdict::Unstable, Verdict::Moving].into_iter();
        let verdicts = verdicts.chain(Reason::ALL.map(Verdict::Explained)).chain([Verdict::Different]);
        for verdict in verdicts {
            let cells = (0..COUNTINGS.len()).flat_map(|counting| {
                let sum = |choose: &dyn Fn(Kind, Verdict) -> bool| -> Tally {
                    self.programs.iter().map(|program| program.tally(counting, choose)).sum()
                };
                let places = sum(&|_, of| of == verdict).places;
                let part = sum(&|kind, of| of == verdict && kind == Kind::Instruction).executions;
                let all = self.programs.iter().map(|program| program.n_executions(counting)).sum();
                [grouped(places), share(part, all)]
            });
            table.row(std::iter::once(verdict_name(verdict)).chain(cells));
        }
        table
    }

    /// What is not equal, by function.
    #[must_use]
    pub fn rest(&self) -> Table {
        let mut table = Table::new(&["program, counting, file, function", "why", "places", "share of all"]);
        for program in &self.programs {
            for rest in program.rest() {
                let Rest { counting, file, verdict, function, findings, executions } = rest;
                table.row([
                    format!("{} {} {file} {function}", program.name, COUNTINGS[counting]),
                    verdict_name(verdict),
                    grouped(findings.len() as u64),
                    share(executions, program.n_executions(counting)),
                ]);
            }
        }
        table
    }

    /// Everything, for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let programs = self.programs.iter().map(|program| {
            let countings = COUNTINGS.iter().enumerate().map(|(counting, what)| {
                let tallies = program.files.iter().flat_map(|file| {
                    file.compared[counting].tallies.iter().map(|(&(kind, verdict), tally)| {
                        json!({
                            "file": file.name,
                            "kind": format!("{kind:?}").to_lowercase(),
                            "verdict": verdict_name(verdict),
                            "places": tally.places,
                            "executions": tally.executions,
                        })
                    })
                });
                let rest = program.rest().into_iter().filter(|rest| rest.counting == counting).map(|rest| {
                    json!({
                        "file": rest.file,
                        "function": rest.function,
                        "verdict": verdict_name(rest.verdict),
                        "executions": rest.executions,
                        "places": rest.findings.iter().map(place_json).collect::<Vec<Value>>(),
                    })
                });
                let (tallies, rest) = (tallies.collect::<Vec<Value>>(), rest.collect::<Vec<Value>>());
                json!({ "counting": what, "tallies": tallies, "rest": rest })
            });
            json!({ "program": program.name, "countings": countings.collect::<Vec<Value>>() })
        });
        json!({ "holds": self.holds(), "programs": programs.collect::<Vec<Value>>() })
    }
}

fn place_json(finding: &Finding) -> Value {
    let (from, to) = match finding.place {
        Place::Instruction(at) => (at, None),
        Place::Edge(from, to) | Place::Call(from, to) => (from, Some(to.0)),
    };
    json!({ "at": from.0, "to": to, "callgrind": finding.callgrind, "strobe": finding.strobe })
}

fn verdict_name(verdict: Verdict) -> String {
    match verdict {
        Verdict::Equal => "equal".to_owned(),
        Verdict::Unstable => "unstable under callgrind".to_owned(),
        Verdict::Moving => "moving under strobe".to_owned(),
        Verdict::Explained(reason) => reason.to_string(),
        Verdict::Different => "DIFFERENT".to_owned(),
    }
}

/// A share with enough digits that little is not nothing.
fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) => "0".to_owned(),
        (_, 0) => "-".to_owned(),
        _ => format!("{:.6} %", part as f64 / whole as f64 * 100.0),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.rest(), self.reasons(), self.summary())?;
        let n_different: u64 = self.programs.iter().map(ProgramReport::n_different).sum();
        writeln!(f, "{} stable counts differ without a known reason", grouped(n_different))
    }
}
