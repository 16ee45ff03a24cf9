//! Claim F1: table 1 of the paper, what exact profiling costs.

use crate::chart;
use crate::claims::{Finding, Verdict, Workbench};
use crate::corpus::{Data, Workload};
use crate::exact_speed::{
    CONTEXT_CYCLES, CONTEXT_PATHS, Kind, PATH_CYCLES, PATHS, Speeds, geometric_mean, measure_program, of_kind, table,
};
use crate::resample::interval;

/// The paper's three, and paths alone.
const KINDS: [Kind; 4] = [
    ("flow+metrics", PATH_CYCLES.1),
    ("context+metrics", CONTEXT_CYCLES.1),
    ("context+flow", CONTEXT_PATHS.1),
    ("flow", PATHS.1),
];

/// F1: CPU time of exact recordings against native, and against peers.
pub fn exact_overhead(bench: &Workbench) -> anyhow::Result<Finding> {
    const MIN_FACTOR: f64 = 5.0;
    const N_ROUNDS: usize = 2;
    let programs = bench.programs()?;
    let strobe = crate::transparency::strobe_program()?;
    let measure = |workload: &Workload| {
        bench.kept(&format!("exact-speed/{}.json", workload.name), || {
            eprintln!("  {}, exact", workload.name);
            let data = Data::generate(&bench.dir, bench.set.exact_size(), &[*workload])?;
            measure_program(&strobe, &data, workload, &KINDS, N_ROUNDS)
        })
    };
    let speeds: Vec<Speeds> = programs.iter().map(measure).collect::<anyhow::Result<_>>()?;
    let ratios: Vec<Vec<f64>> = (0..KINDS.len()).map(|kind| of_kind(&speeds, kind)).collect();
    let means: Vec<f64> = ratios.iter().map(|ratios| geometric_mean(ratios)).collect();
    let dearest = means.iter().copied().fold(0.0, f64::max);
    let costs = bench.peers()?;
    let factors = ["callgrind", "cachegrind"].map(|tool| costs.mean(tool).map_or(f64::NAN, |(mean, _)| mean) / dearest);
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let each: Vec<String> = KINDS.iter().zip(&means).map(|((name, _), mean)| format!("{name} {mean:.2}x")).collect();
    let ours = format!(
        "{}; callgrind takes {:.1} and cachegrind {:.1} times as much as the dearest",
        each.join(", "),
        factors[0],
        factors[1]
    );
    let intervals: Vec<String> = ratios
        .iter()
        .map(|ratios| interval(ratios, geometric_mean))
        .map(|(low, high)| format!("{low:.2}-{high:.2}x"))
        .collect();
    let mut finding = Finding::new(ours, intervals.join(", "), Verdict::of(least >= MIN_FACTOR));
    finding.notes.push(format!(
        "CPU time of the program, recorded and alone in turn, fastest of two, inputs of size *{}*; geometric mean. The metric is cycles; context+flow counts paths by \
         context, without a metric, as in the paper. What strobe itself takes, to translate and to read counters, is beside. Peers were measured on fewer programs, native \
         runs in turn; their table is that of claim N1.",
        bench.set.exact_size()
    ));
    let labels: Vec<String> = speeds.iter().map(|row| row.program.clone()).collect();
    let series: Vec<(&str, Vec<f64>)> = KINDS.iter().map(|&(name, _)| name).zip(ratios).collect();
    finding.plots.push(chart::bars("CPU time of exact profiling / native", &labels, &series, 0.0, None));
    finding.tables.push(("By program".to_owned(), table(&speeds, &KINDS)));
    Ok(finding)
}
