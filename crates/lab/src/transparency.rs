//! Same output: the programs of the corpus with and without `strobe record`.
//!
//! Each program runs natively twice, which shows what of its output is the same each time, and then
//! once under each setting. Exit status and every file that the workload writes must be equal, byte
//! by byte, but for the few lines in which a program reports times. What the recordings say about
//! themselves (cost, hit rate, checked traces) is tabulated beside. The program `strobe` is driven,
//! not the engine ([`crate::recording`]): status, output and signals are what users get.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;

use crate::corpus::outputs::Run;
use crate::corpus::{Data, Workload};
use crate::table::Table;

/// One way to record.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What the table calls it.
    pub name: String,
    /// Arguments of `strobe record`.
    pub arguments: String,
}

/// The settings that the output must survive.
#[must_use]
pub fn settings() -> Vec<Setting> {
    let setting = |name: &str, arguments: &str| Setting { name: name.to_owned(), arguments: arguments.to_owned() };
    vec![
        setting("default", ""),
        setting("long", "--rate 2000 --burst 10000"),
        setting("short", "--rate 4000 --burst 64"),
        setting("blocks", "--exact=blocks"),
        setting("paths", "--exact=paths"),
        setting("headers", "--exact=header-paths"),
        setting("contexts", "--exact=contexts"),
        setting("sites", "--exact=context-paths --per-call-site"),
        setting("path-cycles", "--exact=paths --metric cycles"),
        setting("context-cycles", "--exact=contexts --metric cycles"),
        setting("both-cycles", "--exact=context-paths --metric cycles"),
        setting("cache", "--exact=paths --metric l1d"),
        setting("context-cache", "--exact=context-paths --metric l1d:32k:8:64"),
        setting("trace", "--exact=trace"),
        setting("pep", "--pep 64,17"),
        setting("values", "--exact --values --call-targets --branches --types --addresses"),
    ]
}

/// One program under one setting.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program.
    pub program: &'static str,
    /// The setting.
    pub setting: String,
    /// What differs; nothing if the output is the same.
    pub difference: Option<String>,
    /// What the recording says about itself.
    pub facts: BTreeMap<String, String>,
}

impl Outcome {
    /// The output is the same, and no step of a checked trace is false.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.difference.is_none() && self.facts.get("false_steps").is_none_or(|n| n == "0")
    }
}

/// Runs everything, reporting each outcome as it comes.
pub fn run(
    data: &Data,
    programs: &[Workload],
    settings: &[Setting],
    extra: &str,
    mut report: impl FnMut(&Outcome),
) -> anyhow::Result<Vec<Outcome>> {
    let strobe = strobe_program()?;
    let mut outcomes = Vec::new();
    for workload in programs {
        let native = Run::of(data, workload, "")?;
        let again = Run::of(data, workload, "")?;
        if let Some(difference) = native.difference(&again) {
            bail!("{} is not deterministic: {difference}", workload.name);
        }
        for setting in settings {
            let profile = data.root().join(format!("out/{}.strobe", workload.name));
            // Traces are of bursts only.
            let is_burst = !["--exact", "--pep"].iter().any(|kind| setting.arguments.starts_with(kind));
            let extra = if is_burst { extra } else { "" };
            let prefix =
                format!("'{}' record -o '{}' {} {extra} --", strobe.display(), profile.display(), setting.arguments);
            let recorded = Run::of(data, workload, &prefix)?;
            let outcome = Outcome {
                program: workload.name,
                setting: setting.name.clone(),
                difference: native.difference(&recorded),
                facts: store::facts(&profile).unwrap_or_default(),
            };
            report(&outcome);
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// The outcomes, for people.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> Table {
    const FACTS: [&str; 8] = [
        "cpu_s",
        "ticks",
        "bursts",
        "hit_warm_percent",
        "full_warm_percent",
        "cost_percent",
        "agent_cpu_s",
        "checked_blocks",
    ];
    let mut table = Table::new(&[
        "program and setting",
        "output",
        "false",
        FACTS[0],
        FACTS[1],
        FACTS[2],
        FACTS[3],
        FACTS[4],
        FACTS[5],
        FACTS[6],
        FACTS[7],
    ]);
    for outcome in outcomes {
        let fact = |name: &str| outcome.facts.get(name).cloned().unwrap_or_else(|| "-".to_owned());
        let output = if outcome.difference.is_none() { "same" } else { "DIFFERS" };
        let first = [format!("{} {}", outcome.program, outcome.setting), output.to_owned(), fact("false_steps")];
        table.row(first.into_iter().chain(FACTS.map(fact)));
    }
    table
}

/// The `strobe` that was built beside this program, or beside the folder that test programs are in.
pub fn strobe_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let programs: Vec<PathBuf> = own.ancestors().skip(1).take(2).map(|folder| folder.join("strobe")).collect();
    match programs.iter().find(|program| program.is_file()) {
        Some(program) => Ok(program.clone()),
        None => bail!("{} is missing; build it with `cargo build -p strobe`", own.with_file_name("strobe").display()),
    }
}
