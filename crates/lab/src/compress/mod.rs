//! Event streams, and what compressors make of them: claims S3 to S9.
//!
//! - [`stream`]: the file of a stream.
//! - [`synthetic`]: streams of a formula.
//! - [`noted`]: what strobe notes of real programs.
//! - [`replay`]: a stream through compressors, with error and messages as it goes.
//! - [`report`]: tables and plots of chosen compressors.
//! - [`claims`]: the tables of the claims; `verdicts`: whether a stream agrees with the paper.

pub mod claims;
mod measured;
pub mod noted;
pub mod replay;
pub mod report;
pub mod stream;
pub mod synthetic;
mod verdicts;
