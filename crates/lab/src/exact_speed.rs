//! Cost of exact mode: CPU time of programs that count everything, against their own.
//!
//! A multiple is large beside the noise of a machine, so whole runs are compared: native and each kind of counting in turn, several times, and of
//! each the fastest counts. The CPU time of strobe itself is shown beside, that of
//! the last kind: where there is a trace, strobe packs it while the program runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::net::native_run;
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
    Ok(Speeds { program: workload.name.to_owned(), native, ratios, agent, excursions })
}

/// Measures all programs.
pub fn measure(strobe: &Path, data: &Data, programs: &[Workload], n_rounds: usize) -> anyhow::Result<Table> {
    let mut all = Vec::new();
    for workload in programs {
        let speeds = measure_program(strobe, data, workload, &KINDS, n_rounds)?;
        let ratios: Vec<String> = speeds.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        eprintln!("{}: {}", workload.name, ratios.join(" "));
        all.push(speeds);
    }
    Ok(table(&all, &KINDS))
}

/// A row for each program, and middle values.
#[must_use]
pub fn table(all: &[Speeds], kinds: &[Kind]) -> Table {
    let names = kinds.iter().map(|&(name, _)| name);
    let columns: Vec<&str> =
        ["program", "native s"].into_iter().chain(names).chain(["strobe s", "excursions"]).collect();
    let mut table = Table::new(&columns);
    for speeds in all {
        let ratios = speeds.ratios.iter().map(|ratio| format!("{ratio:.2}"));
        let cells = [speeds.program.clone(), format!("{:.3}", speeds.native)].into_iter().chain(ratios);
        table.row(cells.chain([format!("{:.2}", speeds.agent), format!("{}", speeds.excursions)]));
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
    fn ratios_are_averaged_by_factor() {
        assert!((super::geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
