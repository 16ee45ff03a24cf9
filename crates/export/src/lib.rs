//! Profiles in the formats of other tools: one module per format, each a function from a
//! [`Profile`] to bytes.
//!
//! **Numbers.** Profiles hold estimates, most formats whole numbers. A number that is not zero
//! never becomes zero: it is rounded to the nearest whole number, but to at least 1 (`round`). Each
//! module says in which unit it writes.
//!
//! **Stacks.** A profile knows calling contexts by function. Where a format wants addresses, a
//! caller is shown at the place from which it calls the callee most often (`stacks`), and the time
//! of a function is divided over its blocks by instructions executed (`costs`): both are
//! inferences, not observations, and both keep totals as they are. Kernel time appears as a frame
//! `[kernel]` of its own. Recursive calls are folded in a profile, so that no function is twice in
//! one stack.
//!
//! **Input.** A profile must keep its invariants (`Profile::verify`); handles are used as indices.
//! Given that, nothing here panics. Names may hold anything: every module says what it does with
//! characters that its format cannot carry.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bolt_fdata;
pub mod bolt_preagg;
pub mod callgrind;
pub mod chrome_trace;
pub mod csv;
pub mod firefox;
pub mod folded;
pub mod llvm_sample;
pub mod perf_script;
pub mod pprof;
pub mod propeller;
pub mod speedscope;

mod bolt;
mod costs;
mod error;
mod format;
mod labels;
mod options;
mod protobuf;
mod round;
mod stacks;

use std::io;

use profile::{Profile, Symbols};

pub use error::{Error, UnknownName};
pub use format::Format;
pub use options::{BinaryFacts, NoBinaryFacts, Options, SymbolOffset};

/// Writes a profile in a format. `out` should be buffered.
///
/// # Errors
/// If `out` fails, or if the format needs facts about the binary that `options` does not give.
pub fn write(
    format: Format,
    profile: &Profile,
    symbols: &dyn Symbols,
    options: &Options<'_>,
    out: &mut dyn io::Write,
) -> Result<(), Error> {
    match format {
        Format::Pprof => pprof::write(profile, symbols, out)?,
        Format::Folded => folded::write(profile, symbols, out)?,
        Format::PerfScript => perf_script::write(profile, symbols, out)?,
        Format::Callgrind => callgrind::write(profile, symbols, out)?,
        Format::Firefox => firefox::write(profile, symbols, out)?,
        Format::Speedscope => speedscope::write(profile, symbols, out)?,
        Format::ChromeTrace => chrome_trace::write(profile, symbols, out)?,
        Format::BoltFdata => bolt_fdata::write(profile, options, out)?,
        Format::BoltPreagg => bolt_preagg::write(profile, options, out)?,
        Format::LlvmSample => llvm_sample::write(profile, symbols, out)?,
        Format::PropellerBb => propeller::write_clusters(profile, options, out)?,
        Format::PropellerPaths => propeller::write_paths(profile, options, out)?,
        Format::Csv => csv::write(profile, symbols, options.table, out)?,
    }
    Ok(())
}
