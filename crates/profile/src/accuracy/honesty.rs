//! Whether error bars are honest: how often the 95 % interval of an estimate contains the exact count.
//!
//! An event that few bursts can have seen says nothing about that. Judged are those that were to be expected in at least `min_bursts` of the
//! `n_bursts` bursts: if occurrences were spread evenly over the run, `n_bursts (1 - exp(-n f / n_bursts))` bursts would see an event that
//! happened `n` times, with `f` the share of all blocks that ran in bursts. Events that come in clusters are expected in fewer, so that
//! some are judged that should not be. An event that was not seen has the interval from 0 to [`Profile::unseen_at_most`].

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
    /// Counts of blocks.
    pub blocks: Coverage,
    /// Counts of edges.
    pub edges: Coverage,
    /// Counts of paths.
    pub paths: Coverage,
    /// Counts of call pairs.
    pub calls: Coverage,
}

/// Judges the intervals of `sampled` by `exact`.
#[must_use]
pub fn honesty(exact: &Profile, sampled: &Profile, n_bursts: f64, min_bursts: f64) -> Honesty {
    let common = Common::of(exact, sampled);
    let n_exact: f64 = exact.blocks.iter().map(|row| row.count.value).sum();
    let n_seen: f64 = sampled.blocks.iter().map(|row| row.count.seen as f64).sum();
    let seen_share = if n_exact > 0.0 { n_seen / n_exact } else { 0.0 };
    let is_expected = |count: f64| {
        let per_burst = count * seen_share / n_bursts;
        n_bursts * (1.0 - (-per_burst).exp()) >= min_bursts
    };
    let judge = |figures: &dyn Fn(&Side<'_>) -> Vec<(usize, Estimate)>| {
        let estimates: FxHashMap<usize, Estimate> = figures(&common.sampled).into_iter().collect();
        let mut coverage = Coverage::default();
        for (index, truth) in figures(&common.exact) {
            if is_expected(truth.value) {
                let (low, high) = match estimates.get(&index) {
                    Some(estimate) if estimate.seen > 0 => estimate.interval(),
                    _ => (0.0, sampled.unseen_at_most),
                };
                coverage.n_judged += 1;
                coverage.n_covered += u64::from((low..=high).contains(&truth.value));
            }
        }
        coverage
    };
    Honesty {
        blocks: judge(&|side| {
            let rows = side.handles.blocks.iter().zip(&side.profile.blocks);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        edges: judge(&|side| {
            let rows = side.handles.edges.iter().zip(&side.profile.edges);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        paths: judge(&|side| {
            let rows = side.handles.paths.iter().zip(&side.profile.paths);
            rows.map(|(id, row)| (id.index(), row.count)).collect()
        }),
        calls: judge(&|side| {
            let rows = side.handles.calls.iter().zip(&side.profile.calls);
            rows.map(|(&index, row)| (index, row.count)).collect()
        }),
    }
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

    #[test]
    fn only_events_of_enough_bursts_are_judged() {
        // 100 bursts saw a tenth of everything: 1000 times is once a burst, 100 times in ten bursts less two, 10 times in one.
        let exact = profile(&[1000, 120, 10].map(Estimate::exact));
        let estimate = |value: f64, error: f64, seen| Estimate { value, variance: error * error, seen };
        let sampled = profile(&[estimate(1100.0, 60.0, 100), estimate(60.0, 20.0, 6), estimate(70.0, 1.0, 7)]);
        let found = honesty(&exact, &sampled, 100.0, 10.0);
        assert_eq!(found.blocks, Coverage { n_judged: 2, n_covered: 1 });
        assert_eq!(found.blocks.share(), Some(0.5));
        assert_eq!(found.calls.share(), None);
    }

    #[test]
    fn an_event_that_was_not_seen_has_an_upper_bound() {
        let exact = profile(&[1000, 1000].map(Estimate::exact));
        let mut sampled = profile(&[Estimate { value: 1000.0, variance: 1.0, seen: 400 }]);
        assert_eq!(honesty(&exact, &sampled, 100.0, 10.0).blocks, Coverage { n_judged: 2, n_covered: 1 });
        sampled.unseen_at_most = 1000.0;
        assert_eq!(honesty(&exact, &sampled, 100.0, 10.0).blocks, Coverage { n_judged: 2, n_covered: 2 });
    }
}
