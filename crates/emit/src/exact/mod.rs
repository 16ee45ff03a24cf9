//! Copies that are never left, and what they count.
//!
//! A burst ends after some checks; a copy for exact mode does not. It has no checks and no buffer;
//! wherever a copy would leave, it goes to the runtime's gate instead (`crate::stubs`), and calls
//! and returns have ways of their own (`transfers`). What it counts is laid out in
//! [`wire::exact`]: *cells*, counters of 8 bytes at a fixed distance from `gs:`, of which every module has a range.
//!
//! What a function's probes do is decided before it is written ([`Plan`]): something on arrival at
//! a block, something on edges.
//!
//! * **Blocks.** A cell for every block. Edges follow from them where a block has one way in or one
//!   way out; a conditional jump that is taken has a cell of its own if its edge does not follow,
//!   also where it leaves the function. Where it does not, control that comes over the edge skips
//!   the cell of the block: nothing is counted twice, and a block ran as often as its cell and
//!   those of edges to it say.
//! * **Paths.** See [`paths`], [`hashed`] for those that have no cells, [`path_metric`] for what is
//!   added up on each, [`samples`] for samples of them, and [`trace`] for all of them in their
//!   order.
//! * **Contexts.** See [`contexts`].
//! * **Blocks in bursts.** See [`trigger`].

pub(crate) mod code;
mod computed;
pub(crate) mod contexts;
pub(crate) mod hashed;
mod path_metric;
mod paths;
mod plan;
pub(crate) mod samples;
mod tables;
mod trace;
pub(crate) mod transfers;
pub(crate) mod trigger;

use flow::paths::Truncation;

use crate::cache::Cache;

pub(crate) use code::Code;
pub(crate) use path_metric::write_missed_ends;
pub(crate) use plan::Plan;
pub use trigger::Trigger;

/// What is added up on paths, or in contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Cycles of the time stamp counter.
    Cycles,
    /// Misses of a simulated data cache, which every thread has for itself.
    Misses(Cache),
}

/// What copies for exact mode count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Nothing: the cost of running in copies, apart from that of counting.
    Nothing,
    /// Blocks, and the edges that do not follow from them.
    Blocks,
    /// Ball-Larus paths, which end at back edges.
    Paths,
    /// Ball-Larus paths, which end wherever control comes to a loop header.
    HeaderPaths,
    /// Ball-Larus paths, and a metric on each.
    PathMetric(Metric),
    /// Ball-Larus paths, but only those that end when ticks want samples.
    SampledPaths,
    /// Ball-Larus paths, each of them as it ends, in a trace.
    TracedPaths,
    /// Calls, by calling context.
    Contexts(Contexts),
    /// Nothing, but blocks or values are noted in bursts that a count of checks starts.
    Triggered(Trigger),
}

/// What is counted with calling contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contexts {
    /// Ball-Larus paths, by context.
    pub paths: bool,
    /// A metric: of each path if paths are counted, else of each context.
    pub metric: Option<Metric>,
    /// Whether calls of the same function from different places of another one lead to different
    /// contexts.
    pub by_call_site: bool,
}

impl Counting {
    /// Calls, by calling context.
    pub const CONTEXTS: Counting = Counting::contexts(false, None);
    /// The same, and Ball-Larus paths by calling context.
    pub const CONTEXT_PATHS: Counting = Counting::contexts(true, None);
    /// The same, and the cycles on each path.
    pub const CONTEXT_PATH_CYCLES: Counting = Counting::contexts(true, Some(Metric::Cycles));
    /// Calls and cycles, by calling context.
    pub const CONTEXT_CYCLES: Counting = Counting::contexts(false, Some(Metric::Cycles));
    /// Ball-Larus paths, and the cycles on each.
    pub const PATH_CYCLES: Counting = Counting::PathMetric(Metric::Cycles);

    /// Calls by calling context, with paths or without, and with a metric or without.
    #[must_use]
    pub const fn contexts(paths: bool, metric: Option<Metric>) -> Counting {
        Counting::Contexts(Contexts { paths, metric, by_call_site: false })
    }

    /// The same with call sites told apart, if there are contexts.
    #[must_use]
    pub const fn by_call_site(self) -> Counting {
        match self {
            Counting::Contexts(contexts) => Counting::Contexts(Contexts { by_call_site: true, ..contexts }),
            _ => self,
        }
    }

    /// What is added up, if anything is.
    #[must_use]
    pub const fn metric(self) -> Option<Metric> {
        match self {
            Counting::PathMetric(metric) => Some(metric),
            Counting::Contexts(contexts) => contexts.metric,
            Counting::Nothing
            | Counting::Blocks
            | Counting::Paths
            | Counting::HeaderPaths
            | Counting::SampledPaths
            | Counting::TracedPaths
            | Counting::Triggered(_) => None,
        }
    }

    /// The same with another metric, if there is one.
    #[must_use]
    pub const fn with_metric(self, metric: Metric) -> Counting {
        match self {
            Counting::PathMetric(_) => Counting::PathMetric(metric),
            Counting::Contexts(contexts @ Contexts { metric: Some(_), .. }) => {
                Counting::Contexts(Contexts { metric: Some(metric), ..contexts })
            }
            _ => self,
        }
    }

    /// Whether paths are counted.
    #[must_use]
    pub fn has_paths(self) -> bool {
        match self {
            Counting::Nothing | Counting::Blocks | Counting::Triggered(_) => false,
            Counting::Paths
            | Counting::HeaderPaths
            | Counting::PathMetric(_)
            | Counting::SampledPaths
            | Counting::TracedPaths => true,
            Counting::Contexts(contexts) => contexts.paths,
        }
    }

    /// Where paths are cut.
    #[must_use]
    pub fn truncation(self) -> Truncation {
        if self == Counting::HeaderPaths { Truncation::LoopHeaders } else { Truncation::BackEdges }
    }

    /// Whether calling contexts are kept.
    #[must_use]
    pub fn has_contexts(self) -> bool {
        matches!(self, Counting::Contexts(_))
    }

    /// Whether calling contexts have a metric of their own.
    #[must_use]
    pub fn has_context_metric(self) -> bool {
        matches!(self, Counting::Contexts(Contexts { paths: false, metric: Some(_), .. }))
    }

    /// Whether paths have a metric.
    #[must_use]
    pub fn has_path_metric(self) -> bool {
        matches!(self, Counting::PathMetric(_) | Counting::Contexts(Contexts { paths: true, metric: Some(_), .. }))
    }

    /// Returns what starts and ends bursts, if they are started by a count of checks.
    #[must_use]
    pub fn trigger(&self) -> Option<Trigger> {
        match self {
            Counting::Triggered(trigger) => Some(*trigger),
            _ => None,
        }
    }

    /// Whether indirect calls count whom they call. The path table that this takes is missing where
    /// paths are traced, and has something else beside the counts where paths are sampled or have a
    /// metric.
    #[must_use]
    pub fn has_callees(self) -> bool {
        match self {
            Counting::Nothing
            | Counting::SampledPaths
            | Counting::TracedPaths
            | Counting::PathMetric(_)
            | Counting::Triggered(_) => false,
            Counting::Blocks | Counting::Paths | Counting::HeaderPaths => true,
            Counting::Contexts(_) => !self.has_path_metric(),
        }
    }

    /// Whether call sites are told apart.
    #[must_use]
    pub fn has_call_sites(self) -> bool {
        matches!(self, Counting::Contexts(Contexts { by_call_site: true, .. }))
    }
}
