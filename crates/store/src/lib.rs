//! The profile file: SQLite, written while a program is being recorded.
//!
//! The truth of a recording is in memory; [`Recording::write`] makes the file equal to it, in one
//! transaction, and touches only rows that changed. What has been written survives anything. The
//! schema is in `schema.sql`, which is its documentation.
//!
//! **Why a rollback journal.** Between two writes the file is complete in itself, to be copied or
//! read by anyone: there is no write-ahead log beside it that holds half of it. While a write goes
//! on, readers wait for a moment, as the writer does for them. A recorder that is killed in the
//! middle of a write leaves a journal from which the next reader restores the state before it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod fields;

mod reading;
mod recording;
mod records;
mod snapshot;
mod tables;
mod varint;

pub mod burst_log;
pub mod path_trace;

pub use error::Error;
pub use reading::{count, facts, open, open_part};
pub use recording::{ProcessId, Recording, save};
pub use tables::Extent;

/// Version of the schema, kept in the file as `PRAGMA user_version`.
pub const SCHEMA_VERSION: i32 = 11;

/// The oldest version that can be read.
pub(crate) const OLDEST_VERSION: i32 = 9;

/// What a profile file says in `PRAGMA application_id`: "strb".
pub const APPLICATION_ID: i32 = 0x7374_7262;
