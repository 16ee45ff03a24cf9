//! The profile file: SQLite, written while a program is being recorded.
//!
//! A [`Recording`] collects counts in memory and adds them to the file in one transaction at each [`Recording::flush`]. What has
//! been flushed survives anything; a killed recording leaves a valid file. The schema is in `schema.sql`, which is its documentation.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod reading;
mod recording;

pub use error::Error;
pub use reading::{count, facts};
pub use recording::{Address, BurstCounts, ModuleId, ProcessId, Recording, TickKey};

/// Version of the schema, kept in the file as `PRAGMA user_version`.
pub const SCHEMA_VERSION: i32 = 1;

/// What a profile file says in `PRAGMA application_id`: "strb".
pub const APPLICATION_ID: i32 = 0x7374_7262;
