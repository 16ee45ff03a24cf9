//! Reports about a module or a function, as plain values.
//!
//! Text, Graphviz and JSON all print these, so that no view knows more than another. Serialized
//! they are the JSON that `docs/inspect-json.md` describes: a field may be added at any time; to
//! rename, remove or redefine one, raise [`SCHEMA`].

mod function;
mod module;
mod numbering;
mod verification;

pub use function::{BlockReport, EdgeReport, FunctionReport};
pub use module::{ModuleReport, PathBucket};
pub use numbering::{Numbering, PathReport, PathsReport};
pub use verification::Fault;

use image::{SourceFrame, Svma, SvmaRange};
use serde::{Serialize, Serializer};

/// Version of the JSON.
pub const SCHEMA: u32 = 1;

/// An address as the file states it; in JSON a string such as `"0x1a2b0"`, since JSON readers round
/// large numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub Svma);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A half-open range of addresses.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Range {
    pub start: Address,
    pub end: Address,
}

impl From<SvmaRange> for Range {
    fn from(range: SvmaRange) -> Range {
        Range { start: Address(range.start), end: Address(range.end) }
    }
}

/// Something that occurs, and how often.
#[derive(Debug, Serialize)]
pub struct Count {
    pub what: String,
    pub count: u64,
}

impl Count {
    pub fn new(what: impl ToString, count: usize) -> Count {
        Count { what: what.to_string(), count: count as u64 }
    }
}

/// A place in the source, with the function it was inlined from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourcePlace {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl From<SourceFrame> for SourcePlace {
    fn from(frame: SourceFrame) -> SourcePlace {
        SourcePlace { function: frame.function, file: frame.file, line: frame.line }
    }
}
