//! Cost of value profiling: every load of a program noted, and compressed in the program, or every
//! event written to a file.
//!
//! CPU time of the program and of strobe are shown apart and compared together: what leaves the
//! program has to be taken in. Both contain what exact mode costs without values, which is shown
//! beside. The file is `/dev/null`, so that no disk is measured: writing is at least as expensive
//! as this.

use std::path::Path;

use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::exact_speed::geometric_mean;
use crate::table::Table;

/// Options of `strobe record`: blocks only, compressed values, all values to a file.
const KINDS: [&str; 3] = ["", "--values --compress 'H[P251]2048'", "--values --value-stream /dev/null"];

/// Measures all programs; of several runs, the cheapest counts.
pub fn measure(strobe: &Path, data: &Data, programs: &[Workload], n_rounds: usize) -> anyhow::Result<Table> {
    let heads =
        ["program", "M loads", "blocks s", "+strobe", "H[P251]2048 s", "+strobe", "file s", "+strobe", "H / file"];
    let mut table = Table::new(&heads);
    let mut ratios = Vec::new();
    for workload in programs {
        let mut costs = [Cost::MAX; KINDS.len()];
        for _ in 0..n_rounds {
            for (cost, kind) in costs.iter_mut().zip(KINDS) {
                let now = record(strobe, data, workload, kind)?;
                *cost = if now.sum() < cost.sum() { now } else { *cost };
            }
        }
        let [blocks, compressed, all] = costs;
        let ratio = compressed.sum() / all.sum();
        ratios.push(ratio);
        eprintln!("{}: {ratio:.2}", workload.name);
        let loads = [workload.name.to_owned(), format!("{:.1}", all.events / 1e6)].into_iter();
        let figures =
            [blocks, compressed, all].into_iter().flat_map(|cost| [cost.program_s, cost.strobe_s].map(seconds));
        table.row(loads.chain(figures).chain([format!("{ratio:.2}")]));
    }
    let blanks = std::iter::repeat_n(String::new(), heads.len() - 2);
    table.row(
        ["geometric mean".to_owned()].into_iter().chain(blanks).chain([format!("{:.2}", geometric_mean(&ratios))]),
    );
    Ok(table)
}

fn seconds(value: f64) -> String {
    format!("{value:.2}")
}

#[derive(Clone, Copy)]
struct Cost {
    program_s: f64,
    strobe_s: f64,
    events: f64,
}

impl Cost {
    const MAX: Cost = Cost { program_s: f64::INFINITY, strobe_s: f64::INFINITY, events: 0.0 };

    fn sum(self) -> f64 {
        self.program_s + self.strobe_s
    }
}

fn record(strobe: &Path, data: &Data, workload: &Workload, options: &str) -> anyhow::Result<Cost> {
    let facts = Facts::record(strobe, data, workload, &format!("--exact=blocks {options}"))?;
    let (program_s, strobe_s) = (facts.program_seconds()?, facts.strobe_seconds()?);
    Ok(Cost { program_s, strobe_s, events: facts.number("value_events")? })
}
