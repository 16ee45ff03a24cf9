//! What was seen of one program at one setting, as figures that can be kept.

use profile::accuracy::{Accuracy, Coverage, Honesty};
use serde::{Deserialize, Serialize};

/// One program at one setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// The program.
    pub program: String,
    /// The setting.
    pub setting: String,
    /// Size of the input.
    pub size: String,
    /// Recordings that were added up.
    pub n_runs: usize,
    /// CPU time of the program in all recordings.
    pub cpu_seconds: f64,
    /// Bursts in all recordings.
    pub n_bursts: f64,
    /// Accounted cost of ticks alone, in percent of CPU time.
    pub ticks_percent: f64,
    /// Accounted cost.
    pub accounted_percent: f64,
    /// Accounted cost less the native time of what ran in bursts.
    pub net_percent: f64,
    /// That native time.
    pub native_percent: f64,
    /// Accuracy of the estimates.
    pub estimated: Figures,
    /// Accuracy of what bursts saw, unweighted.
    pub raw: Figures,
    /// Honesty of the error bars of shares.
    pub intervals: Intervals,
    /// Honesty of those of counts, which include a common factor.
    pub count_intervals: Intervals,
    /// Mean score of the intervals of counts ([`profile::accuracy::interval_score`]); nothing if
    /// none was judged, or in findings of versions that did not know it.
    #[serde(default)]
    pub count_score: Option<f64>,
    /// The factor within which counts are said to be right.
    pub scale_factor: f64,
    /// Estimated number of all blocks over the true one.
    pub total_ratio: f64,
    /// Load of the machine when it was recorded: processes that wanted to run, in the minute
    /// before.
    #[serde(default)]
    pub load: Option<f64>,
}

/// Accuracy as shares of 1.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Wall weight matching of paths.
    pub wall: f64,
    /// Relative overlap of branches.
    pub relative: f64,
    /// Absolute overlap of edges.
    pub absolute: f64,
    /// Overlap of call pairs.
    pub calls: f64,
    /// Overlap of blocks.
    pub blocks: f64,
    /// Overlap of paths.
    pub paths: f64,
    /// Overlap of calling contexts; nothing in findings of versions that did not know it.
    pub contexts: Option<f64>,
}

impl Figures {
    /// An exact profile that has nothing of a kind cannot confirm anything.
    pub(super) fn of(accuracy: &Accuracy, context_overlap: Option<f64>) -> Figures {
        Figures {
            wall: accuracy.wall_weight.unwrap_or(0.0),
            relative: accuracy.relative_overlap.unwrap_or(0.0),
            absolute: accuracy.edge_overlap.unwrap_or(0.0),
            calls: accuracy.call_overlap.unwrap_or(0.0),
            blocks: accuracy.block_overlap.unwrap_or(0.0),
            paths: accuracy.path_overlap.unwrap_or(0.0),
            contexts: context_overlap,
        }
    }
}

/// Intervals that could be judged and those that contain the truth, by kind of event.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Intervals {
    /// Of blocks.
    pub blocks: (u64, u64),
    /// Of edges.
    pub edges: (u64, u64),
    /// Of paths.
    pub paths: (u64, u64),
    /// Of call pairs.
    pub calls: (u64, u64),
}

impl Intervals {
    pub(crate) fn of(honesty: &Honesty) -> Intervals {
        let pair = |coverage: Coverage| (coverage.n_judged, coverage.n_covered);
        Intervals {
            blocks: pair(honesty.blocks),
            edges: pair(honesty.edges),
            paths: pair(honesty.paths),
            calls: pair(honesty.calls),
        }
    }

    fn plus(self, other: &Intervals) -> Intervals {
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        Intervals {
            blocks: sum(self.blocks, other.blocks),
            edges: sum(self.edges, other.edges),
            paths: sum(self.paths, other.paths),
            calls: sum(self.calls, other.calls),
        }
    }

    /// Share of all that contain the truth; nothing if none was judged.
    #[must_use]
    pub fn covered(&self) -> Option<f64> {
        let (n_judged, n_covered) = self.total();
        (n_judged > 0).then(|| n_covered as f64 / n_judged as f64)
    }

    /// All kinds: judged and covered.
    #[must_use]
    pub fn total(&self) -> (u64, u64) {
        let all = [self.blocks, self.edges, self.paths, self.calls];
        all.iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }
}

impl Observation {
    /// Headings of [`Observation::cells`].
    pub const HEADING: [&'static str; 22] = [
        "program",
        "setting",
        "CPU s",
        "bursts",
        "accounted %",
        "net %",
        "paths (Wall)",
        "raw",
        "edges rel.",
        "raw",
        "edges abs.",
        "raw",
        "calls",
        "blocks",
        "contexts",
        "shares in 95 %",
        "counts in 95 %",
        "score",
        "judged",
        "total/true",
        "within",
        "load",
    ];

    /// The figures for people: accuracy in percent.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        let n_judged = self.intervals.total().0;
        let covered = |intervals: &Intervals| intervals.covered().map_or_else(|| "-".to_owned(), percent);
        vec![
            self.program.clone(),
            self.setting.clone(),
            format!("{:.2}", self.cpu_seconds),
            format!("{:.0}", self.n_bursts),
            format!("{:.3}", self.accounted_percent),
            format!("{:.3}", self.net_percent),
            percent(self.estimated.wall),
            percent(self.raw.wall),
            percent(self.estimated.relative),
            percent(self.raw.relative),
            percent(self.estimated.absolute),
            percent(self.raw.absolute),
            percent(self.estimated.calls),
            percent(self.estimated.blocks),
            self.estimated.contexts.map_or_else(|| "not yet".to_owned(), percent),
            covered(&self.intervals),
            covered(&self.count_intervals),
            self.count_score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}")),
            n_judged.to_string(),
            format!("{:.3}", self.total_ratio),
            format!("{:.2}", self.scale_factor),
            self.load.map_or_else(|| "-".to_owned(), |load| format!("{load:.1}")),
        ]
    }
}

/// The mean over programs at one setting; intervals are pooled.
#[must_use]
pub fn mean(rows: &[&Observation]) -> Observation {
    let average = |figure: &dyn Fn(&Observation) -> f64| {
        rows.iter().map(|row| figure(row)).sum::<f64>() / rows.len().max(1) as f64
    };
    let figures = |choose: fn(&Observation) -> &Figures| Figures {
        wall: average(&|row| choose(row).wall),
        relative: average(&|row| choose(row).relative),
        absolute: average(&|row| choose(row).absolute),
        calls: average(&|row| choose(row).calls),
        blocks: average(&|row| choose(row).blocks),
        paths: average(&|row| choose(row).paths),
        contexts: rows
            .iter()
            .map(|row| choose(row).contexts)
            .sum::<Option<f64>>()
            .map(|sum| sum / rows.len().max(1) as f64),
    };
    let pooled = |choose: fn(&Observation) -> &Intervals| {
        rows.iter().map(|row| choose(row)).fold(Intervals::default(), |sum, intervals| sum.plus(intervals))
    };
    Observation {
        program: format!("mean of {}", rows.len()),
        setting: rows.first().map_or_else(String::new, |row| row.setting.clone()),
        size: rows.first().map_or_else(String::new, |row| row.size.clone()),
        n_runs: rows.first().map_or(0, |row| row.n_runs),
        cpu_seconds: average(&|row| row.cpu_seconds),
        n_bursts: average(&|row| row.n_bursts),
        ticks_percent: average(&|row| row.ticks_percent),
        accounted_percent: average(&|row| row.accounted_percent),
        net_percent: average(&|row| row.net_percent),
        native_percent: average(&|row| row.native_percent),
        estimated: figures(|row| &row.estimated),
        raw: figures(|row| &row.raw),
        intervals: pooled(|row| &row.intervals),
        count_intervals: pooled(|row| &row.count_intervals),
        count_score: rows
            .iter()
            .map(|row| row.count_score)
            .sum::<Option<f64>>()
            .map(|sum| sum / rows.len().max(1) as f64),
        scale_factor: average(&|row| row.scale_factor),
        total_ratio: average(&|row| row.total_ratio),
        load: rows.iter().map(|row| row.load).sum::<Option<f64>>().map(|sum| sum / rows.len().max(1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(wall: f64, intervals: (u64, u64), contexts: Option<f64>) -> Observation {
        Observation {
            program: "gzip".to_owned(),
            setting: "default".to_owned(),
            size: "full".to_owned(),
            n_runs: 1,
            cpu_seconds: 3.0,
            n_bursts: 300.0,
            ticks_percent: 0.1,
            accounted_percent: 0.6,
            net_percent: 0.5,
            native_percent: 0.1,
            estimated: Figures { wall, contexts, ..Figures::default() },
            raw: Figures::default(),
            intervals: Intervals { edges: intervals, ..Intervals::default() },
            count_intervals: Intervals::default(),
            count_score: None,
            scale_factor: 2.0,
            total_ratio: 1.0,
            load: None,
        }
    }

    #[test]
    fn programs_count_alike_and_intervals_are_pooled() {
        let rows = [observation(0.9, (10, 9), Some(0.8)), observation(1.0, (90, 81), None)];
        let mean = mean(&rows.iter().collect::<Vec<_>>());
        assert!((mean.estimated.wall - 0.95).abs() < 1e-12);
        assert_eq!(mean.intervals.total(), (100, 90));
        assert_eq!(mean.estimated.contexts, None);
        assert_eq!(mean.cells().len(), Observation::HEADING.len());
    }
}
