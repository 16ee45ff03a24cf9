//! Event streams, and what compressors make of them: claims S3 to S9.
//!
//! - [`stream`]: the file of a stream.
//! - [`synthetic`]: streams of a formula.
//! - [`trace`]: streams of real programs, from a valgrind trace.
//! - [`replay`]: a stream through compressors, with error and messages as it goes.
//! - [`report`]: tables and plots of chosen compressors.
//! - [`claims`]: the tables of the claims; `verdicts`: whether a stream agrees with the paper.

pub mod claims;
pub mod replay;
pub mod report;
pub mod stream;
pub mod synthetic;
pub mod trace;
pub mod values;
mod verdicts;
