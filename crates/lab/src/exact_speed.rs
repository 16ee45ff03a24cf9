//! Cost of exact mode: CPU time of programs that count everything, against their own.
//!
//! A multiple is large beside the noise of a machine, so whole runs are compared: native and each kind of counting in turn, several times, and of
//! each the fastest counts. The CPU time of strobe itself is shown beside.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::corpus::{Data, Workload};
use crate::net::native_run;
use crate::table::Table;

/// What is counted, as `strobe record --exact` names it.
const KINDS: [&str; 3] = ["nothing", "blocks", "paths"];

/// Measures all programs.
pub fn measure(strobe: &Path, data: &Data, programs: &[Workload], n_rounds: usize) -> anyhow::Result<Table> {
    let mut table = Table::new(&["program", "native s", "nothing", "blocks", "paths", "strobe s", "excursions"]);
    let mut ratios: [Vec<f64>; KINDS.len()] = Default::default();
    for workload in programs {
        let mut native = f64::INFINITY;
        let mut exact = [f64::INFINITY; KINDS.len()];
        let (mut agent, mut excursions) = (0.0, 0.0);
        for _ in 0..n_rounds {
            native = native.min(native_run(data, workload)?);
            for (seconds, kind) in exact.iter_mut().zip(KINDS) {
                let counted = record(strobe, data, workload, kind)?;
                *seconds = seconds.min(counted.seconds);
                (agent, excursions) = (counted.agent_seconds, counted.n_excursions);
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

struct Counted {
    seconds: f64,
    agent_seconds: f64,
    n_excursions: f64,
}

fn record(strobe: &Path, data: &Data, workload: &Workload, kind: &str) -> anyhow::Result<Counted> {
    let profile = data.root().join(format!("out/{}.strobe", workload.name));
    let prefix = format!("'{}' record -q --exact={kind} -o '{}' --", strobe.display(), profile.display());
    let status = data.command(workload, &prefix)?.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.code().is_some(), "{}: {status}", workload.name);
    let facts = store::facts(&profile)?;
    let fact = |name: &str| -> anyhow::Result<f64> {
        let text = facts.get(name).with_context(|| format!("{}: no fact {name}", workload.name))?;
        text.parse().with_context(|| format!("{}: {name} is {text}", workload.name))
    };
    Ok(Counted {
        seconds: fact("user_s")? + fact("system_s")?,
        agent_seconds: fact("agent_cpu_s")?,
        n_excursions: fact("native_excursions")?,
    })
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
