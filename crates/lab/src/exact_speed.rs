//! Cost of exact mode: CPU time of programs that count everything, against their own.
//!
//! A multiple is large beside the noise of a machine, so whole runs are compared: native and each kind of counting in turn, several times, and of
//! each the fastest counts. The CPU time of strobe itself is shown beside.

use std::path::Path;

use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::net::native_run;
use crate::table::Table;

/// What is counted: its name, and the options of `strobe record`.
const KINDS: [(&str, &str); 7] = [
    ("nothing", "--exact=nothing"),
    ("blocks", "--exact=blocks"),
    ("paths", "--exact=paths"),
    ("contexts", "--exact=contexts"),
    ("both", "--exact=context-paths"),
    ("path cycles", "--exact=paths --metric=cycles"),
    ("context cycles", "--exact=contexts --metric=cycles"),
];

/// Measures all programs.
pub fn measure(strobe: &Path, data: &Data, programs: &[Workload], n_rounds: usize) -> anyhow::Result<Table> {
    let columns: Vec<&str> = ["program", "native s"]
        .into_iter()
        .chain(KINDS.map(|(name, _)| name))
        .chain(["strobe s", "excursions"])
        .collect();
    let mut table = Table::new(&columns);
    let mut ratios: [Vec<f64>; KINDS.len()] = Default::default();
    for workload in programs {
        let mut native = f64::INFINITY;
        let mut exact = [f64::INFINITY; KINDS.len()];
        let (mut agent, mut excursions) = (0.0, 0.0);
        for _ in 0..n_rounds {
            native = native.min(native_run(data, workload)?);
            for (seconds, (_, options)) in exact.iter_mut().zip(KINDS) {
                let facts = Facts::record(strobe, data, workload, options)?;
                *seconds = seconds.min(facts.program_seconds()?);
                (agent, excursions) = (facts.strobe_seconds()?, facts.number("native_excursions")?);
            }
        }
        let row = exact.map(|seconds| seconds / native);
        ratios.iter_mut().zip(row).for_each(|(all, ratio)| all.push(ratio));
        eprintln!("{}: {}", workload.name, row.map(|ratio| format!("{ratio:.2}")).join(" "));
        let cells = [workload.name.to_owned(), format!("{native:.3}")].into_iter();
        let cells = cells.chain(row.map(|ratio| format!("{ratio:.2}")));
        table.row(cells.chain([format!("{agent:.2}"), format!("{excursions}")]));
    }
    for (name, middle) in [("geometric mean", geometric_mean as fn(&[f64]) -> f64), ("median", crate::units::median)] {
        let values = ratios.each_ref().map(|all| format!("{:.2}", middle(all)));
        let cells = [name.to_owned(), String::new()].into_iter().chain(values);
        table.row(cells.chain([String::new(), String::new()]));
    }
    Ok(table)
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
