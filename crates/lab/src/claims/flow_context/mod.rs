//! Flow and context sensitive profiling (Ammons, Ball, Larus): exact counts of paths.
//!
//! The paper weighs paths by cache misses; until strobe counts these, flow takes their place: the number of times times the number of
//! branches, as in Wall's weight.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use profile::Profile;

use super::{Claim, Experiment, Finding, Verdict, Workbench};
use crate::accuracy::Setting;
use crate::chart;
use crate::exact_speed::geometric_mean;
use crate::resample::{interval, mean};
use crate::table::{Table, grouped};

const NOT_MEASURED: Experiment =
    Experiment::NotYet("not measured by this report yet; `strobe paths --metric` and `record --perturbation` show it");

/// The claims of the paper.
pub const CLAIMS: [Claim; 5] = [
    Claim {
        id: "F1",
        statement: "overhead of exact flow profiling (every path); metrics and contexts by `strobe-lab bench exact`",
        published: "about 1.8x, 1.6x, 1.7x",
        required: "below callgrind and cachegrind by 5x or more",
        experiment: Experiment::Measured { run: exact_overhead, minutes: 5.0 },
    },
    Claim {
        id: "F2",
        statement: "a handful of paths (>= 1 % of L1D misses each) carries most misses",
        published: "3-28 paths, 9-98 % of misses",
        required: "table per program",
        experiment: NOT_MEASURED,
    },
    Claim {
        id: "F3",
        statement: "hot procedures run many more paths than cold ones; blocks on hot paths lie on many paths",
        published: "tables 4, 5, section 6.4",
        required: "same tables, by flow until there are metrics",
        experiment: Experiment::Measured { run: hot_procedures, minutes: 3.0 },
    },
    Claim {
        id: "F4",
        statement: "calling context tree statistics",
        published: "table 3",
        required: "same table",
        experiment: Experiment::NotYet("not measured by this report yet; `strobe contexts --metric` shows it"),
    },
    Claim {
        id: "F5",
        statement: "perturbation: metric totals with and without profiling",
        published: "table 2",
        required: "same table",
        experiment: NOT_MEASURED,
    },
];

fn exact_overhead(bench: &Workbench) -> anyhow::Result<Finding> {
    const MIN_FACTOR: f64 = 5.0;
    let programs = bench.programs()?;
    let rows = bench.observations(&programs, &Setting::default_budget())?;
    let recordings = bench.bench(&programs)?;
    let mut table = Table::new(&["program", "CPU s", "exact / native", "strobe's own CPU s", "excursions"]);
    let mut ratios = Vec::new();
    for (workload, row) in programs.iter().zip(&rows) {
        let facts = recordings.truth(workload)?.facts;
        let text = |name: &str| facts.get(name).map_or("?", String::as_str);
        let seconds = |name: &str| text(name).parse::<f64>().with_context(|| format!("{}: {name}", workload.name));
        let ratio = (seconds("user_s")? + seconds("system_s")?) / row.cpu_seconds;
        ratios.push(ratio);
        let (own, excursions) = (text("agent_cpu_s").to_owned(), text("native_excursions").to_owned());
        table.row([
            workload.name.to_owned(),
            format!("{:.2}", row.cpu_seconds),
            format!("{ratio:.2}"),
            own,
            excursions,
        ]);
    }
    let exact = geometric_mean(&ratios);
    let (low, high) = interval(&ratios, geometric_mean);
    let costs = bench.peers()?;
    let factors = ["callgrind", "cachegrind"].map(|tool| costs.mean(tool).map_or(f64::NAN, |(mean, _)| mean) / exact);
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let ours = format!("{exact:.2}x; callgrind takes {:.1} and cachegrind {:.1} times as much", factors[0], factors[1]);
    let mut finding = Finding::new(ours, format!("{low:.2}-{high:.2}x"), Verdict::of(least >= MIN_FACTOR));
    finding.notes.push(
        "CPU time of the program under `strobe record --exact=paths` over its CPU time at the default settings, single runs; geometric mean. \
         What strobe itself takes, to translate and to read counters, is beside. Peers were measured on fewer programs and shorter inputs, \
         native runs in turn; their table is that of claim N1."
            .to_owned(),
    );
    let labels: Vec<String> = programs.iter().map(|workload| workload.name.to_owned()).collect();
    finding.plots.push(chart::bars(
        "CPU time of exact path profiling / native",
        &labels,
        &[("exact", ratios)],
        0.0,
        None,
    ));
    finding.tables.push(("By program".to_owned(), table));
    Ok(finding)
}

/// What an exact profile says about the distribution of flow over paths and procedures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Distribution {
    n_paths: usize,
    n_hot_paths: usize,
    hot_flow_percent: f64,
    n_functions: usize,
    n_hot_functions: usize,
    paths_per_hot_function: f64,
    paths_per_cold_function: f64,
    /// Different executed paths through a block of a hot path, on average.
    paths_through_hot_block: f64,
}

fn hot_procedures(bench: &Workbench) -> anyhow::Result<Finding> {
    let programs = bench.programs()?;
    let recordings = bench.bench(&programs)?;
    let mut table = Table::new(&[
        "program",
        "paths run",
        "hot paths",
        "their flow %",
        "functions",
        "hot",
        "paths / hot",
        "paths / cold",
        "paths / hot block",
    ]);
    let mut found = Vec::new();
    for workload in &programs {
        let row = distribution(&recordings.truth(workload)?);
        table.row([
            workload.name.to_owned(),
            grouped(row.n_paths as u64),
            row.n_hot_paths.to_string(),
            format!("{:.1}", row.hot_flow_percent),
            row.n_functions.to_string(),
            row.n_hot_functions.to_string(),
            format!("{:.1}", row.paths_per_hot_function),
            format!("{:.1}", row.paths_per_cold_function),
            format!("{:.1}", row.paths_through_hot_block),
        ]);
        found.push(row);
    }
    let hot: Vec<f64> = found.iter().map(|row| row.paths_per_hot_function).collect();
    let cold: Vec<f64> = found.iter().map(|row| row.paths_per_cold_function).collect();
    let n_more = found.iter().filter(|row| row.paths_per_hot_function > row.paths_per_cold_function).count();
    let ours = format!(
        "hot procedures run {:.1} paths on average, cold ones {:.1}; more in {n_more} of {} programs",
        mean(&hot),
        mean(&cold),
        found.len()
    );
    let verdict = if 2 * n_more > found.len() { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, "", verdict);
    finding.notes.push(
        "Exact counts of all modules of the program. Hot: at least 1 % of all flow (times run, times branches on the path). Functions \
         without branches are left out. Potential paths are not shown."
            .to_owned(),
    );
    let labels: Vec<String> = programs.iter().map(|workload| workload.name.to_owned()).collect();
    finding.plots.push(chart::bars("Paths run per procedure", &labels, &[("hot", hot), ("cold", cold)], 0.0, None));
    finding.tables.push(("Paths and procedures".to_owned(), table));
    Ok(finding)
}

fn distribution(profile: &Profile) -> Distribution {
    const HOT_SHARE: f64 = 0.01;
    let flow = |index: &usize| profile.paths[*index].count.value * f64::from(profile.paths[*index].n_branches);
    let run: Vec<usize> = (0..profile.paths.len()).filter(|index| flow(index) > 0.0).collect();
    let total: f64 = run.iter().map(flow).sum();
    let (hot, _cold): (Vec<usize>, Vec<usize>) = run.iter().partition(|index| flow(index) >= HOT_SHARE * total);
    let mut functions: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
    let mut through: BTreeMap<u32, usize> = BTreeMap::new();
    for index in &run {
        let path = &profile.paths[*index];
        let of_function = functions.entry(path.function.0).or_default();
        *of_function = (of_function.0 + flow(index), of_function.1 + 1);
        let blocks: BTreeSet<u32> = path.blocks.iter().map(|block| block.0).collect();
        blocks.into_iter().for_each(|block| *through.entry(block).or_default() += 1);
    }
    let (hot_functions, cold_functions): (Vec<_>, Vec<_>) =
        functions.values().copied().partition(|(flow, _)| *flow >= HOT_SHARE * total);
    let per_function = |functions: &[(f64, usize)]| {
        functions.iter().map(|(_, n_paths)| *n_paths as f64).sum::<f64>() / functions.len().max(1) as f64
    };
    let hot_blocks: BTreeSet<u32> =
        hot.iter().flat_map(|index| profile.paths[*index].blocks.iter().map(|block| block.0)).collect();
    let on_hot_blocks: Vec<f64> = hot_blocks.iter().map(|block| through[block] as f64).collect();
    Distribution {
        n_paths: run.len(),
        n_hot_paths: hot.len(),
        hot_flow_percent: if total > 0.0 { 100.0 * hot.iter().map(flow).sum::<f64>() / total } else { 0.0 },
        n_functions: functions.len(),
        n_hot_functions: hot_functions.len(),
        paths_per_hot_function: per_function(&hot_functions),
        paths_per_cold_function: per_function(&cold_functions),
        paths_through_hot_block: mean(&on_hot_blocks),
    }
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{BlockId, FunctionId, Path};

    use super::*;

    fn path(function: u32, blocks: &[u32], count: u64) -> Path {
        Path {
            function: FunctionId(function),
            blocks: blocks.iter().map(|&block| BlockId(block)).collect(),
            back_to: None,
            n_branches: 2,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
            misses: 0,
        }
    }

    #[test]
    fn hot_is_by_share_of_flow() {
        let paths =
            vec![path(0, &[0, 1], 990), path(0, &[0, 2], 5), path(1, &[3], 3), path(2, &[4], 2), path(2, &[5], 0)];
        let found = distribution(&Profile { paths, ..Profile::default() });
        let expected = Distribution {
            n_paths: 4,
            n_hot_paths: 1,
            hot_flow_percent: 99.0,
            n_functions: 3,
            n_hot_functions: 1,
            paths_per_hot_function: 2.0,
            paths_per_cold_function: 1.0,
            paths_through_hot_block: 1.5,
        };
        assert_eq!(found, expected);
        assert_eq!(distribution(&Profile::default()), Distribution::default());
    }
}
