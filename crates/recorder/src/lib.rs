//! The recording engine: runs a program, moves its threads into copies of its code, and makes a
//! profile of what they did.
//!
//! ```text
//!    Plan --start--> Recorder --step, step, ...--> finish --> Recorded { profile, facts, warnings }
//!                      |
//!                      session: processes join, are drained, end
//!                        |-- translation: copies of modules, in the background, with a cache on disk
//!                        |-- reader, one per process: samples (bursts) or counters (exact) --> sums
//!                        '-- budget: how often threads tick, and how long bursts are
//! ```
//!
//! A way of recording is a type ([`Mode`]); what only one of them needs is inside it, and one
//! `Reader` knows what its processes leave behind. No step blocks, whatever a process does: one
//! that has ended is a state that later steps advance.
//!
//! The crate prints nothing and knows no terminal. What users are told is made from [`RunFacts`]
//! and [`Warning`]s by the program that uses it.
#![forbid(unsafe_code)]

mod burst_log;
mod bursts;
pub mod cache;
mod counted;
mod error;
mod exact;
pub mod facts;
mod left_alone;
mod noted;
mod numbers;
mod perturbation;
mod plan;
mod process;
mod reader;
mod recorder;
mod requests;
mod rows;
mod session;
mod sums;
mod threads;
mod translation;
mod unwind;
mod wake;
pub mod warm;

pub use bursts::check::Findings;
pub use bursts::tally::{Cost, Tally, Yields, end_reason_name, outcome_name};
pub use counted::CountedTotals;
pub use error::{Error, Result};
pub use exact::coverage::Coverage;
pub use exact::{Accesses, Stay};
pub use facts::{ModeFacts, RunFacts};
pub use left_alone::LeftAlonePrograms;
pub use noted::converge::Converged;
pub use numbers::thousands;
pub use perturbation::{Perturbation, Taken};
pub use plan::{
    BurstProbe, Bursts, Counted, Exact, GuideFile, Mode, Noting, Pep, Plan, STACK_BYTES, Sampling, Ticks, Window,
    Wishes,
};
pub use recorder::{Manner, Progress, Recorded, Recorder, Status, Warning, own_cpu_time};
pub use requests::Requests;
pub use sums::Counters;
pub use threads::Threads;
