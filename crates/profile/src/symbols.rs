//! Names and source lines, as a profile's readers ask for them. Who answers opens files; nothing
//! here does.

use crate::model::ModuleId;

/// One level of the code at an address: the function itself, or one that was inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name for people, demangled.
    pub function: String,
    /// Linkage name, if known.
    pub linkage_name: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line in it; 0 if unknown.
    pub line: u32,
    /// DWARF discriminator of the line.
    pub discriminator: u32,
    /// Line at which the function begins; 0 if unknown.
    pub function_line: u32,
}

/// Answers what the source of an address is.
pub trait Symbols {
    /// Frames at an address of a module's file, innermost first; the last is the function that the
    /// code belongs to. Empty if nothing is known.
    fn frames(&self, module: ModuleId, address: u64) -> Vec<SourceFrame>;
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn frames(&self, _module: ModuleId, _address: u64) -> Vec<SourceFrame> {
        Vec::new()
    }
}
