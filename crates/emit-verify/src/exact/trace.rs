//! What must be done so that a path that ends is in the trace: its number and the key of its
//! function in the place that is next in the buffer, then the next place one word further, and then
//! a look whether the buffer is full. A full buffer leads to the gate and back, as that of events
//! does.
//!
//! Only with the look is the path there: whoever does less has not ended it.
//!
//! The log of blocks goes the same way: a word is the record of a block, or the mark for the end of
//! a burst. Where that fills the buffer, the thread does not come back: it is on its way to the
//! other version.

use emit::Probe;
use iced_x86::{Code, Instruction, Register};
use wire::events::EVENTS_END;
use wire::path_trace::{Mark, RECORD_WORDS};
use wire::sample::EndReason;
use wire::thread::offset;

use super::state::{End, Known, Record, Switch};
use crate::SAMPLE;
use crate::events::come_back;
use crate::index::offset_of;
use crate::state::{Flags, RCX, State, Value};
use crate::step::Step;

/// Where the upper half is in the place in hand.
const UPPER: u32 = EVENTS_END + 4;

/// Executes an instruction that has to do with the trace; `None` if it has no meaning here.
pub(super) fn step(state: &mut State, insn: &Instruction, probe: Probe) -> Option<Step> {
    if insn.segment_prefix() == Register::GS {
        return field(state, insn, probe);
    }
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr64()).map(Register::number);
    match insn.code() {
        Code::Add_rm64_imm8 if state.registers[register(0)?] == Value::EventPlace => {
            (insn.immediate8to64() == RECORD_WORDS as i64).then_some(())?;
            go_up(state, register(0)?)?;
            state.flags = Flags::EventsLeft;
        }
        Code::Lea_r64_m if state.registers[register(0)?] == Value::EventPlace => {
            let is_plain = insn.memory_base() == insn.op0_register() && insn.memory_index() == Register::None;
            (is_plain && insn.memory_displacement64() == RECORD_WORDS).then_some(())?;
            go_up(state, register(0)?)?;
        }
        Code::Je_rel32_64 if state.flags == Flags::EventsLeft => return look(state, insn, probe),
        Code::Jrcxz_rel8_64 if state.registers[RCX] == Value::NextEventPlace => return look(state, insn, probe),
        _ => return None,
    }
    Some(Step::Next)
}

/// The place goes up, behind a record that is complete.
fn go_up(state: &mut State, place: usize) -> Option<()> {
    let Record { path, upper, lower, .. } = state.exact.record;
    (path.is_some() && upper.is_some() || upper.is_some() != lower.is_some()).then_some(())?;
    state.registers[place] = Value::NextEventPlace;
    Some(())
}

/// A jump that is taken if the buffer is full. The record is there.
fn look(state: &mut State, insn: &Instruction, probe: Probe) -> Option<Step> {
    let Record { path, upper, lower, is_in, .. } = std::mem::take(&mut state.exact.record);
    let exact = &mut state.exact;
    let is_first = match (path, upper, lower) {
        (Some(path), Some(key), None) => exact.done.end.replace(End::Table(key, path)).is_none(),
        (None, Some(block), None) if probe.trigger().is_some() => {
            exact.switch == Switch::No && exact.done.recorded.replace(block).is_none()
        }
        (None, None, Some(mark)) => {
            let Switch::Turned { to, again } = exact.switch else { return None };
            exact.switch = Switch::Marked { to, again };
            u64::from(mark) == Mark::BurstEnd.word()
        }
        _ => false,
    };
    (is_in && is_first).then_some(())?;
    let mut taken = *state;
    if lower.is_some() {
        taken.why = Some(EndReason::BufferFull);
    } else {
        taken.exact.why_again = taken.why.replace(EndReason::EventsFull);
    }
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

fn field(state: &mut State, insn: &Instruction, probe: Probe) -> Option<Step> {
    let at = u32::try_from(insn.memory_displacement64()).ok().filter(|_| insn.memory_base() == Register::None)?;
    let index = insn.memory_index();
    if index != Register::None {
        let is_place =
            index.is_gpr64() && insn.memory_index_scale() == 8 && state.registers[index.number()] == Value::EventPlace;
        is_place.then_some(())?;
        match (insn.code(), at) {
            (Code::Mov_rm32_r32, EVENTS_END) if state.exact.record.path.is_none() => {
                let from = insn.op1_register().full_register().number();
                let Value::Exact(Known::Frame(path)) = state.registers[from] else { return None };
                state.exact.record.path = Some(path);
            }
            (Code::Mov_rm32_imm32, UPPER) if state.exact.record.upper.is_none() => {
                let first_key = if probe.traces_paths() { SAMPLE.first_key } else { 0 };
                state.exact.record.upper = Some(insn.immediate32().checked_sub(first_key)?);
            }
            (Code::Mov_rm32_imm32, EVENTS_END) if state.exact.record.lower.is_none() => {
                state.exact.record.lower = Some(insn.immediate32());
            }
            _ => return None,
        }
        return Some(Step::Next);
    }
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr64()).map(Register::number);
    match (insn.code(), at) {
        (Code::Mov_r64_rm64, offset::NEXT_EVENT) => {
            let is_first = state.exact.record == Record::default() && state.exact.done.end.is_none();
            is_first.then_some(())?;
            state.exact.record.has_place = true;
            state.registers[register(0)?] = Value::EventPlace;
        }
        (Code::Mov_rm64_r64, offset::NEXT_EVENT) => {
            let is_next = state.registers[register(1)?] == Value::NextEventPlace && !state.exact.record.is_in;
            is_next.then(|| state.exact.record.is_in = true)?;
        }
        (Code::Jmp_rm64, offset::GATE) if state.end_reason == Some(EndReason::EventsFull) => return come_back(state),
        _ => return None,
    }
    Some(Step::Next)
}
