//! What is wrong with an image that could be read all the same.
//!
//! A damaged or unusual file gives a partial image. Each kind of damage is counted once per
//! occurrence, so that a report can say how much is missing and why, and a test can require that
//! nothing is.

use std::fmt;

/// One kind of damage and how often it was met.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What was met.
    pub kind: ProblemKind,
    /// How often.
    pub count: u64,
}

/// Kinds of damage.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The program header table lies outside the file.
    ProgramHeaders,
    /// A segment's bytes lie beyond the end of the file; it was cut.
    SegmentTruncated,
    /// A segment wraps around, overlaps another or maps file bytes mapped many times already; it
    /// was left out.
    SegmentInvalid,
    /// The section header table lies outside the file.
    SectionHeaders,
    /// An executable section is not mapped by a segment, or overlaps another; it was left out.
    CodeSection,
    /// A relocation table lies outside the image.
    RelocationTable,
    /// A symbol table or its strings lie outside the file.
    SymbolTable,
    /// A function symbol points outside the image; it was left out.
    SymbolOutside,
    /// A symbol's name is not terminated, too long or not UTF-8; it was left out.
    SymbolName,
    /// The unwind table ends inside an entry.
    FrameTable,
    /// An unwind entry cannot be read; it was left out.
    FrameInvalid,
    /// An unwind entry describes no code; it was left out.
    FrameOutside,
    /// Two unwind entries start at the same address; the first was kept.
    FrameDuplicate,
    /// An unwind entry runs into the next one; it was cut there.
    FrameOverlap,
    /// The embedded symbol table (`.gnu_debugdata`) cannot be read.
    DebugData,
}

impl ProblemKind {
    fn description(self) -> &'static str {
        match self {
            ProblemKind::ProgramHeaders => "program header table outside the file",
            ProblemKind::SegmentTruncated => "segment cut off by the end of the file",
            ProblemKind::SegmentInvalid => "segment with impossible addresses, left out",
            ProblemKind::SectionHeaders => "section header table outside the file",
            ProblemKind::CodeSection => "executable section not mapped or overlapping, left out",
            ProblemKind::RelocationTable => "relocation table outside the image",
            ProblemKind::SymbolTable => "symbol table outside the file",
            ProblemKind::SymbolOutside => "function symbol outside the image, left out",
            ProblemKind::SymbolName => "symbol with an unreadable name, left out",
            ProblemKind::FrameTable => "unwind table cut off",
            ProblemKind::FrameInvalid => "unwind entry unreadable, left out",
            ProblemKind::FrameOutside => "unwind entry outside the code, left out",
            ProblemKind::FrameDuplicate => "unwind entry for an address already described, left out",
            ProblemKind::FrameOverlap => "unwind entry overlapping the next, cut",
            ProblemKind::DebugData => "embedded symbol table (.gnu_debugdata) unreadable",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count, self.kind.description())
    }
}

/// The problems met so far, one entry per kind, in the order of first occurrence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, kind: ProblemKind) {
        match self.0.iter_mut().find(|problem| problem.kind == kind) {
            Some(problem) => problem.count += 1,
            None => self.0.push(Problem { kind, count: 1 }),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}
