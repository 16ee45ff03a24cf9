//! What probes of the present function leave to be written behind its code: where they go, and what
//! must be known there.
//!
//! Each kind is written by who has left it.

use flow::liveness::LiveSet;

use super::{Original, Stub};
use crate::asm::Label;
use crate::memory::Operand;

/// A probe that has filled the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullEvents {
    /// Where the probe goes.
    pub label: Label,
    /// Where it goes on.
    pub back: Label,
    pub original: Original,
    /// What it has saved and not restored.
    pub saved: u8,
}

/// A probe that has not found its line where it was used last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherLine {
    /// Where the probe goes.
    pub label: Label,
    /// Where it goes on.
    pub back: Label,
    pub at: Original,
    pub operand: Operand,
    /// If the operand is relative to the instruction pointer: its target.
    pub target: Option<i64>,
    pub size: u32,
    /// What the probe has saved and not restored.
    pub saved: u8,
    pub keeps_flags: bool,
}

/// A path with cells of its own that has ended, and has missed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissedEnd {
    pub label: Label,
    pub back: Label,
    pub original: Original,
    pub live: LiveSet,
    /// What is saved and not restored.
    pub saved: u8,
    pub cell: u32,
    pub id_offset: i32,
}

/// What paths are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The function with this key.
    Function(u32),
    /// The thread's context.
    Context,
    /// The indirect call with this key: in place of a path, the target is counted.
    Call(u32),
}

/// A path that ends: the register plus `id_offset`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub owner: Owner,
    pub id_offset: i32,
    /// Where the program is, and what it needs there.
    pub original: Original,
    pub live: LiveSet,
}

/// A path end that goes on behind the function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherEnd {
    pub label: Label,
    pub back: Label,
    pub ended: Ended,
    /// What is saved there.
    pub saved: u8,
    /// Whether `rcx` has what is counted, and `rax` what the path has of the metric.
    pub has_metric: bool,
}

/// A check that goes to the other version, to be written behind the function.
#[derive(Debug)]
pub(crate) struct Switch {
    pub label: Label,
    pub original: Original,
    /// What the probe has saved.
    pub saved: u8,
    pub stub: Stub,
}
