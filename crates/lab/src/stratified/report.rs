//! Tables, plots and verdicts of the Monte Carlo experiments.
//!
//! **Test of S1.** At each of the lengths, independent streams give a mean error for each sampler.
//! Of two samplers, the logarithm of the ratio of mean errors is averaged over the lengths; its 99
//! % interval is by Student's t. Two samplers are *alike* if the interval lies within 5 % of
//! equality; otherwise one is *worse* if the interval excludes equality, and if not, the matter is
//! undecided.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use recorder::Threads;
use sampling::TableSize;

use super::{Mix, SAMPLERS, Settings, all_samplers, stratified_periodic};
use crate::chart::{self, Axis, Curve};
use crate::table::Table;

/// Error at which S2 compares samplers.
const TOLERABLE: f64 = 0.04;

/// Relative difference below which samplers are alike.
const MARGIN: f64 = 0.05;

/// The paper's lengths to 4 % error.
const PAPER_RANDOM: f64 = 12_000.0;
const PAPER_STRATIFIED: f64 = 4_600.0;

/// Numbers of strata of S2.
const STRATA: [u64; 12] = [1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 256, 1024];

/// What is measured and where plots go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Streams for each length, and seeds.
    pub settings: Settings,
    /// Strata of S1.
    pub strata: TableSize,
    /// Directory of the plots.
    pub dir: PathBuf,
    /// Whether tables are Markdown.
    pub markdown: bool,
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// In one line.
    pub ours: String,
    /// Titles and tables.
    pub tables: Vec<(String, Table)>,
    /// Names and SVG.
    pub plots: Vec<(&'static str, String)>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// What is not as in the paper.
    pub contradicted: Vec<String>,
}

/// Runs both experiments, writes their plots; the text of the report.
pub fn run(options: &Options, threads: Threads) -> anyhow::Result<String> {
    std::fs::create_dir_all(&options.dir).with_context(|| format!("cannot make {}", options.dir.display()))?;
    let mut text = String::new();
    for found in [s1(options.settings, options.strata, threads), s2(options.settings, threads)?] {
        for (title, table) in &found.tables {
            let table = if options.markdown { table.to_markdown() } else { table.to_string() };
            let _ = writeln!(text, "{title}\n\n{table}");
        }
        let _ = writeln!(text, "{}\n", [vec![found.ours], found.notes].concat().join("\n"));
        for (name, svg) in found.plots {
            chart::save(&options.dir.join(name), &svg)?;
        }
    }
    Ok(text)
}

/// Classes of samplers.
#[must_use]
pub fn s1(settings: Settings, strata: TableSize, threads: Threads) -> Found {
    let lengths: Vec<u64> = (1..=20).map(|thousands| thousands * 1000).collect();
    let mut found = Found::default();
    for mix in [Mix::Distinct, Mix::Uniform(1)] {
        let errors = all_samplers(settings, &lengths, mix, strata, threads);
        let title = format!("S1: mean error, t = 0.3 N, {} strata, the others {mix}", strata.get());
        let mut table = Table::new(&[&["N"], &SAMPLERS[..]].concat());
        for (length, row) in lengths.iter().zip(&errors) {
            table.row(std::iter::once(length.to_string()).chain(row.iter().map(|&error| percent(error))));
        }
        found.tables.push((title.clone(), table));
        let comparisons = PAIRS.map(|(first, second, paper)| Comparison::of(&errors, first, second, paper));
        found.tables.push((format!("S1: classes, the others {mix}"), table_of(&comparisons)));
        let named = SAMPLERS.iter().enumerate().map(|(index, name)| {
            let points = lengths.iter().zip(&errors).map(|(&length, row)| (length as f64, 100.0 * row[index]));
            Curve { name: (*name).to_owned(), points: points.collect() }
        });
        let stem = if mix == Mix::Distinct { "s1-distinct" } else { "s1-one-other" };
        found.plots.push((stem, plot(&title, &named.collect::<Vec<_>>())));
        if mix == Mix::Distinct {
            let n_agreeing = comparisons.iter().filter(|each| each.measured == each.paper).count();
            found.ours = format!("{n_agreeing} of {} comparisons as in the paper", comparisons.len());
            let contradicted = comparisons.iter().filter(|each| each.verdict() == CONTRADICTED);
            found.contradicted = contradicted.map(|each| format!("{} / {}", each.first, each.second)).collect();
        }
    }
    found
}

/// What the paper says of two samplers, or what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Alike,
    FirstWorse,
    SecondWorse,
    Undecided,
}

impl Relation {
    /// By the interval of the ratio of errors.
    fn of(low: f64, high: f64) -> Relation {
        match (low, high) {
            _ if low > 1.0 - MARGIN && high < 1.0 + MARGIN => Relation::Alike,
            _ if low > 1.0 => Relation::FirstWorse,
            _ if high < 1.0 => Relation::SecondWorse,
            _ => Relation::Undecided,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Alike => "alike",
            Relation::FirstWorse => "first worse",
            Relation::SecondWorse => "second worse",
            Relation::Undecided => "undecided",
        })
    }
}

const CONTRADICTED: &str = "contradicted";

/// The samplers that S1 puts into one class, and neighbours of different classes.
const PAIRS: [(&str, &str, Relation); 11] = [
    ("R", "H[R]", Relation::Alike),
    ("P", "CR", Relation::Alike),
    ("P", "CR, ratio", Relation::Alike),
    ("H[P]", "H[CR]", Relation::Alike),
    ("H[P]", "H[CR], ratio", Relation::Alike),
    ("R", "P", Relation::FirstWorse),
    ("R", "CR", Relation::FirstWorse),
    ("R", "CR, ratio", Relation::FirstWorse),
    ("P", "H[P]", Relation::FirstWorse),
    ("CR", "H[CR]", Relation::FirstWorse),
    ("CR, ratio", "H[CR], ratio", Relation::FirstWorse),
];

/// Two samplers.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    first: &'static str,
    second: &'static str,
    paper: Relation,
    measured: Relation,
    /// Of their errors, with its 99 % interval.
    ratio: [f64; 3],
}

impl Comparison {
    fn of(errors: &[Vec<f64>], first: &'static str, second: &'static str, paper: Relation) -> Comparison {
        let (mean, half) = log_ratio(errors, index_of(first), index_of(second));
        let ratio = [mean, mean - half, mean + half].map(f64::exp);
        Comparison { first, second, paper, measured: Relation::of(ratio[1], ratio[2]), ratio }
    }

    fn verdict(&self) -> &'static str {
        match self.measured {
            measured if measured == self.paper => "holds",
            Relation::Undecided => "undecided",
            _ => CONTRADICTED,
        }
    }
}

fn table_of(comparisons: &[Comparison]) -> Table {
    let mut table =
        Table::new(&["S1: two samplers", "paper", "ratio of errors", "99 % interval", "measured", "verdict"]);
    for each in comparisons {
        let [ratio, low, high] = each.ratio;
        table.row([
            format!("{} / {}", each.first, each.second),
            each.paper.to_string(),
            format!("{ratio:.3}"),
            format!("{low:.3} to {high:.3}"),
            each.measured.to_string(),
            each.verdict().to_owned(),
        ]);
    }
    table
}

fn index_of(name: &str) -> usize {
    SAMPLERS.iter().position(|sampler| *sampler == name).expect("one of the samplers")
}

/// The mean over all lengths of the logarithm of the ratio of errors, and half the width of its 99
/// % interval.
fn log_ratio(errors: &[Vec<f64>], worse: usize, better: usize) -> (f64, f64) {
    /// Student's t for 19 degrees of freedom, two-sided 99 %.
    const T: f64 = 2.861;
    let ratios: Vec<f64> = errors.iter().map(|row| (row[worse] / row[better]).ln()).collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, T * (variance / n).sqrt())
}

/// Stream lengths to 4 % error.
pub fn s2(settings: Settings, threads: Threads) -> anyhow::Result<Found> {
    let lengths: Vec<u64> = (1..=14).map(|thousands| thousands * 1000).collect();
    let strata: Vec<TableSize> = STRATA.iter().filter_map(|&n| TableSize::new(n).ok()).collect();
    let mixes = [Mix::Uniform(1), Mix::Uniform(10), Mix::Uniform(100), Mix::Distinct];
    let names: Vec<String> = mixes.iter().map(Mix::to_string).collect();
    let heading: Vec<&str> = std::iter::once("S2: strata of H[P]").chain(names.iter().map(String::as_str)).collect();
    let mut found = Found::default();
    let mut crossings = Vec::new();
    for mix in mixes {
        let errors = stratified_periodic(settings, &lengths, mix, &strata, threads);
        let curve =
            |index: usize| lengths.iter().zip(&errors).map(|(&length, row)| (length as f64, row[index])).collect();
        let curves: Vec<Vec<(f64, f64)>> = (0..strata.len()).map(curve).collect();
        if mix == Mix::Distinct {
            let named = strata.iter().zip(&curves).filter(|(n, _)| n.get() <= 64).map(|(n, curve)| Curve {
                name: format!("H[P]{}", n.get()),
                points: curve.iter().map(|&(length, error)| (length, 100.0 * error)).collect(),
            });
            let title = "S2: mean error of H[P], the others all different";
            found.plots.push(("s2-distinct", plot(title, &named.collect::<Vec<_>>())));
        }
        crossings.push(curves.iter().map(|curve| crossing(curve)).collect::<Vec<_>>());
    }
    let mut table = Table::new(&heading);
    for (index, n) in STRATA.iter().enumerate() {
        table.row(std::iter::once(n.to_string()).chain(crossings.iter().map(|column| length_text(column[index]))));
    }
    found.tables.push((format!("S2: stream length to {} mean error", percent(TOLERABLE)), table));
    let random = all_samplers(settings, &lengths, Mix::Distinct, TableSize::new(1)?, threads);
    let random: Vec<(f64, f64)> = lengths.iter().zip(&random).map(|(&length, row)| (length as f64, row[0])).collect();
    let of_random = crossing(&random);
    found.ours = format!("R: {} (paper {PAPER_RANDOM:.0})", length_text(of_random));
    for (mix, column) in mixes.iter().zip(&crossings) {
        if let Some((n, length)) = nearest(column) {
            found
                .notes
                .push(format!("nearest to the paper's {PAPER_STRATIFIED:.0} with {mix}: n = {n} at {length:.0}"));
        }
    }
    if !of_random.is_some_and(|length| (length / PAPER_RANDOM - 1.0).abs() <= MARGIN) {
        found.contradicted.push("the length for R".to_owned());
    }
    Ok(found)
}

/// Where a falling curve passes 4 %, if it does: between two lengths the error falls as a power of
/// the length.
fn crossing(curve: &[(f64, f64)]) -> Option<f64> {
    curve.windows(2).find_map(|pair| {
        let [(length, error), (next_length, next_error)] = pair else { return None };
        let is_between = *error > TOLERABLE && *next_error <= TOLERABLE;
        let part = (TOLERABLE / error).ln() / (next_error / error).ln();
        is_between.then(|| length * (next_length / length).powf(part))
    })
}

fn length_text(crossing: Option<f64>) -> String {
    crossing.map_or_else(|| "below 1000".to_owned(), |length| format!("{length:.0}"))
}

fn nearest(column: &[Option<f64>]) -> Option<(u64, f64)> {
    let reached = STRATA.iter().zip(column).filter_map(|(&n, crossing)| Some((n, (*crossing)?)));
    let distance = |(_, length): &(u64, f64)| (length / PAPER_STRATIFIED).ln().abs();
    reached.min_by(|left, right| distance(left).total_cmp(&distance(right)))
}

fn plot(title: &str, curves: &[Curve]) -> String {
    chart::curves(title, &Axis::linear("stream length"), &Axis::linear("mean error, %"), curves)
}

fn percent(fraction: f64) -> String {
    format!("{:.2} %", 100.0 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_read_between_its_points() {
        let square_root = |length: f64| (length, 2.4 / length.sqrt());
        let curve: Vec<_> = [1000.0, 2000.0, 4000.0, 8000.0].map(square_root).to_vec();
        assert!((crossing(&curve).unwrap() - 3600.0).abs() < 1.0);
        assert_eq!(crossing(&curve[2..]), None);
    }

    #[test]
    fn relations_follow_from_intervals() {
        let relations = [(0.96, 1.04), (1.01, 1.03), (1.01, 1.2), (0.8, 0.99), (0.9, 1.1)]
            .map(|(low, high)| Relation::of(low, high));
        use Relation::{Alike, FirstWorse, SecondWorse, Undecided};
        assert_eq!(relations, [Alike, Alike, FirstWorse, SecondWorse, Undecided]);
    }

    #[test]
    fn equal_errors_have_a_ratio_of_one() {
        let errors: Vec<Vec<f64>> = (1..=20).map(|n| vec![f64::from(n); SAMPLERS.len()]).collect();
        assert_eq!(log_ratio(&errors, 0, 1), (0.0, 0.0));
    }
}
