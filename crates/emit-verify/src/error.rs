//! What can be wrong with a copy.

use std::fmt;

use emit::Error;
use image::Svma;
use wire::sample::EndReason;

/// A difference between a copy and the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The block, function or address that it concerns.
    pub at: Svma,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a copy. Places are offsets in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It cannot be placed.
    Placement(Error),
    /// Two twins of one address.
    TwoTwins,
    /// An instruction without a twin, or with one of another length.
    NoTwin,
    /// A twin of something that is no instruction.
    StrayTwin,
    /// The runs do not cover the copy, or are not sorted.
    Runs,
    /// An instruction differs from the original one.
    Instruction {
        /// Where it is.
        at: u32,
    },
    /// An instruction that has no place in a probe, or not there.
    Probe {
        /// Where it is.
        at: u32,
    },
    /// A probe that does not end.
    Endless {
        /// Where it starts.
        at: u32,
    },
    /// A twin is reached with a register or flag that is not the program's.
    Clobbered {
        /// Where the twin is.
        at: u32,
    },
    /// The thread would be recovered to another state.
    Recovery {
        /// The interrupted address.
        at: u32,
    },
    /// A burst ends for a reason that is not the true one.
    Reason {
        /// Where it ends.
        at: u32,
        /// What it says.
        reason: Option<EndReason>,
    },
    /// A transfer leads to the wrong place.
    Transfer {
        /// Where it is.
        at: u32,
    },
    /// A probe that does not look at the limit, or does not count, where it must.
    Unchecked {
        /// Where it is.
        at: u32,
    },
    /// A cycle without a check.
    Cycle,
    /// A last check that does not lead to the other version as it must.
    Switch {
        /// Where it is gone.
        at: u32,
    },
    /// Cells are listed twice, not at all, or for something that does not exist.
    Cells,
    /// The paths of a function cannot be counted as the copy lists them.
    Paths,
    /// Something else is counted than must be.
    Counted {
        /// Where it would have to be complete.
        at: u32,
    },
    /// A call does not note where its return leads, or notes it where nothing must be noted.
    Note {
        /// Where it is gone.
        at: u32,
    },
    /// A jump through a table leaves no row of numbers, or a wrong one.
    Row {
        /// Where the jump is gone.
        at: u32,
    },
    /// Something else is noted than the instruction has loaded, or nothing.
    Event {
        /// Where it would have to be noted.
        at: u32,
    },
    /// The data cache is told of something else than the instruction accesses.
    Access {
        /// Where it would have to have been told.
        at: u32,
    },
    /// Code that nothing leads to, or padding and literals that are not what they should be.
    Unreached {
        /// Where it is.
        at: u32,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Placement(error) => write!(f, "{error}"),
            Fault::TwoTwins => write!(f, "two twins of one address"),
            Fault::NoTwin => write!(f, "an instruction has no twin"),
            Fault::StrayTwin => write!(f, "a twin of something that is no instruction"),
            Fault::Runs => write!(f, "the runs do not cover the copy"),
            Fault::Instruction { at } => write!(f, "copy+{at:#x}: not the original instruction"),
            Fault::Probe { at } => write!(f, "copy+{at:#x}: no instruction for a probe"),
            Fault::Endless { at } => write!(f, "copy+{at:#x}: a probe that does not end"),
            Fault::Clobbered { at } => write!(f, "copy+{at:#x}: reached with a clobbered register or flag"),
            Fault::Recovery { at } => write!(f, "copy+{at:#x}: recovered to another state"),
            Fault::Reason { at, reason } => write!(f, "copy+{at:#x}: ends for {reason:?}, which is not the reason"),
            Fault::Transfer { at } => write!(f, "copy+{at:#x}: leads to the wrong place"),
            Fault::Unchecked { at } => write!(f, "copy+{at:#x}: lacks a check"),
            Fault::Cycle => write!(f, "a cycle without a check"),
            Fault::Switch { at } => write!(f, "copy+{at:#x}: leads to the other version in a wrong way"),
            Fault::Cells => write!(f, "cells are listed wrongly"),
            Fault::Paths => write!(f, "paths that cannot be counted as listed"),
            Fault::Counted { at } => write!(f, "copy+{at:#x}: something else is counted than must be"),
            Fault::Note { at } => write!(f, "copy+{at:#x}: the return table is not what it must be"),
            Fault::Row { at } => write!(f, "copy+{at:#x}: no row of numbers, or a wrong one"),
            Fault::Event { at } => write!(f, "copy+{at:#x}: something else is noted than was loaded"),
            Fault::Access { at } => {
                write!(f, "copy+{at:#x}: the data cache is told of something else than is accessed")
            }
            Fault::Unreached { at } => write!(f, "copy+{at:#x}: nothing leads here, and it is no padding"),
        }
    }
}

impl std::error::Error for VerifyError {}
