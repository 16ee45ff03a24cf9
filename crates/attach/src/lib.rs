//! The live side of a recording: processes, and the memory that is shared with them.
//!
//! Everything here runs in the agent. A program is started ([`spawn`]) with the runtime preloaded;
//! the runtime says hello on a socket ([`Listener`]), and the [`Process`] that comes of it owns the
//! memory that both sides see: settings and counters, areas for copies with their maps, and the
//! streams of samples.
//!
//! ```text
//!    Listener --accept--> Process --modules--> MappedModule       which files are where
//!                            |----place, unplace                  copies into the target
//!                            |----drain, salvage--> SampleRef     samples out of it
//!                            |----drain_events--> Event           what probes have noted
//!                            |----drain_words --> u64             words of a path trace or block log
//!                            '----set_*, counters                 settings in, counters out
//! ```
//!
//! **The target is not trusted.** It is somebody else's program and may be broken. Whatever the
//! agent reads from shared memory is copied out first and checked after; the files are sealed so
//! that they cannot shrink under the agent; no message is waited for without a limit.
//!
//! **Shared memory is atomics.** The agent never makes a reference to plain data in memory that
//! another process writes. All access goes through slices of atomic integers, at offsets that come
//! from `wire`, and the unsafe code for that is in one file.
#![warn(missing_docs)]

mod area;
mod breakpoints;
mod control;
mod copies;
mod drain;
mod error;
mod events;
mod join;
mod launch;
mod launchability;
mod layout;
mod listener;
mod maps;
mod memory;
mod modules;
mod needed;
mod own;
mod path_trace;
mod perf;
mod place;
pub mod probe;
mod process;
mod procfs;
mod ring;
mod settings;
mod signal_set;
mod signals;
mod target;
mod thread_exits;
mod witness;

pub use breakpoints::{Breakpoints, Hits, MOST_ADDRESSES, MOST_HITS};
pub use control::{Counters, ExactCounters};
pub use drain::{Drained, SampleRef};
pub use error::{Error, Result};
pub use events::EventCounters;
pub use launch::{Injection, Launch, command, find_program, ignored_signals, own_filters, spawn};
pub use launchability::{Launchability, identify, probe_binary};
pub use listener::{Joined, Listener};
pub use modules::{MappedModule, NoCopyReason, VDSO};
pub use needed::{Needed, needed_libraries};
pub use own::{die_by, stop, time_stamp};
pub use perf::PerfTicks;
pub use place::{FirstCounters, Placed, Reserved};
pub use process::{PathCount, Process};
pub use procfs::Hindrance;
pub use settings::{EventSettings, MetricSource, Mode, Noted, PathEnds, Settings};
pub use signals::{PassingOn, Signals};
pub use target::{Exit, ResourceUse, Target};
pub use thread_exits::ThreadExitRecord;
