//! Whether error bars are honest: how often the 95 % interval of an estimate contains the exact
//! count.
//!
//! Two intervals are judged. That of the **share** of an event in all executed blocks has the error
//! of chance and [`Profile::mix_error`]; that of its **count** has [`Profile::scale_error`]
//! besides. All counts of a recording share the latter, so that its intervals hold the truth
//! together or not at all; only over many programs can their honesty be seen.
//!
//! An event that few bursts can have seen says nothing about that. Judged are those whose estimate
//! rests on at least `min_bursts` bursts: the number of bursts that, with equal counts, would leave
//! the chance that the estimate states, `value^2 / variance`. How often an event happened does not
//! tell in how many bursts it is to be expected: what happens a million times in the first
//! millisecond is in one burst or none. What was seen and has no exact count is not judged: it is
//! code that the exact recording did not count.

use rustc_hash::FxHashMap;

use super::{Common, Side};
use crate::estimate::Estimate;
use crate::model::Profile;

/// Intervals of one kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Events that were to be expected in enough bursts.
    pub n_judged: u64,
    /// Those whose interval contains the exact count.
    pub n_covered: u64,
}

impl Coverage {
    /// Share of intervals that contain the truth; nothing if none was judged.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.n_judged > 0).then(|| self.n_covered as f64 / self.n_judged as f64)
    }
}

/// Intervals of all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Honesty {
    /// Intervals of block counts.
    pub blocks: Coverage,
    /// Intervals of edge counts.
    pub edges: Coverage,
    /// Intervals of path counts.
    pub paths: Coverage,
    /// Intervals of counts of call pairs.
    pub calls: Coverage,
}

/// Which intervals are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Shares of all executed blocks.
    Shares,
    /// Counts.
    Counts,
}

/// How well intervals do that are as narrow as they can be and hold the truth: their mean score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Intervals that were judged, of all kinds of events.
    pub n_judged: u64,
    /// The mean of their scores; 0 is best.
    pub mean: f64,
}

/// An interval with the truth.
#[derive(Clone, Copy, Debug)]
struct Judged {
    truth: f64,
    low: f64,
    high: f64,
}

impl Judged {
    fn is_covered(&self) -> bool {
        (self.low..=self.high).contains(&self.truth)
    }

    /// Winkler's score of an interval, in logarithms: its width, and 40 times (2 over the chance of
    /// 5 % that it misses) what the truth lies outside. Events weigh alike, whatever their counts.
    fn score(&self) -> f64 {
        const PENALTY: f64 = 2.0 / 0.05;
        let outside = (self.low / self.truth).ln().max((self.truth / self.high).ln()).max(0.0);
        (self.high / self.low).ln() + PENALTY * outside
    }
}

/// Intervals of blocks, edges, paths and call pairs.
fn judged(exact: &Profile, sampled: &Profile, of: Of, min_bursts: f64) -> [Vec<Judged>; 4] {
    let common = Common::of(exact, sampled);
    let total = |profile: &Profile| profile.blocks.iter().map(|row| row.count.value).sum::<f64>();
    let (factor, log_error) = match of {
        Of::Shares => (total(exact) / total(sampled), sampled.mix_error),
        Of::Counts => (1.0, sampled.mix_error.hypot(sampled.scale_error)),
    };
    let rests_on_enough = |estimate: &Estimate| estimate.value * estimate.value >= min_bursts * estimate.variance;
    let judge = |figures: &dyn Fn(&Side<'_>) -> Vec<(usize, Estimate)>| -> Vec<Judged> {
        let truths: FxHashMap<usize, f64> =
            figures(&common.exact).into_iter().map(|(index, truth)| (index, truth.value)).collect();
        let estimates = figures(&common.sampled).into_iter();
        let known = estimates.filter(|(_, estimate)| estimate.value > 0.0 && rests_on_enough(estimate));
        let interval = |(index, estimate): (usize, Estimate)| {
            let truth = *truths.get(&index).filter(|&&truth| truth > 0.0)?;
            let (low, high) = estimate.scaled(factor).interval_with(log_error);
            Some(Judged { truth, low, high })
        };
        known.filter_map(interval).collect()
    };
    [
        judge(&|side| {
            let rows = side.handles.blocks.iter().zip(&side.profile.blocks);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        judge(&|side| {
            let rows = side.handles.edges.iter().zip(&side.profile.edges);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        judge(&|side| {
            let rows = side.handles.paths.iter().zip(&side.profile.paths);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        judge(&|side| {
            let rows = side.handles.calls.iter().zip(&side.profile.calls);
            rows.map(|(&index, row)| (index, row.count)).collect()
        }),
    ]
}

/// Judges the intervals of `sampled` by `exact`.
#[must_use]
pub fn honesty(exact: &Profile, sampled: &Profile, of: Of, min_bursts: f64) -> Honesty {
    let coverage = |judged: &[Judged]| Coverage {
        n_judged: judged.len() as u64,
        n_covered: judged.iter().filter(|interval| interval.is_covered()).count() as u64,
    };
    let [blocks, edges, paths, calls] = judged(exact, sampled, of, min_bursts);
    Honesty { blocks: coverage(&blocks), edges: coverage(&edges), paths: coverage(&paths), calls: coverage(&calls) }
}

/// The mean score of the same intervals; nothing if none was judged.
#[must_use]
pub fn interval_score(exact: &Profile, sampled: &Profile, of: Of, min_bursts: f64) -> Option<Score> {
    let scores: Vec<f64> = judged(exact, sampled, of, min_bursts).iter().flatten().map(Judged::score).collect();
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    (!scores.is_empty()).then_some(Score { n_judged: scores.len() as u64, mean })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, BlockEnd, Function, FunctionId, Module, ModuleId};

    fn profile(counts: &[Estimate]) -> Profile {
        let block = |(index, &count): (usize, &Estimate)| Block {
            function: FunctionId(0),
            address: 16 * index as u64,
            size: 4,
            last: 0,
            n_insns: 1,
            end: BlockEnd::Return,
            count,
            self_ns: Estimate::default(),
        };
        Profile {
            modules: vec![Module::default()],
            functions: vec![Function {
                module: ModuleId(0),
                address: 0,
                size: 64,
                name: String::new(),
                entries: Estimate::default(),
                self_ns: Estimate::default(),
            }],
            blocks: counts.iter().enumerate().map(block).collect(),
            ..Profile::default()
        }
    }

    fn estimate(value: f64, error: f64) -> Estimate {
        Estimate { value, variance: error * error, seen: 5 }
    }

    #[test]
    fn only_events_of_enough_bursts_are_judged() {
        let exact = profile(&[1000, 120, 10].map(Estimate::exact));
        let sampled = profile(&[estimate(1100.0, 60.0), estimate(60.0, 10.0), estimate(40.0, 30.0)]);
        let found = honesty(&exact, &sampled, Of::Counts, 10.0);
        assert_eq!(found.blocks, Coverage { n_judged: 2, n_covered: 1 });
        assert_eq!(found.blocks.share(), Some(0.5));
        assert_eq!(found.calls.share(), None);
    }

    #[test]
    fn a_common_factor_matters_to_counts_only() {
        let exact = profile(&[1000, 2000].map(Estimate::exact));
        let mut sampled = profile(&[estimate(2000.0, 100.0), estimate(4000.0, 200.0)]);
        let covered = |sampled: &Profile, of| honesty(&exact, sampled, of, 10.0).blocks.n_covered;
        assert_eq!([Of::Shares, Of::Counts].map(|of| covered(&sampled, of)), [2, 0]);
        sampled.scale_error = 0.5;
        assert_eq!(covered(&sampled, Of::Counts), 2);
    }

    #[test]
    fn what_was_not_counted_is_not_judged() {
        let sampled = profile(&[estimate(1000.0, 1.0), estimate(500.0, 1.0), Estimate::default()]);
        let exact = profile(&[1000, 0, 10].map(Estimate::exact));
        assert_eq!(honesty(&exact, &sampled, Of::Counts, 10.0).blocks, Coverage { n_judged: 1, n_covered: 1 });
    }

    #[test]
    fn a_score_is_the_width_and_what_misses() {
        let score = |low, high| Judged { truth: 100.0, low, high }.score();
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(is_near(score(100.0, 100.0), 0.0));
        assert!(is_near(score(50.0, 200.0), 4_f64.ln()));
        assert!(is_near(score(50.0, 80.0), 1.6_f64.ln() + 40.0 * 1.25_f64.ln()), "below the truth");
        assert!(is_near(score(200.0, 400.0), 2_f64.ln() + 40.0 * 2_f64.ln()), "above it");
    }

    #[test]
    fn scores_prefer_an_interval_that_is_wide_enough_and_no_wider() {
        let exact = profile(&[1000, 3000].map(Estimate::exact));
        let score = |error: f64| {
            let sampled = profile(&[estimate(1100.0, error), estimate(2900.0, error)]);
            interval_score(&exact, &sampled, Of::Counts, 1.0).unwrap()
        };
        let [narrow, right, wide] = [1.0, 100.0, 900.0].map(score);
        assert_eq!([narrow, right, wide].map(|score| score.n_judged), [2, 2, 2]);
        assert!(right.mean < narrow.mean && right.mean < wide.mean, "{narrow:?} {right:?} {wide:?}");
        assert_eq!(interval_score(&exact, &profile(&[]), Of::Counts, 1.0), None);
    }
}
