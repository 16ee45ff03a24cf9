//! What the program needs of its registers and flags at every place: the verifier's own answer.
//!
//! A probe may use only what is dead, so a copy is right only if what it overwrites is dead, and
//! whoever decides that here must not have been asked by who wrote the copy. From `flow` this takes
//! the graph alone: blocks, edges, and where direct calls lead. Instructions are decoded and judged
//! again ([`effects`]), and the rest is the plainest backward analysis there is: sets grow until
//! nothing changes.
//!
//! **Copies that are left** run beside the original, so nothing is known of who comes and goes:
//! every register is live at calls, system calls and ways out ([`bursts`]).
//!
//! **Copies that are never left** use more, because functions of a module keep to conventions that
//! show in it. What they show is found again, from the code ([`agreements`], with the evidence for
//! each function in [`evidence`]).
//!
//! **Faults can throw.** Where exceptions reach a landing pad of the function, what calls keep is
//! live at every instruction ([`guards`]).
//!
//! **Flags** are dead at calls and returns but for functions that pass or return them ([`flags`]).
//!
//! The sets are least solutions. That a set is too small can only come from a missing rule, not
//! from the order in which rules are applied.

pub(crate) mod effects;

mod agreements;
mod bursts;
mod evidence;
mod flags;
mod guards;
mod set;

use flow::ModuleFlow;
use flow::callgraph::FunctionId;
use flow::graph::BlockId;
use image::{Image, Svma};

use effects::{Effect, Effects, is_call};
use flags::Flags;
use guards::Guards;
pub(crate) use set::Set;

/// What is live in all functions of a module.
#[derive(Debug)]
pub(crate) struct Liveness {
    registers: Registers,
    flags: Flags,
    /// By function.
    guards: Vec<Guards>,
    /// Whether more is known of callers and callees than that they may need any register.
    has_agreements: bool,
}

/// Live registers by function and block.
#[derive(Debug)]
struct Registers {
    at_start: Vec<Vec<Set>>,
    /// Before a call, but for its operands.
    at_end: Vec<Vec<Set>>,
}

impl Liveness {
    /// Works out what is live; in copies that are never left, by what the functions of the module
    /// have agreed on.
    pub fn new(image: &Image<'_>, flow: &ModuleFlow, has_agreements: bool) -> Liveness {
        let registers =
            if has_agreements { agreements::registers(image, flow) } else { bursts::registers(image, flow) };
        let guards = flow.functions.iter().map(|function| Guards::new(image, function)).collect();
        Liveness { registers, flags: Flags::new(image, flow), guards, has_agreements }
    }

    /// Returns what is live at the start of a block.
    pub fn at_start(&self, id: FunctionId, block: BlockId) -> Set {
        self.registers.at_start[id.index()][block.index()] | self.flags.at_start(id, block)
    }

    /// Returns what is live at the end of a block; if that is a call, before it, but for its
    /// operands.
    pub fn at_end(&self, id: FunctionId, block: BlockId) -> Set {
        self.registers.at_end[id.index()][block.index()] | self.flags.at_end(id, block)
    }

    /// Whether callers of the function use flags that it returns.
    pub fn returns_flags(&self, id: FunctionId) -> bool {
        self.flags.at_return(id).has_flags()
    }

    /// Whether the code at an address, which is an entry of a function, expects flags.
    pub fn expects_flags(&self, at: Svma) -> bool {
        self.flags.expected_at(at).has_flags()
    }

    /// Returns what is live behind each instruction of a block, if this is behind the last one.
    pub fn behind_each(
        &self,
        image: &Image<'_>,
        flow: &ModuleFlow,
        id: FunctionId,
        block: BlockId,
        at_end: Set,
    ) -> Vec<Set> {
        let mut effects = Effects::new();
        let insns = flow.functions[id.index()].cfg.instructions(image, block);
        let all: Vec<Effect> = insns
            .map(|insn| match is_call(&insn) && self.has_agreements {
                true => effects.of_operands(&insn),
                false => effects.of(&insn).reading(self.guards[id.index()].reads(&insn)),
            })
            .collect();
        let mut live = vec![at_end; all.len()];
        for index in (1..all.len()).rev() {
            live[index - 1] = all[index].before(live[index]);
        }
        live
    }
}
