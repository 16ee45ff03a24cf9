//! What a run is asked to do, as plain values: no defaults left to find, nothing left to parse.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use image::Svma;

pub struct Props {
    pub color: anstream::ColorChoice,
    pub job: Job,
}

pub enum Job {
    Inspect(InspectProps),
    Dump(DumpProps),
}

#[derive(Debug)]
pub struct InspectProps {
    pub module: ModuleProps,
    /// `None`: the module as a whole.
    pub function: Option<FunctionSelector>,
    /// Only with a function.
    pub path: Option<u64>,
    /// Only without one.
    pub verify: bool,
    pub numbering: NumberingProps,
    pub syntax: Syntax,
    pub view: View,
}

#[derive(Debug)]
pub struct DumpProps {
    pub stage: Stage,
    pub module: ModuleProps,
    /// `None`: all functions.
    pub function: Option<FunctionSelector>,
    pub numbering: NumberingProps,
}

#[derive(Debug)]
pub struct ModuleProps {
    pub binary: PathBuf,
    pub n_threads: NonZeroUsize,
    pub use_debug_files: bool,
}

/// How a user names a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionSelector {
    Name(String),
    /// Anywhere inside the function.
    Address(Svma),
}

impl FunctionSelector {
    /// `0x` and hexadecimal digits are an address; anything else is a name.
    pub fn parse(text: &str) -> FunctionSelector {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(address) => FunctionSelector::Address(Svma(address)),
            None => FunctionSelector::Name(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberingProps {
    pub truncation: Truncation,
    pub order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Truncation {
    /// At edges back to a loop header (Ball and Larus)
    BackEdges,
    /// At every edge into a loop header (PEP)
    Headers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Edges in address order
    Classic,
    /// Likely hot edges first, so that they need no addition
    Smart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// Segments, sections, symbols, functions, unwind ranges, problems
    Image,
    /// Blocks, edges, loops, indirect jumps
    Cfg,
    /// Path counts, cuts, additions
    Paths,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Intel,
    Att,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Text,
    Json,
    Dot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        assert_eq!(FunctionSelector::parse("0x1F"), FunctionSelector::Address(Svma(0x1f)));
        for name in ["main", "1f", "0xyz", "0x", "0x11112222333344445"] {
            assert_eq!(FunctionSelector::parse(name), FunctionSelector::Name(name.to_owned()));
        }
    }
}
