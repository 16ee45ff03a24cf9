//! One observation against the analysis.
//!
//! Every jump and call that ran gets a verdict. *Known* means that the analysis says so: an edge of
//! the graph, the callee of a direct call, or an indirect call, which may go anywhere. *Artefact*
//! means that callgrind shows something that is not a jump. Everything else is an exception, and an
//! exception is a bug in the analysis unless it is shown to be something else.

use std::fmt;

use flow::Transfer;
use flow::cfg::EdgeKind;
use flow::indirect::{Reason, Resolution};
use iced_x86::Instruction;
use image::Svma;

use super::index::{BlockEnd, Index};

/// What the analysis says about an observed jump or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As the analysis says.
    Known(Known),
    /// No jump, but a habit of callgrind.
    Artefact(Artefact),
    /// An indirect jump that the analysis declares to be unresolved.
    Unresolved(Reason),
    /// Not what the analysis says.
    Exception(Exception),
}

/// How the analysis knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// A direct jump, taken.
    Jump,
    /// The way past a conditional jump.
    FallThrough,
    /// The callee of a direct call.
    Call,
    /// A direct call or jump to a linkage stub, which leads on to the symbol's definition.
    ThroughPlt,
    /// A direct call or jump to a start-up or termination section.
    IntoStartup,
    /// An indirect call.
    IndirectCall,
    /// A target listed for an indirect jump.
    TableEntry,
    /// An indirect jump that leaves its function as a tail call.
    TailCall,
}

/// What callgrind shows that is not a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Artefact {
    /// A string instruction repeats itself.
    Repeat,
    /// A return went elsewhere than to the caller, as context switches do.
    ReturnElsewhere,
    /// Control ran on into the next function.
    RunsOn,
}

/// A disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// An instruction ran at an address where the analysis has none.
    NotAnInstruction,
    /// No block of the graph ends with the jump that ran.
    NoBlockEnds,
    /// A direct jump or call went elsewhere than its operand says.
    OtherTarget,
    /// A direct jump has no edge to its target.
    NoEdge,
    /// An indirect jump went to a target that is not listed.
    UnlistedTarget,
    /// An indirect jump is called a tail call, but its target is inside the function.
    TailCallInside,
    /// A call is said not to return, but it did.
    Returned,
    /// An instruction that only faults was followed by another.
    TrapContinued,
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Exception::NotAnInstruction => "ran, but is not an instruction of the analysis",
            Exception::NoBlockEnds => "no block ends with this jump",
            Exception::OtherTarget => "a direct jump or call went elsewhere",
            Exception::NoEdge => "no edge for this jump",
            Exception::UnlistedTarget => "target of an indirect jump is not listed",
            Exception::TailCallInside => "\"tail call\" went to a target inside the function",
            Exception::Returned => "call returned, but is said not to",
            Exception::TrapContinued => "control went on after a trap",
        })
    }
}

/// Where a jump or call led.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// To an address of the same file.
    Here(Svma),
    /// Into another file.
    OtherFile,
    /// Into code that callgrind knows no file for: linkage stubs, start-up and termination
    /// sections.
    NoFile,
}

impl Target {
    /// The address, in the same file.
    #[must_use]
    pub fn here(self) -> Option<Svma> {
        match self {
            Target::Here(at) => Some(at),
            Target::OtherFile | Target::NoFile => None,
        }
    }
}

/// Judges a jump or call.
#[must_use]
pub fn judge(index: &Index<'_>, from: Svma, target: Target) -> Verdict {
    let to = target.here();
    if !index.is_instruction(from) {
        return Verdict::Exception(Exception::NotAnInstruction);
    }
    let Some(insn) = index.instruction(from) else { return Verdict::Exception(Exception::NotAnInstruction) };
    let next = Svma(insn.next_ip());
    match Transfer::of(&insn) {
        Transfer::Next if to == Some(from) => Verdict::Artefact(Artefact::Repeat),
        Transfer::Next if to == Some(next) => Verdict::Artefact(Artefact::RunsOn),
        Transfer::Next => Verdict::Exception(Exception::OtherTarget),
        Transfer::Branch(_) if to == Some(next) => direct(index, from, next, Known::FallThrough),
        Transfer::Jump(operand) | Transfer::Branch(operand) if to == Some(operand) => {
            direct(index, from, operand, Known::Jump)
        }
        Transfer::Call(operand) if to == Some(operand) => ends_block(index, from, Known::Call),
        Transfer::Call(operand) | Transfer::Jump(operand) | Transfer::Branch(operand) if index.is_plt(operand) => {
            ends_block(index, from, Known::ThroughPlt)
        }
        Transfer::Call(operand) | Transfer::Jump(operand)
            if target == Target::NoFile && index.is_outside_text(operand) =>
        {
            ends_block(index, from, Known::IntoStartup)
        }
        Transfer::Call(_) | Transfer::Jump(_) | Transfer::Branch(_) => Verdict::Exception(Exception::OtherTarget),
        Transfer::IndirectCall => ends_block(index, from, Known::IndirectCall),
        Transfer::IndirectJump => indirect(index, &insn, to),
        Transfer::Return => Verdict::Artefact(Artefact::ReturnElsewhere),
        Transfer::Trap => Verdict::Exception(Exception::TrapContinued),
    }
}

fn ends_block(index: &Index<'_>, from: Svma, known: Known) -> Verdict {
    match index.block_ends(from).next() {
        Some(_) => Verdict::Known(known),
        None => Verdict::Exception(Exception::NoBlockEnds),
    }
}

fn direct(index: &Index<'_>, from: Svma, target: Svma, known: Known) -> Verdict {
    let mut ends = index.block_ends(from).peekable();
    if ends.peek().is_none() {
        return Verdict::Exception(Exception::NoBlockEnds);
    }
    let leads_there =
        |end: BlockEnd<'_>| end.ways_out().any(|way| way.target == Some(target) && way.kind != EdgeKind::Trap);
    if ends.any(leads_there) { Verdict::Known(known) } else { Verdict::Exception(Exception::NoEdge) }
}

/// Where functions share the jump, one that knows the target is enough.
fn indirect(index: &Index<'_>, insn: &Instruction, to: Option<Svma>) -> Verdict {
    let from = Svma(insn.ip());
    let verdicts = index.block_ends(from).map(|end| indirect_in(end, from, to));
    verdicts.min().unwrap_or(Verdict::Exception(Exception::NoBlockEnds))
}

fn indirect_in(end: BlockEnd<'_>, from: Svma, to: Option<Svma>) -> Verdict {
    let listed = |to| end.ways_out().any(|way| way.kind == EdgeKind::JumpTable && way.target == Some(to));
    if to.is_some_and(listed) {
        return Verdict::Known(Known::TableEntry);
    }
    let resolution = end.function.indirect_jumps.iter().find(|jump| jump.at == from).map(|jump| &jump.resolution);
    match resolution {
        Some(Resolution::TailCall { .. }) if to.is_some_and(|to| end.is_inside(to)) => {
            Verdict::Exception(Exception::TailCallInside)
        }
        Some(Resolution::TailCall { .. }) => Verdict::Known(Known::TailCall),
        Some(Resolution::Unresolved(reason)) => Verdict::Unresolved(*reason),
        Some(Resolution::Table(_)) | None => Verdict::Exception(Exception::UnlistedTarget),
    }
}
