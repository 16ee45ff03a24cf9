//! What is known about the indirect jumps of a function.

use std::fmt;

use image::{Svma, SvmaRange};

/// An indirect jump and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndirectJump {
    /// Address of the jump instruction.
    pub at: Svma,
    /// Where it goes.
    pub resolution: Resolution,
}

impl IndirectJump {
    /// Whether it is known where the jump goes.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        !matches!(self.resolution, Resolution::Unresolved(_))
    }
}

/// Where an indirect jump goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// To an entry of a table.
    Table(JumpTable),
    /// Out of the function, at the stack height of its entry, through a pointer.
    TailCall {
        /// The constant memory address of the pointer, if it has one: for PLT stubs, the GOT slot.
        slot: Option<Svma>,
    },
    /// Not known.
    Unresolved(Reason),
}

/// A jump table, or several that one jump can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// Distinct targets, ascending.
    pub targets: Vec<Svma>,
    /// Number of entries read.
    pub n_entries: u32,
    /// How the number of entries is known.
    pub bound: Bound,
    /// Memory that the entries were read from.
    pub data: Vec<SvmaRange>,
}

/// How the length of a jump table is known, most trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The code compares the index with a constant.
    Compared,
    /// The index is masked or loaded from a narrow variable; the table may be shorter, and was read
    /// while entries made sense.
    Width,
    /// The table was read while entries made sense.
    Scanned,
}

/// Why an indirect jump could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The target comes from a pointer, but a stack frame is in place, so that it is not a tail
    /// call.
    PointerInFrame,
    /// The target is computed in a way that is not a table look-up.
    NotATable,
    /// It looks like a table look-up, but an entry within the bound leads nowhere.
    BadEntry,
    /// Some ways to the jump bring a table entry, others a pointer.
    Mixed,
    /// No known flow reaches the jump, so that nothing is known about its target.
    Unreached,
    /// The target depends on a register that a call before it may have changed, as far as is known
    /// about the callee.
    BehindCall,
    /// The function is too intricate for the time that one function is given.
    TooComplex,
}

impl Reason {
    /// All reasons, in the order in which reports list them.
    pub const ALL: [Reason; 7] = [
        Reason::PointerInFrame,
        Reason::NotATable,
        Reason::BadEntry,
        Reason::Mixed,
        Reason::Unreached,
        Reason::BehindCall,
        Reason::TooComplex,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::PointerInFrame => "pointer, with a stack frame in place",
            Reason::NotATable => "computed, not a table look-up",
            Reason::BadEntry => "table entry leads nowhere",
            Reason::Mixed => "table or pointer, depending on the way",
            Reason::Unreached => "no known flow reaches it",
            Reason::BehindCall => "register that a call may have changed",
            Reason::TooComplex => "function too intricate",
        })
    }
}
