//! Claims F2 and F3: tables 4 and 5 of the paper, by misses of a simulated data cache.

use std::collections::BTreeSet;

use profile::Profile;
use profile::model::FunctionId;
use profile::query::{self, Class, Classes, Metric};
use serde::{Deserialize, Serialize};

use super::{Judged, code};
use crate::accuracy::What;
use crate::chart;
use crate::claims::{Finding, Verdict, Workbench};
use crate::corpus::Workload;
use crate::resample::{interval, mean};
use crate::table::{Table, grouped};

/// Share of all misses that makes a path or procedure hot.
const HOT_SHARE: f64 = 0.01;
/// The same for programs with many more paths than others.
const LOW_HOT_SHARE: f64 = 0.001;
/// Those programs.
const OF_MANY_PATHS: [&str; 2] = ["gcc", "go"];

/// Paths or procedures of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Part {
    n: usize,
    /// Different paths that ran in each.
    paths_each: f64,
    instructions_percent: f64,
    misses_percent: f64,
}

/// All classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Parts {
    all: Part,
    hot: Part,
    dense: Part,
    sparse: Part,
    cold: Part,
}

/// A program at one threshold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    program: String,
    hot_share: f64,
    misses: f64,
    paths: Parts,
    procedures: Parts,
    paths_through_hot_block: f64,
}

/// A program: at the thresholds that are wanted of it, and how much of what could run did.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Program {
    rows: Vec<Row>,
    /// Logarithm to base 10 of the number of paths of procedures that ran.
    log10_potential: Option<f64>,
}

fn parts(classes: &Classes) -> Parts {
    let whole = classes.all;
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let part = |class: Class| Part {
        n: class.n,
        paths_each: class.n_paths as f64 / class.n.max(1) as f64,
        instructions_percent: percent(class.instructions, whole.instructions),
        misses_percent: percent(class.metric, whole.metric),
    };
    let Classes { all, hot, cold, dense, sparse } = *classes;
    Parts { all: part(all), hot: part(hot), dense: part(dense), sparse: part(sparse), cold: part(cold) }
}

fn row(program: &str, profile: &Profile, hot_share: f64) -> Row {
    let found = query::hotness(profile, Metric::Misses, hot_share);
    Row {
        program: program.to_owned(),
        hot_share,
        misses: found.metric,
        paths: parts(&found.paths),
        procedures: parts(&found.functions),
        paths_through_hot_block: found.paths_through_hot_block,
    }
}

/// Programs are looked at once for both claims.
fn programs(bench: &Workbench) -> anyhow::Result<Judged<Program>> {
    let measure = |workload: &Workload| {
        bench.kept(&format!("hot/{}.json", workload.name), || {
            let counted = bench.exact_bench(&[*workload])?.counted_program(workload, What::PathMisses)?;
            let Some(profile) = counted else { return Ok(None) };
            let mut shares = vec![HOT_SHARE];
            shares.extend(OF_MANY_PATHS.contains(&workload.name).then_some(LOW_HOT_SHARE));
            let ran: BTreeSet<FunctionId> = profile.paths.iter().map(|path| path.function).collect();
            let allowed = code::allowed(&profile, |id| ran.contains(&id))?;
            let log2: Vec<f64> = allowed.values().map(|each| each.log2_paths).collect();
            let rows = shares.iter().map(|&share| row(workload.name, &profile, share)).collect();
            Ok(Some(Program { rows, log10_potential: code::log10_of_sum(&log2) }))
        })
    };
    super::judged(&bench.programs()?, measure)
}

impl Row {
    fn label(&self) -> String {
        if self.hot_share < HOT_SHARE {
            format!("{} ({} %)", self.program, 100.0 * self.hot_share)
        } else {
            self.program.clone()
        }
    }
}

/// F2: a handful of paths carries most misses.
pub fn hot_paths(bench: &Workbench) -> anyhow::Result<Finding> {
    const MOST: f64 = 50.0;
    let Judged { found: programs, left_out } = programs(bench)?;
    let rows: Vec<&Row> = programs.iter().flat_map(|program| &program.rows).collect();
    let usual: Vec<&Row> = rows.iter().copied().filter(|row| row.hot_share == HOT_SHARE).collect();
    let numbers: Vec<usize> = usual.iter().map(|row| row.paths.hot.n).collect();
    let shares: Vec<f64> = usual.iter().map(|row| row.paths.hot.misses_percent).collect();
    let least_and_most = |values: &[f64]| {
        (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max))
    };
    let n_most = shares.iter().filter(|&&share| share >= MOST).count();
    let (low, high) = least_and_most(&shares);
    let (few, many) = (numbers.iter().min().copied().unwrap_or(0), numbers.iter().max().copied().unwrap_or(0));
    let ours = format!(
        "{few}-{many} paths carry {low:.0}-{high:.0} % of misses, {:.0} % on average; at least half in {n_most} of {} programs",
        mean(&shares),
        usual.len()
    );
    let (low, high) = interval(&shares, mean);
    let verdict = if 2 * n_most > usual.len() { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, format!("average {low:.0}-{high:.0} %"), verdict);
    finding.notes.push(
        "Misses of a simulated data cache of 16 KB, direct-mapped, with lines of 32 bytes, on every path of every module. Hot: at least 1 % of them; gcc and \
         go have a row for 0.1 %, too. Dense: hot, with no less misses per instruction than the program. The verdict asks whether hot paths carry at least half of \
         the misses in most programs."
            .to_owned(),
    );
    finding.notes.extend(left_out);
    let mut table = Table::new(&[
        "program",
        "misses",
        "paths run",
        "hot",
        "inst %",
        "misses %",
        "dense",
        "inst %",
        "misses %",
        "sparse",
        "inst %",
        "misses %",
        "cold",
        "inst %",
        "misses %",
    ]);
    for row in &rows {
        let Parts { all, hot, dense, sparse, cold } = row.paths;
        let first = [row.label(), grouped(row.misses as u64), grouped(all.n as u64)];
        let rest = [hot, dense, sparse, cold].into_iter().flat_map(|part| {
            [grouped(part.n as u64), format!("{:.1}", part.instructions_percent), format!("{:.1}", part.misses_percent)]
        });
        table.row(first.into_iter().chain(rest));
    }
    let labels: Vec<String> = usual.iter().map(|row| row.label()).collect();
    let dense = usual.iter().map(|row| row.paths.dense.misses_percent).collect();
    let series = [("hot", shares), ("of these dense", dense)];
    finding.plots.push(chart::bars("Misses on hot paths, %", &labels, &series, 0.0, None));
    finding.tables.push(("Paths by misses (table 4)".to_owned(), table));
    Ok(finding)
}

/// F3: hot procedures run many more paths than cold ones.
pub fn hot_procedures(bench: &Workbench) -> anyhow::Result<Finding> {
    let Judged { found: programs, left_out } = programs(bench)?;
    let rows: Vec<&Row> = programs.iter().flat_map(|program| &program.rows).collect();
    let usual: Vec<&Row> = rows.iter().copied().filter(|row| row.hot_share == HOT_SHARE).collect();
    let [hot, cold]: [Vec<f64>; 2] = [
        usual.iter().map(|row| row.procedures.hot.paths_each).collect(),
        usual.iter().map(|row| row.procedures.cold.paths_each).collect(),
    ];
    let n_more = hot.iter().zip(&cold).filter(|(hot, cold)| hot > cold).count();
    let through: Vec<f64> = usual.iter().map(|row| row.paths_through_hot_block).collect();
    let ours = format!(
        "hot procedures run {:.1} paths on average, cold ones {:.1}; more in {n_more} of {} programs; a block of a hot path is on {:.1} paths",
        mean(&hot),
        mean(&cold),
        usual.len(),
        mean(&through)
    );
    let verdict = if 2 * n_more > usual.len() { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, "", verdict);
    finding.notes.push(
        "As F2, for procedures: hot ones have at least 1 % of all misses. Potential paths are all Ball-Larus paths of the procedures that ran, cut at back edges."
            .to_owned(),
    );
    finding.notes.extend(left_out);
    let mut table = Table::new(&[
        "program",
        "procedures",
        "hot",
        "paths each",
        "misses %",
        "dense",
        "paths each",
        "misses %",
        "sparse",
        "paths each",
        "misses %",
        "cold",
        "paths each",
        "misses %",
    ]);
    for row in &rows {
        let Parts { all, hot, dense, sparse, cold } = row.procedures;
        let rest = [hot, dense, sparse, cold].into_iter().flat_map(|part| {
            [grouped(part.n as u64), format!("{:.1}", part.paths_each), format!("{:.1}", part.misses_percent)]
        });
        table.row([row.label(), grouped(all.n as u64)].into_iter().chain(rest));
    }
    let mut run =
        Table::new(&["program", "paths run", "potential paths", "hot paths", "paths through a block of a hot path"]);
    for program in &programs {
        let Some(row) = program.rows.first() else { continue };
        run.row([
            row.program.clone(),
            grouped(row.paths.all.n as u64),
            program.log10_potential.map_or_else(|| "-".to_owned(), |log10| format!("10^{log10:.1}")),
            grouped(row.paths.hot.n as u64),
            format!("{:.1}", row.paths_through_hot_block),
        ]);
    }
    let labels: Vec<String> = usual.iter().map(|row| row.label()).collect();
    finding.plots.push(chart::bars("Paths run per procedure", &labels, &[("hot", hot), ("cold", cold)], 0.0, None));
    finding.tables.push(("Procedures by misses (table 5)".to_owned(), table));
    finding.tables.push(("Paths that ran against those that could (section 6.4)".to_owned(), run));
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Block, BlockEnd, BlockId, Path};

    use super::*;

    fn path(function: u32, blocks: &[u32], count: u64, misses: u64) -> Path {
        Path {
            function: FunctionId(function),
            blocks: blocks.iter().map(|&block| BlockId(block)).collect(),
            back_to: None,
            n_branches: 2,
            count: Estimate::exact(count),
            self_ns: Estimate::default(),
            misses,
        }
    }

    fn block(function: u32) -> Block {
        let (end, count) = (BlockEnd::Return, Estimate::exact(1));
        Block {
            function: FunctionId(function),
            address: 0,
            size: 4,
            last: 0,
            n_insns: 1,
            end,
            count,
            self_ns: Estimate::default(),
        }
    }

    #[test]
    fn hot_is_by_share_of_misses() {
        let paths = vec![
            path(0, &[0, 1], 10, 960),
            path(0, &[0, 2], 1000, 20),
            path(1, &[3], 500, 5),
            path(1, &[3, 4], 10, 5),
            path(2, &[5], 0, 0),
        ];
        let blocks = [0, 0, 0, 1, 1, 2].map(block).to_vec();
        let found = row("x", &Profile { paths, blocks, ..Profile::default() }, 0.015);
        let Parts { all, hot, dense, sparse, cold } = found.paths;
        assert_eq!([all.n, hot.n, dense.n, sparse.n, cold.n], [4, 2, 1, 1, 2]);
        assert!((hot.misses_percent - 100.0 * 980.0 / 990.0).abs() < 1e-9, "{hot:?}");
        assert_eq!((found.procedures.hot.n, found.procedures.cold.n), (1, 1));
        assert_eq!(found.paths_through_hot_block, 4.0 / 3.0);
        assert_eq!((found.misses, found.label()), (990.0, "x".to_owned()));
        assert_eq!(Row { hot_share: 0.001, ..found }.label(), "x (0.1 %)");
    }
}
