//! Bursty tracing (Hirzel, Chilimbi): what the possibility of bursts costs.

use super::{Claim, Experiment, Finding, Verdict, Workbench};
use crate::accuracy::Setting;
use crate::chart;
use crate::resample::{interval, mean};
use crate::table::Table;

/// The claims of the paper that can be shown: the timer's half of one.
pub const CLAIMS: [Claim; 1] = [Claim {
    id: "B2",
    statement: "basic overhead: what it costs when no burst ever starts (timer trigger; the counted trigger is not there yet)",
    published: "3-18 % (checks in the program)",
    required: "<= 0.3 %",
    experiment: Experiment::Measured { run: basic_overhead, minutes: 0.1 },
}];

/// Ticks as they come at the default budget, without the bursts that follow them.
fn basic_overhead(bench: &Workbench) -> anyhow::Result<Finding> {
    const MAX_PERCENT: f64 = 0.3;
    let rows = bench.observations(&bench.programs()?, &Setting::default_budget())?;
    let costs: Vec<f64> = rows.iter().map(|row| row.ticks_percent).collect();
    let (low, high) = interval(&costs, mean);
    let worst = costs.iter().copied().fold(0.0, f64::max);
    let mut table = Table::new(&["program", "ticks %", "bursts %"]);
    for row in &rows {
        let bursts = row.accounted_percent - row.ticks_percent;
        table.row([row.program.clone(), format!("{:.3}", row.ticks_percent), format!("{bursts:.3}")]);
    }
    let ours = format!("mean {:.3} %, highest {worst:.3} %", mean(&costs));
    let mut finding = Finding::new(ours, format!("{low:.3}-{high:.3} %"), Verdict::of(worst <= MAX_PERCENT));
    finding.notes.push(
        "Accounted cost of delivering ticks and of their handlers, which copy 16 KB of stack, over CPU time, at the rate that the default \
         budget leads to. Between ticks the program runs its own code."
            .to_owned(),
    );
    let labels: Vec<String> = rows.iter().map(|row| row.program.clone()).collect();
    let title = "Basic overhead: accounted cost of ticks, % of CPU time";
    finding.plots.push(chart::bars(title, &labels, &[("ticks", costs)], 0.0, Some(MAX_PERCENT)));
    finding.tables.push(("By program".to_owned(), table));
    Ok(finding)
}
