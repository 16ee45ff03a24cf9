//! Same output: the programs of the corpus with and without `strobe record`.
//!
//! Each program runs natively twice, which shows what of its output is the same each time, and then once under each setting. Exit
//! status and every file that the workload writes must be equal, byte by byte, but for the few lines in which a program reports times.
//! What the recordings say about themselves (cost, hit rate, checked traces) is tabulated beside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};

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
        let native = execute(data, workload, "")?;
        let again = execute(data, workload, "")?;
        if let Some(difference) = native.difference(&again) {
            bail!("{} is not deterministic: {difference}", workload.name);
        }
        for setting in settings {
            let profile = data.root().join(format!("out/{}.strobe", workload.name));
            // Traces are of bursts only.
            let extra = if setting.arguments.starts_with("--exact") { "" } else { extra };
            let prefix =
                format!("'{}' record -o '{}' {} {extra} --", strobe.display(), profile.display(), setting.arguments);
            let recorded = execute(data, workload, &prefix)?;
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

/// What a run leaves behind.
struct Run {
    status: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Run {
    fn difference(&self, other: &Run) -> Option<String> {
        if self.status != other.status {
            return Some(format!("{} instead of {}", other.status, self.status));
        }
        let names: Vec<&PathBuf> = self.files.keys().chain(other.files.keys()).collect();
        let differs = names.into_iter().find(|name| self.files.get(*name) != other.files.get(*name))?;
        let (mine, theirs) = (self.files.get(differs), other.files.get(differs));
        let len = |file: Option<&Vec<u8>>| file.map_or("missing".to_owned(), |file| format!("{} bytes", file.len()));
        Some(format!("{}: {} instead of {}", differs.display(), len(theirs), len(mine)))
    }
}

fn execute(data: &Data, workload: &Workload, prefix: &str) -> anyhow::Result<Run> {
    let is_output = |name: &str| name.starts_with(&format!("{}.", workload.name)) && !name.ends_with(".strobe");
    for path in outputs(data.root(), is_output)? {
        fs::remove_file(path)?;
    }
    let mut command = data.command(workload, prefix)?;
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let mut files = BTreeMap::new();
    files.insert(PathBuf::from("standard output"), output.stdout);
    for path in outputs(data.root(), is_output)? {
        let content = fs::read(&path)?;
        files.insert(path, steady(workload.name, content));
    }
    Ok(Run { status: output.status.to_string(), files })
}

fn outputs(root: &Path, is_output: impl Fn(&str) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let folder = root.join("out");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&is_output)).collect())
}

/// What of an output is the same at each run: without the lines in which programs report times.
fn steady(program: &str, content: Vec<u8>) -> Vec<u8> {
    const RASTER_BYTES: usize = 921_600;
    let without = |words: &[&str]| {
        let text = String::from_utf8_lossy(&content).into_owned();
        let lines = text.lines().filter(|line| !words.iter().any(|word| line.contains(word)));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    };
    match program {
        "crafty" => without(&["Processor", "NPS"]),
        "eon" => content[content.len().saturating_sub(RASTER_BYTES)..].to_vec(),
        "mcf" => without(&["Time used", "secs"]),
        _ => content,
    }
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
