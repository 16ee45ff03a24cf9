//! Absolute counts: how far the number of all executed blocks is off, and whether the intervals of
//! counts are honest.
//!
//! Programs of the corpus are those of the claims about accuracy, from the same recordings. The
//! planted programs are counted exactly here; their work depends on nothing but its amount. With
//! options of recordings, everything is compared with recordings that have none, program by
//! program.

use profile::accuracy::{Of, honesty, interval_score};
use profile::query::scale_factor;
use serde::{Deserialize, Serialize};

use super::{Finding, Set, Verdict, Workbench};
use crate::accuracy::{self, Intervals, MIN_BURSTS, Observation};
use crate::planted::{KINDS, Kind};
use crate::resample::mean;
use crate::table::Table;
use crate::{chart, transparency};

/// Estimated numbers of all blocks are right within this factor.
const NEAR: f64 = 1.25;
/// Programs of the corpus on which they are, of so many.
const LEAST_NEAR: (usize, usize) = (23, 25);
/// Intervals that have to hold the truth.
const LEAST_HELD: f64 = 0.93;

/// Counts of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Counts {
    program: String,
    /// Estimated number of all blocks over the exact one.
    total_ratio: f64,
    /// The factor within which the profile says that it is.
    scale_factor: f64,
    intervals: Intervals,
    /// Mean score of the intervals.
    score: Option<f64>,
}

impl Counts {
    fn is_near(&self) -> bool {
        (1.0 / NEAR..=NEAR).contains(&self.total_ratio)
    }
}

impl From<Observation> for Counts {
    fn from(row: Observation) -> Counts {
        Counts {
            program: row.program,
            total_ratio: row.total_ratio,
            scale_factor: row.scale_factor,
            intervals: row.count_intervals,
            score: row.count_score,
        }
    }
}

/// Counts of all programs at one way of recording.
#[derive(Clone, Debug, Default)]
struct Measured {
    corpus: Vec<Counts>,
    planted: Vec<Counts>,
}

impl Measured {
    fn of(bench: &Workbench) -> anyhow::Result<Measured> {
        let corpus = bench.observations(&bench.programs()?, &bench.default_setting())?;
        let planted = kinds(bench).iter().map(|&kind| count_planted(bench, kind)).collect::<anyhow::Result<_>>()?;
        Ok(Measured { corpus: corpus.into_iter().map(Counts::from).collect(), planted })
    }

    fn all(&self) -> impl Iterator<Item = &Counts> {
        self.corpus.iter().chain(&self.planted)
    }

    /// Events judged and held, of all programs together.
    fn intervals(&self) -> (u64, u64) {
        self.all().map(|row| row.intervals.total()).fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }

    fn held(&self) -> f64 {
        let (n_judged, n_held) = self.intervals();
        n_held as f64 / n_judged.max(1) as f64
    }

    fn mean_held(&self) -> f64 {
        mean(&self.all().filter_map(|row| row.intervals.covered()).collect::<Vec<_>>())
    }

    /// The mean over programs.
    fn score(&self) -> f64 {
        mean(&self.all().filter_map(|row| row.score).collect::<Vec<_>>())
    }

    /// Whether all that is required was found. `without`: the same programs without options.
    fn holds(&self, without: Option<&Measured>) -> bool {
        let n_near = self.corpus.iter().filter(|row| row.is_near()).count();
        let (least, of) = LEAST_NEAR;
        !self.corpus.is_empty()
            && n_near * of >= least * self.corpus.len()
            && self.planted.iter().all(Counts::is_near)
            && self.held() >= LEAST_HELD
            && without.is_none_or(|without| self.score() <= without.score())
    }
}

fn kinds(bench: &Workbench) -> &'static [Kind] {
    if bench.set == Set::Smoke { &KINDS[..1] } else { &KINDS }
}

fn count_planted(bench: &Workbench, kind: Kind) -> anyhow::Result<Counts> {
    bench.kept(&format!("counts/{}.json", kind.name), || {
        eprintln!("  {}, counts", kind.name);
        let strobe = transparency::strobe_program()?;
        let folder = bench.dir.join("planted");
        kind.compile(&folder, true)?.record_until_translated(&strobe, &bench.with)?;
        let planted = kind.compile(&folder, bench.set == Set::Smoke)?;
        let exact = planted.count(&strobe)?;
        let sampled = planted.record(&strobe, 0, &bench.with)?.profile;
        Ok(Counts {
            program: kind.name.to_owned(),
            total_ratio: accuracy::total_blocks(&sampled) / accuracy::total_blocks(&exact).max(1.0),
            scale_factor: scale_factor(&sampled),
            intervals: Intervals::of(&honesty(&exact, &sampled, Of::Counts, MIN_BURSTS)),
            score: interval_score(&exact, &sampled, Of::Counts, MIN_BURSTS).map(|score| score.mean),
        })
    })
}

/// Measures the claim.
pub fn absolute_counts(bench: &Workbench) -> anyhow::Result<Finding> {
    let measured = Measured::of(bench)?;
    let without = match &bench.with[..] {
        [] => None,
        _ => Some(Measured::of(&Workbench { with: Vec::new(), ..bench.clone() })?),
    };
    Ok(judge(&measured, without.as_ref()))
}

fn judge(measured: &Measured, without: Option<&Measured>) -> Finding {
    let near = |rows: &[Counts]| format!("{} of {}", rows.iter().filter(|row| row.is_near()).count(), rows.len());
    let mut ours = format!(
        "within {NEAR} on {} programs and {} planted ones; {:.1} % of {} intervals, mean of programs {:.1} %; score {:.2}",
        near(&measured.corpus),
        near(&measured.planted),
        100.0 * measured.held(),
        measured.intervals().0,
        100.0 * measured.mean_held(),
        measured.score()
    );
    if let Some(without) = without {
        ours.push_str(&format!(
            " (without options {} and {}; {:.1} %, mean {:.1} %; {:.2})",
            near(&without.corpus),
            near(&without.planted),
            100.0 * without.held(),
            100.0 * without.mean_held(),
            without.score()
        ));
    }
    let mut finding = Finding::new(ours, "", Verdict::of(measured.holds(without)));
    finding.notes.push(
        "*total/true* is the estimated number of all blocks over the exact one, *said to be within* the factor that the profile states. Judged are \
         estimates that rest on 10 bursts or more. The score of an interval is Winkler's, in logarithms: ln(high / low), and 40 times the logarithm \
         of the factor by which the truth lies outside, if it does; a program's score is the mean over its judged blocks, edges, paths and call \
         pairs, 0 is best. An interval that is as wide as a factor of 2 either way and holds has 1.39; one that is too narrow by a factor of 2 has \
         27.7 more. Intervals of a program hold or miss together, because its counts share a factor."
            .to_owned(),
    );
    let mut table = Table::new(&[
        "program",
        "total/true",
        "said to be within",
        "counts in 95 %",
        "judged",
        "score",
        "total/true without options",
        "counts in 95 % without",
        "score without",
    ]);
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", 100.0 * share));
    let score = |row: &Counts| row.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
    for row in measured.all() {
        let own = [
            row.program.clone(),
            format!("{:.3}", row.total_ratio),
            format!("{:.2}", row.scale_factor),
            percent(row.intervals.covered()),
            row.intervals.total().0.to_string(),
            score(row),
        ];
        let other = without.and_then(|without| without.all().find(|other| other.program == row.program));
        let other = other.map(|other| {
            [format!("{:.3}", other.total_ratio), percent(other.intervals.covered()), score(other)].to_vec()
        });
        table.row(own.into_iter().chain(other.unwrap_or_default()));
    }
    finding.tables.push(("By program; planted ones come last".to_owned(), table));
    let labels: Vec<String> = measured.all().map(|row| row.program.clone()).collect();
    let ratios = |measured: &Measured| measured.all().map(|row| row.total_ratio).collect::<Vec<f64>>();
    let mut series = vec![("estimated / exact blocks", ratios(measured))];
    series.extend(without.map(|without| ("without options", ratios(without))));
    finding.plots.push(chart::bars("Estimated over exact number of blocks", &labels, &series, 0.0, Some(1.0)));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(total_ratio: f64, n_held: u64, score: f64) -> Counts {
        Counts {
            program: "p".to_owned(),
            total_ratio,
            scale_factor: 1.5,
            intervals: Intervals { blocks: (100, n_held), ..Intervals::default() },
            score: Some(score),
        }
    }

    fn measured(n_near: usize, planted_ratio: f64, n_held: u64, score: f64) -> Measured {
        let corpus = (0..25).map(|index| counts(if index < n_near { 1.2 } else { 0.6 }, n_held, score)).collect();
        Measured { corpus, planted: vec![counts(planted_ratio, n_held, score)] }
    }

    #[test]
    fn two_programs_of_25_may_be_off_and_no_planted_one() {
        assert!(measured(23, 1.0, 95, 1.0).holds(None));
        assert!(!measured(22, 1.0, 95, 1.0).holds(None));
        assert!(!measured(25, 0.79, 95, 1.0).holds(None));
        assert!(!measured(25, 1.0, 92, 1.0).holds(None));
        assert!(!Measured::default().holds(None), "nothing shows nothing");
    }

    #[test]
    fn with_options_the_score_must_not_be_worse() {
        let plain = measured(25, 1.0, 95, 1.0);
        assert!(measured(25, 1.0, 95, 0.9).holds(Some(&plain)));
        assert!(!measured(25, 1.0, 95, 1.1).holds(Some(&plain)));
    }

    #[test]
    fn a_finding_has_both_ways_of_recording_side_by_side() {
        let finding = judge(&measured(25, 1.0, 95, 0.9), Some(&measured(20, 1.0, 95, 1.1)));
        assert!(finding.ours.contains("25 of 25") && finding.ours.contains("20 of 25"), "{}", finding.ours);
        let table = finding.tables[0].1.to_markdown();
        assert!(table.contains("| p | 1.200 | 1.50 | 95.0 | 100 | 0.90 | 1.200 | 95.0 | 1.10 |"), "{table}");
    }
}
