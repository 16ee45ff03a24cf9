//! Counts of one file in the one form in which callgrind's and strobe's can be compared.
//!
//! callgrind's conventions are undone here:
//! * A repeated string instruction is executed once more for each jump of it to itself.
//! * A call or jump through a linkage stub goes to the final target, and the stub's instructions
//!   are added to its own executions. Here it goes where its operand says, and has its own
//!   executions only.
//! * A jump can be shown as a call.
//! * The way past a branch is not shown: it is what of the branch's executions was not taken.
//!
//! Only the section `.text` counts: other code has no file there. Targets of indirect calls, and of
//! indirect jumps that leave their function, strobe does not count: neither side has them here.

use std::collections::HashMap;

use flow::Transfer;
use iced_x86::Instruction;
use image::Svma;
use profile::model::{BlockEnd, EdgeKind, ModuleId, Profile};

use crate::callgrind::{ObjectId, Recording, Transition, UNKNOWN_OBJECT};
use crate::oracle::Index;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// An instruction.
    Instruction(Svma),
    /// A jump and where it led, or the way past a branch.
    Edge(Svma, Svma),
    /// A direct call and the address that it names.
    Call(Svma, Svma),
}

impl Place {
    /// The instruction.
    #[must_use]
    pub fn at(self) -> Svma {
        match self {
            Place::Instruction(at) | Place::Edge(at, _) | Place::Call(at, _) => at,
        }
    }
}

/// How often what happened; nothing that did not.
pub type Counts = HashMap<Place, u64>;

fn add(counts: &mut Counts, place: Place, count: u64) {
    if count != 0 {
        *counts.entry(place).or_default() += count;
    }
}

/// What callgrind counted in a file.
#[must_use]
pub fn of_callgrind(recording: &Recording, id: ObjectId, index: &Index<'_>) -> Counts {
    let object = recording.object(id);
    let mut counts = Counts::new();
    let jumps = object.jumps.iter().map(|(transition, count)| (transition, count.taken));
    let calls = object.calls.iter().map(|(transition, &count)| (transition, count));
    // Executions that are not the instruction's own.
    let mut excess: HashMap<Svma, u64> = HashMap::new();
    let mut taken: HashMap<Svma, u64> = HashMap::new();
    for (&Transition { from, to_object, to }, count) in jumps.chain(calls) {
        let Some(insn) = index.instruction(from).filter(|_| !index.is_outside_text(from)) else { continue };
        let here = Some(to).filter(|&to| to_object == Some(id) && !index.is_outside_text(to));
        // A stub that is not passed over is code without a file.
        let is_passed_over = to_object.is_some_and(|to| recording.object(to).path != UNKNOWN_OBJECT);
        let n_skipped = |operand| if is_passed_over { n_stub_instructions(index, operand) } else { 0 };
        let target = |here: Option<Svma>, operand| here.filter(|_| !index.is_plt(operand)).unwrap_or(operand);
        match Transfer::of(&insn) {
            Transfer::Next if is_repeated(&insn) && here == Some(from) => *excess.entry(from).or_default() += count,
            Transfer::Branch(_) if here == Some(Svma(insn.next_ip())) => {}
            Transfer::Branch(operand) | Transfer::Jump(operand) => {
                *taken.entry(from).or_default() += count;
                *excess.entry(from).or_default() += count * n_skipped(operand);
                add(&mut counts, Place::Edge(from, target(here, operand)), count);
            }
            Transfer::IndirectJump => {
                if let Some(to) = here.filter(|&to| index.is_table_entry(from, to)) {
                    add(&mut counts, Place::Edge(from, to), count);
                }
            }
            Transfer::Call(operand) => {
                *excess.entry(from).or_default() += count * n_skipped(operand);
                add(&mut counts, Place::Call(from, target(here, operand)), count);
            }
            _ => {}
        }
    }
    for (&at, &executed) in &object.executed {
        let Some(insn) = index.instruction(at).filter(|_| !index.is_outside_text(at)) else { continue };
        let executed = executed.saturating_sub(excess.get(&at).copied().unwrap_or(0));
        add(&mut counts, Place::Instruction(at), executed);
        if let Transfer::Branch(_) = Transfer::of(&insn) {
            let passed = executed.saturating_sub(taken.get(&at).copied().unwrap_or(0));
            add(&mut counts, Place::Edge(at, Svma(insn.next_ip())), passed);
        }
    }
    counts
}

/// Instructions of the linkage stub at an address, up to the jump that leaves it; 0 if there is no
/// stub.
fn n_stub_instructions(index: &Index<'_>, stub: Svma) -> u64 {
    if !index.is_plt(stub) {
        return 0;
    }
    let next = |&at: &Svma| {
        let insn = index.instruction(at).filter(|insn| Transfer::of(insn) == Transfer::Next)?;
        Some(Svma(insn.next_ip()))
    };
    std::iter::successors(Some(stub), next).count() as u64
}

fn is_repeated(insn: &Instruction) -> bool {
    insn.has_rep_prefix() || insn.has_repne_prefix()
}

/// What strobe counted in a file.
#[must_use]
pub fn of_profile(profile: &Profile, module: ModuleId, index: &Index<'_>) -> Counts {
    let mut counts = Counts::new();
    let is_own = |block: &&profile::model::Block| {
        profile.functions[block.function.index()].module == module && !index.is_outside_text(Svma(block.address))
    };
    for block in profile.blocks.iter().filter(is_own) {
        let (mut at, end) = (block.address, block.address + u64::from(block.size));
        while at < end {
            let Some(insn) = index.instruction(Svma(at)) else { break };
            add(&mut counts, Place::Instruction(Svma(at)), block.count.value as u64);
            at = insn.next_ip();
        }
    }
    let last = |block: &profile::model::Block| Svma(block.address + u64::from(block.last));
    for edge in &profile.edges {
        let [from, to] = [edge.from, edge.to].map(|block| &profile.blocks[block.index()]);
        let is_jump = match edge.kind {
            EdgeKind::Taken | EdgeKind::Table => true,
            EdgeKind::FallThrough => from.end == BlockEnd::Branch,
            EdgeKind::PastCall | EdgeKind::NonLocal => false,
        };
        if is_jump && is_own(&from) {
            add(&mut counts, Place::Edge(last(from), Svma(to.address)), edge.count.value as u64);
        }
    }
    for call in &profile.calls {
        let site = &profile.blocks[call.site.index()];
        let Some(insn) = index.instruction(last(site)).filter(|_| is_own(&site)) else { continue };
        let count = call.count.value as u64;
        match Transfer::of(&insn) {
            Transfer::Call(operand) => add(&mut counts, Place::Call(last(site), operand), count),
            Transfer::Jump(operand) => add(&mut counts, Place::Edge(last(site), operand), count),
            Transfer::Branch(operand) => {
                let callee = Svma(profile.functions[call.callee.index()].address);
                let to = if callee == Svma(insn.next_ip()) { callee } else { operand };
                add(&mut counts, Place::Edge(last(site), to), count);
            }
            _ => {}
        }
    }
    counts
}
