//! Cost of exact mode: CPU time of programs that count everything, against their own.
//!
//! A multiple is large beside the noise of a machine, so whole runs are compared: native and each
//! kind of counting in turn, several times, and of each the fastest counts. The CPU time of strobe
//! itself is shown beside, that of the last kind: where there is a trace, strobe packs it while the
//! program runs. So are calls and paths in a microsecond of the program alone, which is what makes
//! counting cheap or expensive; and callgrind and cachegrind, once each, if valgrind is installed.
//! Some kinds only can be chosen, without them.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::net::{native_run, run_under};
use crate::table::Table;

/// What is counted: its name, and the options of `strobe record`.
pub type Kind = (&'static str, &'static str);

/// Paths.
pub const PATHS: Kind = ("paths", "--exact=paths");
/// Paths by calling context.
pub const CONTEXT_PATHS: Kind = ("both", "--exact=context-paths");
/// Paths with cycles on each.
pub const PATH_CYCLES: Kind = ("path cycles", "--exact=paths --metric=cycles");
/// Calling contexts with cycles in each.
pub const CONTEXT_CYCLES: Kind = ("context cycles", "--exact=contexts --metric=cycles");

const KINDS: [Kind; 9] = [
    ("nothing", "--exact=nothing"),
    ("blocks", "--exact=blocks"),
    PATHS,
    ("contexts", "--exact=contexts"),
    CONTEXT_PATHS,
    PATH_CYCLES,
    CONTEXT_CYCLES,
    ("cache", "--exact=paths --metric=l1d"),
    ("trace", "--exact=trace"),
];

/// Tools that count by simulating the program: name, and command.
const RIVALS: [Kind; 2] = [
    ("callgrind", "valgrind -q --tool=callgrind --callgrind-out-file=/dev/null"),
    ("cachegrind", "valgrind -q --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null"),
];

/// What a program took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Speeds {
    /// Its name.
    pub program: String,
    /// CPU seconds alone.
    pub native: f64,
    /// CPU time by kind, as multiples of that.
    pub ratios: Vec<f64>,
    /// CPU seconds of strobe, the last time.
    pub agent: f64,
    /// Excursions into code that was not counted, the last time.
    pub excursions: f64,
    /// What it does in a microsecond, if that was asked.
    #[serde(default)]
    pub density: Option<Density>,
}

/// Measures a program.
pub fn measure_program(
    strobe: &Path,
    data: &Data,
    workload: &Workload,
    kinds: &[Kind],
    n_rounds: usize,
) -> anyhow::Result<Speeds> {
    let mut native = f64::INFINITY;
    let mut exact = vec![f64::INFINITY; kinds.len()];
    let (mut agent, mut excursions) = (0.0, 0.0);
    for _ in 0..n_rounds {
        native = native.min(native_run(data, workload)?);
        for (seconds, (_, options)) in exact.iter_mut().zip(kinds) {
            let facts = Facts::record(strobe, data, workload, options)?;
            *seconds = seconds.min(facts.program_seconds()?);
            (agent, excursions) = (facts.strobe_seconds()?, facts.number("native_excursions")?);
        }
    }
    let ratios = exact.into_iter().map(|seconds| seconds / native).collect();
    Ok(Speeds { program: workload.name.to_owned(), native, ratios, agent, excursions, density: None })
}

/// What is compared with native.
#[derive(Clone, Debug)]
pub struct Arms {
    kinds: Vec<Kind>,
    rivals: &'static [Kind],
}

impl Arms {
    /// The kinds of these names; everything if there is none.
    pub fn named(names: &[String]) -> anyhow::Result<Arms> {
        if names.is_empty() {
            let valgrind = Command::new("valgrind").arg("--version").output();
            let rivals = if valgrind.is_ok_and(|output| output.status.success()) { &RIVALS[..] } else { &[] };
            return Ok(Arms { kinds: KINDS.to_vec(), rivals });
        }
        let find = |name: &String| {
            let known = || KINDS.map(|(name, _)| name).join(", ");
            let kind = KINDS.iter().find(|(known, _)| known == name).copied();
            kind.with_context(|| format!("there is no kind {name}; there are {}", known()))
        };
        Ok(Arms { kinds: names.iter().map(find).collect::<anyhow::Result<_>>()?, rivals: &[] })
    }
}

/// Measures all programs.
pub fn measure(
    strobe: &Path,
    data: &Data,
    programs: &[Workload],
    arms: &Arms,
    n_rounds: usize,
) -> anyhow::Result<Table> {
    let Arms { kinds, rivals } = arms;
    let mut all = Vec::new();
    for workload in programs {
        let mut speeds = measure_program(strobe, data, workload, kinds, n_rounds)?;
        for (_, prefix) in *rivals {
            speeds.ratios.push(run_under(data, workload, prefix)? / speeds.native);
        }
        let ratios: Vec<String> = speeds.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        eprintln!("{}: {}", workload.name, ratios.join(" "));
        speeds.density = Some(Density::measure(strobe, data, workload, speeds.native * 1e6)?);
        all.push(speeds);
    }
    Ok(table(&all, &[kinds, *rivals].concat()))
}

/// How often a program does what is counted, in a microsecond.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Density {
    /// Calls.
    pub calls: f64,
    /// Ends of paths.
    pub paths: f64,
}

impl Density {
    fn measure(strobe: &Path, data: &Data, workload: &Workload, microseconds: f64) -> anyhow::Result<Density> {
        let paths = Facts::record(strobe, data, workload, CONTEXT_PATHS.1)?.number("paths_ended")?;
        let profile = store::open(&data.root().join(format!("out/{}.strobe", workload.name)))?;
        let calls: f64 = profile.contexts.iter().map(|context| context.entries.value).sum();
        Ok(Density { calls: calls / microseconds, paths: paths / microseconds })
    }
}

/// A row for each program, and middle values.
#[must_use]
pub fn table(all: &[Speeds], kinds: &[Kind]) -> Table {
    let names = kinds.iter().map(|&(name, _)| name);
    let mut columns: Vec<&str> =
        ["program", "native s"].into_iter().chain(names).chain(["strobe s", "excursions"]).collect();
    if all.iter().any(|speeds| speeds.density.is_some()) {
        columns.extend(["calls/us", "paths/us"]);
    }
    let mut table = Table::new(&columns);
    for speeds in all {
        let ratios = speeds.ratios.iter().map(|ratio| format!("{ratio:.2}"));
        let cells = [speeds.program.clone(), format!("{:.3}", speeds.native)].into_iter().chain(ratios);
        let cells = cells.chain([format!("{:.2}", speeds.agent), format!("{}", speeds.excursions)]);
        let density = speeds.density.map(|Density { calls, paths }| [calls, paths].map(|each| format!("{each:.0}")));
        table.row(cells.chain(density.into_iter().flatten()));
    }
    for (name, middle) in [("geometric mean", geometric_mean as fn(&[f64]) -> f64), ("median", crate::units::median)] {
        let values = (0..kinds.len()).map(|kind| format!("{:.2}", middle(&of_kind(all, kind))));
        table.row([name.to_owned(), String::new()].into_iter().chain(values));
    }
    table
}

/// The multiples of one kind.
#[must_use]
pub fn of_kind(all: &[Speeds], kind: usize) -> Vec<f64> {
    all.iter().filter_map(|speeds| speeds.ratios.get(kind).copied()).collect()
}

pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    #[test]
    fn kinds_are_chosen_by_name() {
        let arms = super::Arms::named(&["paths".to_owned(), "path cycles".to_owned()]).unwrap();
        assert_eq!((arms.kinds, arms.rivals), (vec![super::PATHS, super::PATH_CYCLES], &[][..]));
        let error = super::Arms::named(&["path".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no kind path; there are nothing, blocks, paths"), "{error}");
    }

    #[test]
    fn ratios_are_averaged_by_factor() {
        assert!((super::geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
