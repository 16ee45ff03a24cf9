//! Claims of our own: honest error bars, contexts, and cost beside other profilers.

use super::path_edge::accuracy;
use super::{Claim, Experiment, Finding, Verdict, Workbench};
use crate::accuracy::{Intervals, mean as mean_observation};
use crate::chart;
use crate::peers;
use crate::table::Table;

/// What we promise beyond the papers.
pub const CLAIMS: [Claim; 3] = [
    Claim {
        id: "E1",
        statement: "error bars are honest: 95 % intervals contain the exact count, over events expected in 10 bursts or more",
        published: "not published",
        required: "93-97 % of intervals",
        experiment: Experiment::Measured { run: honest_intervals, minutes: 0.1 },
    },
    Claim {
        id: "C1",
        statement: "context accuracy: overlap with the exact calling context tree",
        published: "sampling < 50 %, adaptive bursting 85 %",
        required: ">= 90 % on average",
        experiment: Experiment::Measured { run: contexts, minutes: 0.1 },
    },
    Claim {
        id: "N1",
        statement: "no peer that needs neither a rebuild nor a PMU gives edges or paths at less than 10 times our cost",
        published: "not published",
        required: "cost beyond native of every such peer >= 10 times ours",
        experiment: Experiment::Measured { run: peers_cost_more, minutes: 12.0 },
    },
];

fn honest_intervals(bench: &Workbench) -> anyhow::Result<Finding> {
    let rows = bench.observations(&bench.programs()?, &bench.default_setting())?;
    let pooled = mean_observation(&rows.iter().collect::<Vec<_>>());
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", 100.0 * share));
    let mut table = Table::new(&[
        "program",
        "bursts",
        "blocks %",
        "edges %",
        "paths %",
        "calls %",
        "all shares %",
        "counts %",
        "judged",
        "total/true",
        "said to be within",
    ]);
    for row in &rows {
        let Intervals { blocks, edges, paths, calls } = row.intervals;
        let share = |(judged, covered): (u64, u64)| (judged > 0).then(|| covered as f64 / judged as f64);
        let first = [row.program.clone(), format!("{:.0}", row.n_bursts)];
        let of_kinds = [blocks, edges, paths, calls].map(|pair| percent(share(pair)));
        let of_all = [&row.intervals, &row.count_intervals].map(|intervals| percent(intervals.covered()));
        let last = [
            row.intervals.total().0.to_string(),
            format!("{:.3}", row.total_ratio),
            format!("{:.2}", row.scale_factor),
        ];
        table.row(first.into_iter().chain(of_kinds).chain(of_all).chain(last));
    }
    let judged: Vec<(&str, f64)> =
        rows.iter().filter_map(|row| Some((row.program.as_str(), 100.0 * row.intervals.covered()?))).collect();
    let shares: Vec<f64> = judged.iter().map(|&(_, share)| share).collect();
    let (low, high) = crate::resample::interval(&shares, crate::resample::mean);
    let value = 100.0 * pooled.intervals.covered().unwrap_or(0.0);
    let ours = format!(
        "shares: {value:.1} % of {} intervals, mean of programs {:.1} %; counts: {} %",
        pooled.intervals.total().0,
        crate::resample::mean(&shares),
        percent(pooled.count_intervals.covered())
    );
    let mut finding = Finding::new(ours, format!("{low:.1}-{high:.1} %"), Verdict::of((93.0..=97.0).contains(&value)));
    finding.notes.push(
        "Judged are estimates that rest on 10 bursts or more (value squared over variance). Intervals of shares have the error of chance and \
         that of the speeds of different phases of the program; intervals of counts have a factor common to all besides: *total/true* is the \
         estimated number of all blocks over the true one, *said to be within* the factor that the profile states. Events of one program are not \
         independent: one wrong weight of a loop moves all its blocks and edges."
            .to_owned(),
    );
    let labels: Vec<String> = judged.iter().map(|&(name, _)| name.to_owned()).collect();
    let title = "95 % intervals of shares that contain the truth, %";
    finding.plots.push(chart::bars(title, &labels, &[("covered", shares)], 0.0, Some(95.0)));
    finding.tables.push(("By program and kind of event".to_owned(), table));
    Ok(finding)
}

fn contexts(bench: &Workbench) -> anyhow::Result<Finding> {
    const MIN_MEAN: f64 = 0.90;
    let rows = bench.observations(&bench.programs()?, &bench.default_setting())?;
    if rows.iter().any(|row| row.estimated.contexts.is_none()) {
        let mut finding = Finding::new("no exact contexts", "", Verdict::NotYet);
        finding.notes.push("Some exact recordings have no calling contexts to compare with.".to_owned());
        return Ok(finding);
    }
    accuracy(bench, "Context accuracy (overlap of entries), %", MIN_MEAN, |figures| figures.contexts.unwrap_or(0.0))
}

fn peers_cost_more(bench: &Workbench) -> anyhow::Result<Finding> {
    const MIN_FACTOR: f64 = 10.0;
    let rows = bench.observations(&bench.programs()?, &bench.default_setting())?;
    let cost = mean_observation(&rows.iter().collect::<Vec<_>>()).accounted_percent / 100.0;
    let costs = bench.peers()?;
    // A tool whose counts of edges are complete enough to compare with, on a binary as it is, on
    // any machine.
    let is_rival = |tool: &&peers::Tool| {
        !tool.name.starts_with("strobe")
            && tool.features.pmu == "no"
            && !["no", "mispredictions"].contains(&tool.features.edges)
    };
    let mut table = Table::new(&["peer", "CPU time / native", "cost beyond native / ours"]);
    let mut least = f64::INFINITY;
    for tool in peers::TOOLS.iter().filter(is_rival) {
        if let Some((ratio, _)) = costs.mean(tool.name) {
            let factor = (ratio - 1.0) / cost;
            least = least.min(factor);
            table.row([tool.name.to_owned(), format!("{ratio:.2}"), format!("{factor:.0}")]);
        }
    }
    let ours = format!("the cheapest such peer costs {least:.0} times our {:.2} %", 100.0 * cost);
    let mut finding = Finding::new(ours, "", Verdict::of(least >= MIN_FACTOR));
    finding.notes.push(
        "Ours is the accounted cost in the program; the CPU time of strobe itself, which translates in the background, comes on top and is \
         part of the ratio of `strobe` in the table of all tools. CPU time against native, one run each in turn; ratios within 0.1 of 1 \
         are not resolved on this machine."
            .to_owned(),
    );
    finding.tables.push(("Peers with edges, without rebuild or PMU".to_owned(), table));
    finding.tables.push(("CPU time against native".to_owned(), costs.table()));
    finding.tables.push(("What tools show and need".to_owned(), peers::features()));
    Ok(finding)
}
