//! Whether a copy notes what instructions load, and nothing else.
//!
//! Behind a load the walk to the next twin must have appended one event: the program's value of the register that was loaded, under the site of the
//! load; and must have looked whether the buffer is full after that. A full buffer leads to the gate with the place to come back to in `twin`: the walk
//! goes on there. Any other walk must append nothing.

use flow::FunctionFlow;
use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use wire::events::{EVENT_WORDS, EVENTS_END, SITE};
use wire::sample::EndReason;
use wire::thread::offset;

use super::block::Site;
use super::exact::Known;
use super::index::offset_of;
use super::state::{Flags, Needs, RCX, State, Value};
use super::step::Step;
use super::walk::Walker;

/// An event on its way into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Appended {
    /// The register whose value it has.
    value: Option<usize>,
    site: Option<u32>,
    /// The next event goes behind it.
    is_in: bool,
    /// It has been looked whether the buffer is full.
    has_looked: bool,
}

impl Appended {
    /// What has been appended must be this: the value of a register under a site.
    pub fn is(&self, expected: Option<(usize, u32)>) -> bool {
        let all = Appended {
            value: expected.map(|(register, _)| register),
            site: expected.map(|(_, site)| site),
            is_in: expected.is_some(),
            has_looked: expected.is_some(),
        };
        *self == all
    }
}

impl Walker<'_, '_> {
    /// What must be noted behind an instruction that the copy has taken over.
    pub fn event_behind(&self, site: Site<'_>) -> Option<(usize, u32)> {
        let register = register_to_note(site.insn).filter(|_| self.index.copy.events.loads)?;
        Some((register, self.record(site.original)))
    }

    /// What is needed behind each instruction of a block; nothing if no event depends on it.
    pub fn needs_behind_each(&self, function: &FunctionFlow, block: BlockId) -> Vec<Needs> {
        if !self.index.copy.events.loads {
            return Vec::new();
        }
        let unseen = if self.module.passes_flags_unseen { LiveSet::ALL_FLAGS } else { LiveSet::NONE };
        let at_end = function.liveness.live_out(&function.cfg, block) | unseen;
        let live = function.liveness.live_behind_each(self.module.image, &function.cfg, block, at_end);
        live.into_iter().map(Needs::of).collect()
    }
}

/// The register whose value must be noted behind an instruction: one of at least 32 bits that a move fills from memory.
fn register_to_note(insn: &Instruction) -> Option<usize> {
    let is_move = matches!(insn.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
    let to = insn.op0_register();
    let is_load = is_move && insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Memory;
    let is_short_form = matches!(insn.code(), Code::Mov_EAX_moffs32 | Code::Mov_RAX_moffs64);
    // `movsxd` without a 64-bit operand is a strange way to write `mov`.
    let is_odd = insn.mnemonic() == Mnemonic::Movsxd && insn.code() != Code::Movsxd_r64_rm32;
    (is_load && !is_short_form && !is_odd && (to.is_gpr32() || to.is_gpr64())).then(|| to.full_register().number())
}

/// Executes an instruction that has to do with events; `None` if it has no meaning here.
pub(super) fn step(state: &mut State, insn: &Instruction) -> Option<Step> {
    if insn.segment_prefix() == Register::GS {
        return field(state, insn);
    }
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr64()).map(Register::number);
    match insn.code() {
        Code::Add_rm64_imm8 if state.registers[register(0)?] == Value::EventPlace => {
            (insn.immediate8to64() == EVENT_WORDS as i64).then_some(())?;
            go_up(state, register(0)?)?;
            state.flags = Flags::EventsLeft;
        }
        Code::Lea_r64_m if state.registers[register(0)?] == Value::EventPlace => {
            let is_plain = insn.memory_base() == insn.op0_register() && insn.memory_index() == Register::None;
            (is_plain && insn.memory_displacement64() == EVENT_WORDS).then_some(())?;
            go_up(state, register(0)?)?;
        }
        Code::Mov_rm64_r64 if state.registers[register(1)?] == Value::Program => {
            state.registers[register(0)?] = Value::Moved(register(1)?);
        }
        Code::Je_rel32_64 if state.flags == Flags::EventsLeft => return look(state, insn),
        Code::Jrcxz_rel8_64 if state.registers[RCX] == Value::NextEventPlace => return look(state, insn),
        _ => return None,
    }
    Some(Step::Next)
}

/// The place goes up, behind an event that is complete.
fn go_up(state: &mut State, place: usize) -> Option<()> {
    state.event.value.and(state.event.site)?;
    state.registers[place] = Value::NextEventPlace;
    Some(())
}

/// A jump that is taken if the buffer is full.
fn look(state: &mut State, insn: &Instruction) -> Option<Step> {
    (state.event.is_in && !state.event.has_looked).then_some(())?;
    state.event.has_looked = true;
    let mut taken = *state;
    taken.why = Some(EndReason::EventsFull);
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

fn field(state: &mut State, insn: &Instruction) -> Option<Step> {
    let (base, index) = (insn.memory_base(), insn.memory_index());
    let at = u32::try_from(insn.memory_displacement64()).ok().filter(|_| base == Register::None)?;
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr64()).map(Register::number);
    if index != Register::None {
        let is_place = index.is_gpr64()
            && insn.memory_index_scale() == 8
            && state.registers[index.number()] == Value::EventPlace
            && !state.event.is_in;
        is_place.then_some(())?;
        match (insn.code(), at) {
            (Code::Mov_rm64_r64, EVENTS_END) if state.event.value.is_none() => {
                state.event.value = Some(match state.registers[register(1)?] {
                    Value::Program => register(1)?,
                    Value::Moved(from) => from,
                    _ => return None,
                });
            }
            (Code::Mov_rm32_imm32, SITE_FIELD) if state.event.site.is_none() => {
                state.event.site = Some(insn.immediate32());
            }
            _ => return None,
        }
        return Some(Step::Next);
    }
    match (insn.code(), at) {
        (Code::Mov_r64_rm64, offset::NEXT_EVENT) => state.registers[register(0)?] = Value::EventPlace,
        (Code::Mov_rm64_r64, offset::NEXT_EVENT) => {
            let is_next = state.registers[register(1)?] == Value::NextEventPlace && !state.event.is_in;
            is_next.then(|| state.event.is_in = true)?;
        }
        (Code::Jmp_rm64, offset::GATE) if state.end_reason == Some(EndReason::EventsFull) => return come_back(state),
        _ => return None,
    }
    Some(Step::Next)
}

/// Offset of the site of the event in hand.
const SITE_FIELD: u32 = EVENTS_END + SITE;

/// The gate empties the buffer and goes on at the address in `twin`, with everything as it was.
fn come_back(state: &mut State) -> Option<Step> {
    let Value::Exact(Known::Place(back)) = state.fields.twin else { return None };
    let is_ready = state.why == Some(EndReason::EventsFull) && state.is_at(state.fields.target) && state.is_restored();
    is_ready.then_some(())?;
    (state.why, state.end_reason) = (None, None);
    state.fields.twin = Value::Junk;
    Some(Step::Back(back))
}
