//! What a program ran, as tables: functions, blocks, edges, Ball-Larus paths, calls, calling
//! contexts, loops, each with an estimated count or time and its error.
//!
//! The crate knows no ELF and no x86, opens no file and reads no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod accuracy;
pub mod builder;
pub mod code;
pub mod diff;
pub mod error;
pub mod estimate;
pub mod exact;
pub mod merge;
pub mod model;
pub mod query;
mod scale;
mod seen_values;
pub mod symbols;
pub mod verify;

pub use builder::Builder;
pub use code::ModuleCode;
pub use diff::{Diff, diff};
pub use error::Error;
pub use estimate::Estimate;
pub use merge::{Merger, merge};
pub use model::Profile;
pub use scale::scale;
pub use seen_values::of_whole_run;
pub use symbols::Symbols;
