//! What only counting everything has, or samples of it: counters, and the file of paths.

use wire::control::Policy;

use crate::exact::counts::Gaps;
use crate::exact::{Accesses, Outcome, Stay};
use crate::plan::Sampling;
use crate::rows::Fact;
use crate::session::Session;

/// Counters of a run.
#[derive(Debug)]
pub struct ExactFacts {
    /// What was counted.
    pub counting: emit::Counting,
    /// How much of the run threads spent in copies.
    pub stay: Stay,
    /// Path ends that found a full table.
    pub n_lost_paths: u64,
    /// Calls whose caller is not known because a table was full.
    pub n_lost_contexts: u64,
    /// Misses of simulated data caches.
    pub cache_misses: u64,
    /// Accesses that simulated data caches saw, and those that they did not.
    pub accesses: Accesses,
    /// Paths that ended.
    pub n_paths: u64,
    /// Additions to path registers on the way.
    pub n_additions: u64,
    /// Calls of functions whose paths were not counted, though paths were to be.
    pub n_calls_without_paths: u64,
    /// Paths that are wrong in their first part.
    pub n_misattributed_paths: u64,
    /// Numbers that no path has.
    pub n_unknown_paths: u64,
    /// Edges that counters do not determine.
    pub n_undetermined_edges: u64,
    /// Modules whose counters could not be understood, with the reason.
    pub problems: Vec<String>,
    /// Samples of paths, if only these were counted.
    pub sampled: Option<SampledFacts>,
    /// The file of paths, if there is one.
    pub path_trace: Option<PathTraceFacts>,
}

/// How paths were sampled.
#[derive(Debug, Clone, Copy)]
pub struct SampledFacts {
    /// Which paths counted.
    pub sampling: Sampling,
    /// Ticks that wanted samples.
    pub n_ticks: u64,
}

/// The file of paths, one by one.
#[derive(Debug, Clone)]
pub struct PathTraceFacts {
    /// Where it is.
    pub path: std::path::PathBuf,
    /// Paths in it.
    pub n_records: u64,
    /// Marks in it.
    pub n_marks: u64,
    /// Its size.
    pub n_bytes: u64,
    /// Its size, if it were not packed.
    pub n_raw_bytes: u64,
    /// Functions that are counted by blocks and have no paths in it.
    pub n_left_out: u64,
    /// Records that were dropped because the ring stayed full, or that could not be written.
    pub n_lost: u64,
}

impl ExactFacts {
    pub(super) fn new(session: &Session, outcome: &Outcome) -> ExactFacts {
        let totals = &session.sums.exact;
        let counting = session.plan.mode.counting().unwrap_or(emit::Counting::Nothing);
        let sum = |of: fn(&Gaps) -> u64| outcome.gaps.values().map(of).sum::<u64>();
        let n_left_out = sum(|gaps| gaps.n_by_blocks);
        let sampled = (counting == emit::Counting::SampledPaths)
            .then(|| SampledFacts { sampling: session.plan.mode.sampling(), n_ticks: totals.n_sampling_ticks });
        let path_trace = session.sums.path_trace.as_ref().map(|trace| PathTraceFacts {
            path: trace.path().to_path_buf(),
            n_records: trace.n_records(),
            n_marks: trace.n_marks(),
            n_bytes: trace.n_bytes(),
            n_raw_bytes: trace.n_words() * 8,
            n_left_out,
            n_lost: totals.n_words_lost + trace.n_unwritten(),
        });
        ExactFacts {
            counting,
            stay: totals.stay.clone(),
            n_lost_paths: totals.lost_paths,
            n_lost_contexts: totals.contexts.n_lost,
            cache_misses: totals.cache_misses,
            accesses: outcome.accesses,
            n_paths: outcome.effort.n_paths,
            n_additions: outcome.effort.n_additions,
            n_calls_without_paths: outcome.n_calls_without_paths,
            n_misattributed_paths: sum(|gaps| gaps.lost_paths.iter().map(|gap| gap.count).sum()),
            n_unknown_paths: sum(|gaps| gaps.unknown_paths.iter().map(|gap| gap.count).sum()),
            n_undetermined_edges: sum(|gaps| gaps.undetermined.iter().map(|gap| gap.count).sum()),
            problems: outcome.problems.clone(),
            sampled,
            path_trace,
        }
    }

    /// Returns what was counted, in words.
    #[must_use]
    pub fn counted(&self) -> String {
        let what = match self.counting {
            emit::Counting::Paths | emit::Counting::PathMetric(_) => "paths",
            emit::Counting::HeaderPaths => "paths between loop headers",
            emit::Counting::SampledPaths => "samples of paths",
            emit::Counting::TracedPaths => "paths, one by one",
            emit::Counting::Blocks => "blocks",
            emit::Counting::Contexts(emit::Contexts { paths: false, .. }) => "calling contexts",
            emit::Counting::Contexts(emit::Contexts { paths: true, .. }) => "paths by calling context",
            emit::Counting::Nothing | emit::Counting::Triggered(_) => "nothing",
        };
        match self.counting.metric() {
            Some(emit::Metric::Cycles) => format!("{what} with cycles"),
            Some(emit::Metric::Misses(_)) => format!("{what} with cache misses"),
            None => what.to_owned(),
        }
    }

    /// Returns the data cache that was simulated, if one was.
    #[must_use]
    pub fn cache(&self) -> Option<emit::Cache> {
        match self.counting.metric() {
            Some(emit::Metric::Misses(cache)) => Some(cache),
            Some(emit::Metric::Cycles) | None => None,
        }
    }

    /// Returns whether accesses to the simulated data cache are known: only where blocks are
    /// counted.
    #[must_use]
    pub fn counts_accesses(&self) -> bool {
        self.counting.has_paths()
    }

    pub(super) fn rows(&self) -> Vec<Fact> {
        let mut rows = vec![
            ("exact", self.counted()),
            ("lost_paths", self.n_lost_paths.to_string()),
            ("paths_ended", self.n_paths.to_string()),
            ("path_additions", self.n_additions.to_string()),
            ("lost_contexts", self.n_lost_contexts.to_string()),
            ("calls_without_paths", self.n_calls_without_paths.to_string()),
            ("misattributed_paths", self.n_misattributed_paths.to_string()),
            ("unknown_paths", self.n_unknown_paths.to_string()),
            ("undetermined_edges", self.n_undetermined_edges.to_string()),
        ];
        rows.extend(self.stay.rows());
        if let Some(cache) = self.cache() {
            rows.extend([("cache", shape(cache)), ("cache_misses", self.cache_misses.to_string())]);
            if self.counts_accesses() {
                let Accesses { simulated, not_simulated } = self.accesses;
                rows.push(("cache_accesses", simulated.to_string()));
                rows.push(("cache_accesses_not_simulated", not_simulated.to_string()));
            }
        }
        rows.extend(self.sampled.iter().flat_map(SampledFacts::rows));
        rows.extend(self.path_trace.iter().flat_map(PathTraceFacts::rows));
        rows
    }
}

/// Returns a data cache as users ask for it: `l1d:16k:1:32`.
#[must_use]
pub fn shape(cache: emit::Cache) -> String {
    let (n_bytes, n_ways, line) = (cache.n_bytes(), cache.n_ways(), cache.line());
    let size = if n_bytes.is_multiple_of(1024) { format!("{}k", n_bytes >> 10) } else { n_bytes.to_string() };
    format!("l1d:{size}:{n_ways}:{line}")
}

impl SampledFacts {
    fn rows(&self) -> [Fact; 4] {
        let Sampling { samples, stride, policy } = self.sampling;
        let policy = if policy == Policy::Full { "full" } else { "simplified" };
        [
            ("sampling_ticks", self.n_ticks.to_string()),
            ("samples_per_tick", samples.to_string()),
            ("sampling_stride", stride.to_string()),
            ("sampling_policy", policy.to_owned()),
        ]
    }
}

impl PathTraceFacts {
    fn rows(&self) -> [Fact; 7] {
        [
            ("trace_file", self.path.display().to_string()),
            ("trace_records", self.n_records.to_string()),
            ("trace_marks", self.n_marks.to_string()),
            ("trace_bytes", self.n_bytes.to_string()),
            ("trace_raw_bytes", self.n_raw_bytes.to_string()),
            ("trace_functions_left_out", self.n_left_out.to_string()),
            ("trace_records_lost", self.n_lost.to_string()),
        ]
    }
}
