//! The settings that a process gets when it joins.

use wire::control::{Policy, TickSource};
use wire::events::MAX_EXPRESSION;

/// The settings that a process gets when it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether ticks do anything: start bursts, or want samples, as the mode says.
    pub enabled: bool,
    /// CPU time between ticks of a thread.
    pub tick_interval_ns: u64,
    /// Where ticks come from.
    pub tick_source: TickSource,
    /// Seed of random first phases.
    pub seed: u64,
    /// How the process is recorded.
    pub mode: Mode,
}

/// How a process is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Ticks take samples, and send threads into copies for a burst.
    Bursts {
        /// Length of a burst in checks.
        checks: u32,
        /// Most bytes of stack in a sample, a multiple of 8.
        stack_bytes: u32,
        /// Which path ends of a burst count.
        ends: PathEnds,
        /// Copies note values, and this becomes of them; they go as they are, without a compressor.
        values: Option<EventSettings>,
    },
    /// Threads never leave the copies, which count everything ([`wire::exact`]).
    Exact {
        /// What metrics are made of.
        metric: MetricSource,
        /// What copies note besides.
        noted: Noted,
        /// Copies keep a path register, which fits at the starts of blocks only.
        keeps_paths: bool,
    },
    /// Threads never leave the copies, of which there are two versions; a count of checks takes
    /// them from one to the other ([`wire::exact`]).
    Counted {
        /// Checks between two bursts.
        n_check: u32,
        /// Checks of a burst.
        n_instr: u32,
        /// What is noted in a burst.
        noted: Noted,
    },
    /// Threads never leave the copies, which count paths when a tick has made samples wanted.
    PathSampling {
        /// Which path ends count.
        ends: PathEnds,
        /// Copies note values, and this becomes of them.
        values: Option<EventSettings>,
    },
}

impl Mode {
    /// Returns whether threads never leave the copies.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !matches!(self, Mode::Bursts { .. })
    }
}

/// Which path ends count (Arnold and Grove; PEP, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEnds {
    /// How they are chosen.
    pub policy: Policy,
    /// The policy's number of samples.
    pub samples: u32,
    /// The policy's stride.
    pub stride: u32,
}

impl PathEnds {
    /// Every path end counts.
    pub const ALL: PathEnds = PathEnds { policy: Policy::Plain, samples: 0, stride: 1 };
}

/// The source of the metric of paths and contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricSource {
    /// Cycles of the processor.
    Cycles,
    /// Misses of a simulated data cache.
    CacheMisses,
}

/// What copies of exact mode note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// Nothing.
    Nothing,
    /// Values, of which this becomes.
    Values(EventSettings),
    /// Words: every path that ends, or every block ([`wire::path_trace`]).
    Words,
}

/// How noted values are handled in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSettings {
    expression: [u8; MAX_EXPRESSION],
    len: u32,
    seed: u64,
}

impl EventSettings {
    /// Has them go through a compressor with this seed; an empty expression lets them go as they
    /// are. `None` if the expression is too long.
    #[must_use]
    pub fn new(expression: &str, seed: u64) -> Option<EventSettings> {
        let mut bytes = [0; MAX_EXPRESSION];
        bytes.get_mut(..expression.len())?.copy_from_slice(expression.as_bytes());
        Some(EventSettings { expression: bytes, len: expression.len() as u32, seed })
    }

    pub(crate) fn words(&self) -> [u64; MAX_EXPRESSION / 8] {
        let mut words = [0; MAX_EXPRESSION / 8];
        for (word, bytes) in words.iter_mut().zip(self.expression.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}
