//! Copies of a module's functions that record which blocks they execute.
//!
//! [`translate`] takes a module and its control flow and writes a second version of every function,
//! the *copy*: the same instructions, and a probe at the start of every block. A thread can be
//! moved between the original and the copy at any original instruction, because both see the same
//! registers, the same stack (return addresses are original ones) and the same memory. The result
//! is inert: bytes and tables that can be stored ([`ModuleCopy::to_bytes`]) and that fit any load
//! address ([`ModuleCopy::place`]). What the copy reads and writes at run time is laid out in
//! [`wire`].
//!
//! ```text
//!    stubs    function copies                          literals
//!    +------+ +---------------------------------+ ... +------------------+
//!    | exit | | probe, instructions, probe, ... |     | original return  |
//!    | miss | | second probes, exits            |     | addresses        |
//!    +------+ +---------------------------------+ ... +------------------+
//!       16-byte aligned
//! ```
//!
//! That a copy does what the original does is shown by the crate `emit-verify`, which shares no
//! analysis with this one.
//!
//! | module | what it writes |
//! |---|---|
//! | `function`, `blocks` | one function: probes, bodies |
//! | `transfers` | the ends of blocks |
//! | `probe`, `system_call`, `exits`, `stubs` | code that the original does not have |
//! | `saving`, `look_up`, `memory` | what such code has in common |
//! | `events` | what notes values that instructions load, and others |
//! | `cache` | what simulates a data cache |
//! | `exact` | the same for copies that are never left |
//! | `link` | the module, from the functions |
//! | `place`, `codec` | the module at an address, or in a file |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asm;
mod blocks;
mod cache;
mod cell;
mod chunk;
mod classify;
mod codec;
mod copy;
mod error;
mod events;
mod exact;
mod exits;
mod function;
mod link;
mod look_up;
mod memory;
mod module;
mod operand;
mod place;
mod probe;
mod saving;
mod statistics;
mod stubs;
mod system_call;
mod transfers;

pub use cache::Cache;
pub use cell::{Cell, CellKind};
pub use chunk::{BlockAccesses, Original, Stretch};
pub use codec::Layout;
pub use copy::{Entry, ModuleCopy};
pub use error::Error;
pub use events::{Candidate, Events, Selection};
pub use exact::{Contexts, Counting, Metric, Trigger};
pub use link::{translate, translate_selected};
pub use place::Position;
pub use statistics::{SkipReason, Skipped, Statistics};

use image::{Image, Svma};
use wire::clusters::Version;

/// How a module is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The cluster that the module is in, less than [`wire::clusters::N_CLUSTERS`].
    pub cluster: usize,
    /// What probes do.
    pub probe: Probe,
    /// What is noted beside.
    pub events: Events,
}

/// What probes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Append a record for every block.
    Trace,
    /// Only count down the checks of the burst: the cost of running in a copy, apart from that of
    /// recording.
    None,
    /// Count, in copies that are never left.
    Exact(Counting),
}

impl Probe {
    /// Whether copies are never left.
    #[must_use]
    pub fn stays(self) -> bool {
        matches!(self, Probe::Exact(_))
    }

    /// Whether calling contexts are kept.
    #[must_use]
    pub fn has_contexts(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_contexts())
    }

    /// Whether a metric is charged to calling contexts.
    #[must_use]
    pub fn has_context_metric(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_context_metric())
    }

    /// Whether contexts tell call sites apart.
    #[must_use]
    pub fn has_call_sites(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_call_sites())
    }

    /// Whether indirect calls count whom they call.
    #[must_use]
    pub fn has_callees(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_callees())
    }

    /// What is added up, if anything is.
    #[must_use]
    pub fn metric(self) -> Option<Metric> {
        match self {
            Probe::Exact(counting) => counting.metric(),
            Probe::Trace | Probe::None => None,
        }
    }

    /// The data cache that is simulated.
    #[must_use]
    pub fn cache(self) -> Option<Cache> {
        match self.metric()? {
            Metric::Misses(cache) => Some(cache),
            Metric::Cycles => None,
        }
    }

    /// Whether paths have a metric.
    #[must_use]
    pub fn has_path_metric(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_path_metric())
    }

    /// Whether paths are counted only when samples are wanted.
    #[must_use]
    pub fn samples_paths(self) -> bool {
        self == Probe::Exact(Counting::SampledPaths)
    }

    /// Whether paths go into a trace.
    #[must_use]
    pub fn traces_paths(self) -> bool {
        self == Probe::Exact(Counting::TracedPaths)
    }

    /// Whether paths are counted.
    #[must_use]
    pub fn has_paths(self) -> bool {
        matches!(self, Probe::Exact(counting) if counting.has_paths())
    }

    /// Returns what starts and ends bursts, if a count of checks does.
    #[must_use]
    pub fn trigger(self) -> Option<Trigger> {
        match self {
            Probe::Exact(counting) => counting.trigger(),
            Probe::Trace | Probe::None => None,
        }
    }

    /// Returns the version that the copies are.
    #[must_use]
    pub fn version(self) -> Version {
        self.trigger().map_or(Version::Instrumented, |trigger| trigger.version)
    }

    /// Whether control that comes over a known edge, or through a jump table, need not do what
    /// arrivals by address do.
    #[must_use]
    pub fn tells_arrivals_apart(self) -> bool {
        self.has_paths() || self.has_contexts()
    }
}

/// The address that offsets in a copy are relative to: the lowest address of the image, rounded
/// down to a page.
#[must_use]
pub fn image_base(image: &Image<'_>) -> Svma {
    let lowest = image.segments().first().map_or(0, |segment| segment.range.start.0);
    Svma(lowest & !(wire::PAGE - 1))
}
