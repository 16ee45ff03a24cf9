//! PEP (Bond, McKinley): continuous path and edge profiling, its cost and its accuracy.

use super::{Claim, Experiment, Finding, Set, Verdict, Workbench};
use crate::accuracy::{Figures, Observation, Policy, Setting, mean as mean_observation};
use crate::chart::{self, Axis, Curve};
use crate::corpus::{Data, Workload};
use crate::resample::{interval, mean};
use crate::table::Table;
use crate::{pep, pgo, units};

/// The claims of the paper.
pub const CLAIMS: [Claim; 9] = [
    Claim {
        id: "P1",
        statement: "overhead of continuous path and edge profiling",
        published: "1.2 % avg, 4.3 % max",
        required: "net <= 0.5 % avg, accounted <= 1.0 % max",
        experiment: Experiment::Measured { run: overhead, minutes: 11.0 },
    },
    Claim {
        id: "P2",
        statement: "path accuracy (Wall, 0.125 %)",
        published: "94 %",
        required: ">= 97 %",
        experiment: Experiment::Measured { run: path_accuracy, minutes: 0.1 },
    },
    Claim {
        id: "P3",
        statement: "edge accuracy, relative overlap",
        published: "96 %",
        required: ">= 98.5 %",
        experiment: Experiment::Measured { run: relative_accuracy, minutes: 0.1 },
    },
    Claim {
        id: "P4",
        statement: "edge accuracy, absolute overlap",
        published: "83 % (88 % at 1024 samples)",
        required: ">= 92 %",
        experiment: Experiment::Measured { run: absolute_accuracy, minutes: 0.1 },
    },
    Claim {
        id: "P5",
        statement: "one sample per tick is not enough: PEP(1,1) against PEP(16,17) to (1024,17)",
        published: "53 % of paths with (1,1), 94 % with (64,17)",
        required: "measured; (1,1) is worst",
        experiment: Experiment::Measured { run: samples_per_tick, minutes: 2.0 },
    },
    Claim {
        id: "P6",
        statement: "Arnold-Grove striding, full and simplified, are alike",
        published: "fig. 5",
        required: "both implemented and compared; alike",
        experiment: Experiment::Measured { run: striding, minutes: 13.0 },
    },
    Claim {
        id: "P6b",
        statement: "cost of the path register alone, of sampled stores, of every path",
        published: "1.1 % avg; 1.6 % compile side; paths 92 %, edges 10 %",
        required: "PEP mode: each against bare copies and native",
        experiment: Experiment::Measured { run: parts, minutes: 0.1 },
    },
    Claim {
        id: "P7",
        statement: "smart path numbering puts additions on cold edges",
        published: "1.1 % against 2.5 % on hot edges",
        required: "dynamic additions per path, and time",
        experiment: Experiment::Measured { run: numbering, minutes: 0.1 },
    },
    Claim {
        id: "P8",
        statement: "the profile drives optimization; a flipped profile hurts",
        published: "0.9 % faster, net of all costs",
        required: "BOLT and clang fed with our profile reach 95 % of what the reference reaches",
        experiment: Experiment::Measured { run: optimizers, minutes: 2.0 },
    },
];

fn default_rows(bench: &Workbench) -> anyhow::Result<Vec<Observation>> {
    bench.observations(&bench.programs()?, &bench.default_setting())
}

fn labels(rows: &[Observation]) -> Vec<String> {
    rows.iter().map(|row| row.program.clone()).collect()
}

fn overhead(bench: &Workbench) -> anyhow::Result<Finding> {
    const MAX_NET_MEAN: f64 = 0.5;
    const MAX_ACCOUNTED: f64 = 1.0;
    let rows = default_rows(bench)?;
    let accounted: Vec<f64> = rows.iter().map(|row| row.accounted_percent).collect();
    let net: Vec<f64> = rows.iter().map(|row| row.net_percent).collect();
    let worst = accounted.iter().copied().fold(0.0, f64::max);
    let (low, high) = interval(&net, mean);
    let units = bench.units()?;
    let of_units = units::Means::of(&units);
    let ours = format!(
        "net {:.3} % avg; accounted {:.3} % avg, {worst:.3} % max; short units {:+.2} %, where bursts are accounted {:+.2} % ({:+.2} % without)",
        mean(&net),
        mean(&accounted),
        of_units.recorded,
        of_units.accounted_bursts,
        of_units.again
    );
    let holds = mean(&net) <= MAX_NET_MEAN && worst <= MAX_ACCOUNTED;
    let mut finding = Finding::new(ours, format!("net {low:.3}-{high:.3} %"), Verdict::of(holds));
    finding.notes.push(
        "Accounted: all time from tick to end of burst, plus delivery of the signal. Net: less the native time of what ran in bursts, which is \
         its share of all instructions. Short units: pieces of work of some 50 ms inside one process, with bursts and without, in turn, at 100 ticks per \
         second and bursts of 4000 checks, which is more than the budget would allow some of them; ratios are medians with 95 % intervals, and \
         *plain again* shows what the method cannot resolve. *Without ticks* is what to compare *recorded* with: plain units have ticks, too."
            .to_owned(),
    );
    let mut table = Table::new(&Observation::HEADING);
    rows.iter().for_each(|row| table.row(row.cells()));
    table.row(mean_observation(&rows.iter().collect::<Vec<_>>()).cells());
    finding.tables.push(("All programs, default budget of 1 %".to_owned(), table));
    finding.tables.push(("Short units, CPU time against plain units".to_owned(), units::table(&units)));
    let title = "Cost of recording, % of CPU time";
    let series = [("accounted", accounted), ("net", net)];
    finding.plots.push(chart::bars(title, &labels(&rows), &series, 0.0, Some(MAX_ACCOUNTED)));
    Ok(finding)
}

fn path_accuracy(bench: &Workbench) -> anyhow::Result<Finding> {
    accuracy(bench, "Path accuracy (Wall weight matching), %", 0.97, |figures| figures.wall)
}

fn relative_accuracy(bench: &Workbench) -> anyhow::Result<Finding> {
    accuracy(bench, "Edge accuracy (relative overlap), %", 0.985, |figures| figures.relative)
}

fn absolute_accuracy(bench: &Workbench) -> anyhow::Result<Finding> {
    accuracy(bench, "Edge accuracy (absolute overlap), %", 0.92, |figures| figures.absolute)
}

/// The mean over programs, and for each that misses the CPU time that it would need.
pub fn accuracy(bench: &Workbench, title: &str, target: f64, figure: fn(&Figures) -> f64) -> anyhow::Result<Finding> {
    let rows = default_rows(bench)?;
    let [estimated, raw]: [Vec<f64>; 2] = [
        rows.iter().map(|row| 100.0 * figure(&row.estimated)).collect(),
        rows.iter().map(|row| 100.0 * figure(&row.raw)).collect(),
    ];
    let (low, high) = interval(&estimated, mean);
    let ours = format!("{:.2} % ({:.2} % with raw counts)", mean(&estimated), mean(&raw));
    let verdict = Verdict::of(mean(&estimated) >= 100.0 * target);
    let mut finding = Finding::new(ours, format!("{low:.2}-{high:.2} %"), verdict);
    let mut table = Table::new(&["program", "accuracy %", "raw %", "bursts", "CPU s", "accounted %", "CPU s needed"]);
    for row in rows.iter().filter(|row| figure(&row.estimated) < target) {
        table.row([
            row.program.clone(),
            format!("{:.2}", 100.0 * figure(&row.estimated)),
            format!("{:.2}", 100.0 * figure(&row.raw)),
            format!("{:.0}", row.n_bursts),
            format!("{:.1}", row.cpu_seconds),
            format!("{:.3}", row.accounted_percent),
            format!("{:.0}", row.cpu_seconds * needed_factor(figure(&row.estimated), target)),
        ]);
    }
    let bursts: Vec<f64> = rows.iter().map(|row| row.n_bursts).collect();
    finding.notes.push(format!(
        "{} of {} programs miss the target alone; {:.0} bursts per program on average. *CPU s needed* assumes that the error falls with the square root \
         of the number of bursts, which is true of chance but not of bias.",
        rows.iter().filter(|row| figure(&row.estimated) < target).count(),
        rows.len(),
        mean(&bursts)
    ));
    finding.tables.push(("Programs below the target".to_owned(), table));
    let low = estimated.iter().chain(&raw).copied().fold(100.0 * target, f64::min);
    let series = [("estimated", estimated), ("raw", raw)];
    finding.plots.push(chart::bars(title, &labels(&rows), &series, (low - 2.0).max(0.0).floor(), Some(100.0 * target)));
    Ok(finding)
}

/// How many times more must be seen for the error to fall to that of the target, if it falls with
/// the square root.
fn needed_factor(accuracy: f64, target: f64) -> f64 {
    ((1.0 - accuracy) / (1.0 - target)).powi(2).max(1.0)
}

/// PEP's settings, at the highest rate of the timer that the default budget uses.
fn striding_setting(samples: u32, stride: u32, is_full: bool) -> Setting {
    const RATE_HZ: f64 = 100.0;
    Setting::of(RATE_HZ, None, Policy::Stride { samples, stride, is_full })
}

fn samples_per_tick(bench: &Workbench) -> anyhow::Result<Finding> {
    const SAMPLES: [(u32, u32); 5] = [(1, 1), (16, 17), (64, 17), (256, 17), (1024, 17)];
    let programs = bench.few_programs()?;
    let mut table = Table::new(&["setting", "paths (Wall) %", "edges rel. %", "edges abs. %", "accounted %", "bursts"]);
    let mut walls = Vec::new();
    let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
    for (samples, stride) in SAMPLES {
        let setting = striding_setting(samples, stride, false);
        let rows = bench.observations(&programs, &setting)?;
        let mean = mean_observation(&rows.iter().collect::<Vec<_>>());
        let Figures { wall, relative, absolute, .. } = mean.estimated;
        let percents = [wall, relative, absolute].map(|share| 100.0 * share);
        curves.iter_mut().zip(percents).for_each(|(curve, percent)| curve.push((f64::from(samples), percent)));
        let cells = [setting.name].into_iter().chain(percents.map(|percent| format!("{percent:.2}")));
        table.row(cells.chain([format!("{:.3}", mean.accounted_percent), format!("{:.0}", mean.n_bursts)]));
        walls.push(percents[0]);
    }
    let worst = walls.iter().copied().fold(f64::INFINITY, f64::min);
    let ours =
        format!("paths {}", walls.iter().map(|wall| format!("{wall:.1}")).collect::<Vec<_>>().join(" / ")) + " %";
    let mut finding = Finding::new(ours, "", Verdict::of(walls.first() == Some(&worst)));
    let names: Vec<&str> = programs.iter().map(|workload| workload.name).collect();
    finding.notes.push(format!(
        "Means of {}. A sample is a path end; the thread leaves the copy after the last one. PEP has one tick per 20 ms.",
        names.join(", ")
    ));
    let [wall, relative, absolute] = curves;
    let curve = |(name, points): (&str, Vec<(f64, f64)>)| Curve { name: name.to_owned(), points };
    let series = [("paths", wall), ("edges rel.", relative), ("edges abs.", absolute)].map(curve);
    let (x, y) = (Axis::logarithmic("samples per tick"), Axis::linear("%"));
    finding.plots.push(chart::curves("Accuracy by samples per tick", &x, &y, &series));
    finding.tables.push(("By samples per tick".to_owned(), table));
    Ok(finding)
}

fn striding(bench: &Workbench) -> anyhow::Result<Finding> {
    const SAMPLES: [u32; 2] = [64, 256];
    const STRIDE: u32 = 17;
    let programs = bench.few_programs()?;
    let mut table = Table::new(&["setting", "paths (Wall) %", "edges rel. %", "edges abs. %", "accounted %"]);
    let mut differences = Vec::new();
    for samples in SAMPLES {
        let rows =
            [false, true].map(|is_full| bench.observations(&programs, &striding_setting(samples, STRIDE, is_full)));
        let [simplified, full] = rows;
        let (simplified, full) = (simplified?, full?);
        for rows in [&simplified, &full] {
            let mean = mean_observation(&rows.iter().collect::<Vec<_>>());
            let Figures { wall, relative, absolute, .. } = mean.estimated;
            let percents = [wall, relative, absolute].map(|share| format!("{:.2}", 100.0 * share));
            table.row([mean.setting].into_iter().chain(percents).chain([format!("{:.3}", mean.accounted_percent)]));
        }
        differences.extend(full.iter().zip(&simplified).map(|(a, b)| 100.0 * (a.estimated.wall - b.estimated.wall)));
    }
    let (low, high) = interval(&differences, mean);
    let ours = format!("full is {:+.2} points of path accuracy from simplified", mean(&differences));
    let verdict = if (low..=high).contains(&0.0) { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, format!("{low:+.2} to {high:+.2}"), verdict);
    finding.notes.push("PEP is the simplified form, AG the full one, which skips between samples, too.".to_owned());
    finding.tables.push(("Both forms, in bursts".to_owned(), table));
    let title = "Both forms in PEP mode, copies never left: hot paths found by 64,17, %";
    finding.tables.push((title.to_owned(), pep::stridings(&pep_costs(bench)?)));
    Ok(finding)
}

/// PEP mode is measured once for both claims.
fn pep_costs(bench: &Workbench) -> anyhow::Result<Vec<pep::Costs>> {
    let n_rounds = if bench.set == Set::Full { 3 } else { 2 };
    let strobe = crate::transparency::strobe_program()?;
    let measure = |workload: &Workload| {
        bench.kept(&format!("pep/{}.json", workload.name), || {
            eprintln!("  {}, PEP mode", workload.name);
            let data = Data::generate(&bench.dir, bench.set.size(), &[*workload])?;
            pep::measure(&strobe, &data, workload, n_rounds)
        })
    };
    bench.few_programs()?.iter().map(measure).collect()
}

fn parts(bench: &Workbench) -> anyhow::Result<Finding> {
    let costs = pep_costs(bench)?;
    let [register, sampled, every] = pep::mean_parts(&costs);
    let ours = format!("on bare copies: register {register:+.1} %, sampled {sampled:+.1} %, every path {every:+.1} %");
    // All that is required is measured; that a counter for every path costs most is what PEP rests
    // on.
    let verdict = if every > sampled { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, "", verdict);
    finding.notes.push(
        "Bare copies are not native: calls, returns and computed jumps cost what the first table shows. In PEP's virtual machine the compiler wrote the \
         original code and the instrumented one; a copy of existing code has to look targets up."
            .to_owned(),
    );
    finding.tables.push(("CPU time as a multiple of native".to_owned(), pep::times(&costs)));
    finding.tables.push(("What each part adds to bare copies; accuracy; translation".to_owned(), pep::parts(&costs)));
    Ok(finding)
}

fn numbering(bench: &Workbench) -> anyhow::Result<Finding> {
    let costs = pep_costs(bench)?;
    let [guessed, guided, flipped] = pep::mean_additions(&costs);
    let [_, guided_cost, flipped_cost] = pep::mean_registers(&costs);
    let [classic, ..] = pep::mean_other_additions(&costs);
    let ours = format!(
        "additions per path: {guided:.2} guided, {guessed:.2} guessed, {classic:.2} classic, {flipped:.2} on hot edges; register {guided_cost:+.1} % guided, \
         {flipped_cost:+.1} % on hot edges"
    );
    let mut finding = Finding::new(ours, "", Verdict::of(guided <= guessed && guided < flipped));
    finding.notes.push(
        "Guided: by an exact profile of the same run. Guessed: from loops, which is what strobe does without a guide. On hot edges: by the guide with hot and cold \
         exchanged. Additions are counted, not timed. The second table has the additions of numberings that copies do not have, on the same paths: *classic* gives values \
         to edges in the order of the code, *smart* to the hottest first; *direct* is where PEP puts them, the *tree* is that of Ball and Larus, and what strobe \
         does is smart with a tree. Edges without additions are those of the tree, whatever the order of values, so that classic numbering with a tree was not timed."
            .to_owned(),
    );
    finding.tables.push(("Additions and time".to_owned(), pep::numberings(&costs)));
    finding.tables.push(("Additions per path by numbering and placement".to_owned(), pep::placements(&costs)));
    Ok(finding)
}

/// Optimizers are given our profile; all of it is in `strobe-lab pgo`.
fn optimizers(bench: &Workbench) -> anyhow::Result<Finding> {
    let subjects = bench.subjects()?;
    let options = pgo::Options {
        dir: bench.source_dir.clone(),
        n_rounds: if bench.set == Set::Full { 20 } else { 10 },
        n_runs: 1,
        n_recordings: 1,
        reference: pgo::DEFAULT_REFERENCE.to_owned(),
        strobe: crate::transparency::strobe_program()?,
    };
    let mut held = Vec::new();
    let mut notes = Vec::new();
    for subject in subjects {
        let (text, is_good) = pgo::run(&subject, pgo::Optimizer::Bolt, &options)?;
        held.push(format!("{} {}", subject.name, if is_good { "reaches it" } else { "does not" }));
        notes.push((text, is_good));
    }
    let holds = notes.iter().all(|(_, is_good)| *is_good);
    let mut finding = Finding::new(format!("BOLT: {}", held.join(", ")), "", Verdict::of(holds));
    finding.notes.extend(notes.into_iter().map(|(text, _)| text));
    finding.notes.push("Continuous against one-time profiles was not compared.".to_owned());
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_error_takes_four_times_as_long() {
        assert!((needed_factor(0.90, 0.95) - 4.0).abs() < 1e-9);
        assert!((needed_factor(0.99, 0.95) - 1.0).abs() < 1e-9);
    }
}
