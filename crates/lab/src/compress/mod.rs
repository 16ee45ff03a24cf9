//! Event streams, and what compressors make of them: claims S3 to S9.
//!
//! - [`stream`]: the file of a stream.
//! - [`synthetic`]: streams of a formula.
//! - [`trace`]: branches and calls of real programs, from a valgrind trace; [`noted`]: what strobe notes of them.
//! - [`replay`]: a stream through compressors, with error and messages as it goes.
//! - [`report`]: tables and plots of chosen compressors.
//! - [`claims`]: the tables of the claims; `verdicts`: whether a stream agrees with the paper.

pub mod claims;
pub mod noted;
pub mod replay;
pub mod report;
pub mod stream;
pub mod synthetic;
pub mod trace;
mod verdicts;

use std::path::Path;

/// Runs `program`, a piece of shell that starts one, in `dir`, and records its events.
pub fn record(name: &str, program: &str, dir: &Path, wanted: trace::Wanted) -> anyhow::Result<stream::Stream> {
    match noted::options(wanted.kind) {
        Some(options) => noted::record(&crate::transparency::strobe_program()?, options, name, program, dir, wanted),
        None => trace::record(name, program, dir, wanted),
    }
}
