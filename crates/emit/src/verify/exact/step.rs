//! Instructions without an operand relative to `gs:`, in copies that are never left.

use iced_x86::{Code, Instruction, Register};
use wire::exact::{N_PATH_ENTRIES, PathEntry as TableEntry, SLOT_MASK};

use super::super::SAMPLE;
use super::super::index::{Index, offset_of, original_at};
use super::super::state::{Flags, Point, RAX, RCX, RDX, State, Value};
use super::super::step::Step;
use super::super::transfer::Pending;
use super::fields;
use super::state::{Claim, Frame, Known, Outcome, PathEntry};
use crate::Probe;
use crate::exact::Counting;

/// What the key of a path is multiplied by; the same in all modules, which share the path table.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const HASH_SHIFT: u8 = (64 - N_PATH_ENTRIES.ilog2()) as u8;
const ENTRY_BYTES: u32 = size_of::<TableEntry>() as u32;
const ENTRY_SHIFT: u8 = ENTRY_BYTES.ilog2() as u8;
/// How far before the code for arrivals jumps through tables arrive, where paths are counted.
pub(super) const TABLE_ENTRY_BYTES: u32 = 5;
/// Bytes of an entry of a row, and where in it the end of the path is.
pub(super) const ROW_ENTRY_BYTES: u32 = 8;
const ROW_END: u32 = 4;

/// Executes an instruction of a copy that is never left; `None` if it has no meaning of its own there.
pub(in super::super) fn step(
    index: &Index<'_>,
    state: &mut State,
    pending: &Pending,
    insn: &Instruction,
) -> Option<Step> {
    match (insn.segment_prefix(), insn.code()) {
        (Register::GS, _) => return fields::step(state, pending, insn),
        (Register::None, _) => {}
        _ => return None,
    }
    let value = match insn.code() {
        Code::Jne_rel32_64 | Code::Je_rel32_64 | Code::Jae_rel32_64 => return branch(state, insn),
        Code::Jmp_rm64 => return jump(index, state, insn),
        Code::Lea_r32_m | Code::Lea_r64_m => address(index, state, insn)?,
        Code::Mov_r64_rm64 | Code::Mov_r32_rm32 => load(index, state, insn)?,
        _ => other(state, insn)?,
    };
    if let Some((register, value)) = value {
        state.registers[register] = value;
    }
    Some(Step::Next)
}

/// A register and what it becomes.
type Change = Option<(usize, Value)>;

fn sets(register: Register, known: Known) -> Option<Change> {
    register.is_gpr().then(|| Some((register.full_register().number(), Value::Exact(known))))
}

fn known(state: &State, register: Register) -> Option<Known> {
    match state.registers[Some(register).filter(|register| register.is_gpr())?.full_register().number()] {
        Value::Exact(known) => Some(known),
        _ => None,
    }
}

fn address(index: &Index<'_>, state: &State, insn: &Instruction) -> Option<Change> {
    let to = insn.op0_register();
    let distance = insn.memory_displacement64() as i64;
    let (base, scaled) = (insn.memory_base(), (insn.memory_index(), insn.memory_index_scale()));
    let is_long = insn.code() == Code::Lea_r64_m;
    let is_plain = scaled.0 == Register::None;
    let is_slot = state.exact.dropped.is_some_and(|n_bytes| distance == -(n_bytes as i64));
    if base == Register::RIP {
        let place = offset_of(insn.memory_displacement64());
        let is_place = is_long && original_at(insn.memory_displacement64()).is_none();
        return sets(to, Known::Place(place)).filter(|_| is_place && place < index.copy.literals);
    }
    match (base, to) {
        (Register::RSP, Register::ECX) if is_plain && is_slot => return sets(to, Known::SlotAddress),
        (Register::RSP, Register::RAX) if scaled == (Register::RAX, 1) && is_slot => {
            let is_target = state.registers[RAX] == Value::Target && state.fields.target == Value::Target;
            return sets(to, Known::TargetKey).filter(|_| is_target);
        }
        (Register::RAX, Register::RAX) if is_plain && is_long && state.registers[RAX] == Value::Twin => {
            let has_tables = index.copy.probe == Probe::Exact(Counting::Paths);
            return sets(to, Known::TableTwin).filter(|_| has_tables && distance == -i64::from(TABLE_ENTRY_BYTES));
        }
        _ => {}
    }
    match known(state, base)? {
        Known::Zero if is_plain && distance == 1 && !is_long => sets(to, Known::One),
        Known::Count(cell) if is_plain && distance == 1 && is_long && base == to => sets(to, Known::NextCount(cell)),
        Known::Frame(frame) if is_plain && !is_long && base == to.full_register() => {
            sets(to, Known::Frame(frame.plus(distance as i32)?))
        }
        _ => None,
    }
}

fn load(index: &Index<'_>, state: &State, insn: &Instruction) -> Option<Change> {
    let to = insn.op0_register();
    if insn.memory_base() == Register::RIP && insn.code() == Code::Mov_r64_rm64 {
        let literal = index.literal(offset_of(insn.memory_displacement64()))?;
        return Some(Some((to.number(), Value::Address(literal))));
    }
    let is_plain = insn.memory_index() == Register::None && insn.code() == Code::Mov_r32_rm32;
    let at = u32::try_from(insn.memory_displacement64()).ok().filter(|_| is_plain)?;
    (known(state, insn.memory_base()) == Some(Known::Row)).then_some(())?;
    match at % ROW_ENTRY_BYTES {
        0 => sets(to, Known::RowAmount(at / ROW_ENTRY_BYTES)),
        ROW_END => sets(to, Known::RowEnd(at / ROW_ENTRY_BYTES)),
        _ => None,
    }
}

/// Instructions of which there is just one form each.
fn other(state: &mut State, insn: &Instruction) -> Option<Change> {
    let [first, second] = [insn.op0_register(), insn.op1_register()];
    let [rax, rcx, rdx] = [RAX, RCX, RDX].map(|number| state.registers[number]);
    let is = |expected: [Register; 2]| [first, second] == expected;
    let mut outcome = Flags::Junk;
    let change = match insn.code() {
        Code::Mov_rm32_r32 if is([Register::ECX, Register::ESP]) && state.exact.pushed.is_some() => {
            return sets(first, Known::SlotAddress);
        }
        Code::Mov_r32_imm32 if first == Register::EAX => {
            return sets(first, Known::FunctionKey(insn.immediate32().checked_sub(SAMPLE.first_key)?));
        }
        Code::Mov_r64_imm64 if first == Register::RDX && insn.immediate64() == HASH_FACTOR => {
            return sets(first, Known::Factor);
        }
        Code::Xor_rm32_r32 if is([Register::EAX; 2]) => sets(first, Known::Zero)?,
        Code::And_rm32_imm32 => match known(state, first)? {
            Known::SlotAddress if insn.immediate32() == SLOT_MASK => sets(first, Known::Slot)?,
            Known::NextPathSlot if insn.immediate32() == N_PATH_ENTRIES * ENTRY_BYTES - 1 => {
                sets(first, Known::PathSlot)?
            }
            _ => return None,
        },
        Code::Add_rm64_r64 if is([Register::RAX, Register::RSP]) => match rax {
            Value::Address(next) if state.exact.pushed == Some(next) => sets(first, Known::Key(next))?,
            _ => return None,
        },
        Code::Shl_rm64_imm8 => match (known(state, first)?, insn.immediate8()) {
            (Known::FunctionKey(key), 32) => sets(first, Known::HighKey(key))?,
            (Known::HashBits, ENTRY_SHIFT) => sets(first, Known::PathSlot)?,
            _ => return None,
        },
        Code::Or_rm64_r64 if is([Register::RCX, Register::RAX]) => match (rcx, rax) {
            (Value::Exact(Known::Frame(path)), Value::Exact(Known::HighKey(key))) => {
                sets(first, Known::PathKey(key, path))?
            }
            _ => return None,
        },
        Code::Imul_r64_rm64 if is([Register::RDX, Register::RCX]) => {
            let is_key = matches!(rcx, Value::Exact(Known::PathKey(..)));
            sets(first, Known::Hash).filter(|_| is_key && rdx == Value::Exact(Known::Factor))?
        }
        Code::Shr_rm64_imm8 if insn.immediate8() == HASH_SHIFT && known(state, first)? == Known::Hash => {
            sets(first, Known::HashBits)?
        }
        Code::Add_rm32_imm8 if known(state, first)? == Known::PathSlot => {
            // What is known about the entry before is not known about the next one.
            state.exact.entry = PathEntry::Unknown;
            state.registers[RAX] = Value::Junk;
            sets(first, Known::NextPathSlot).filter(|_| u32::from(insn.immediate8()) == ENTRY_BYTES)?
        }
        Code::Cmp_rm64_r64 if is([Register::RAX, Register::RCX]) => {
            let are_keys = rax == Value::Exact(Known::EntryKey) && matches!(rcx, Value::Exact(Known::PathKey(..)));
            outcome = are_keys.then_some(Flags::Exact(Outcome::SamePath))?;
            None
        }
        Code::Test_rm64_r64 if is([Register::RAX; 2]) && rax == Value::Exact(Known::EntryKey) => {
            outcome = Flags::Exact(Outcome::FreeEntry);
            None
        }
        Code::Test_rm32_r32 if is([Register::EAX; 2]) => {
            let Value::Exact(Known::RowEnd(index)) = rax else { return None };
            let is_same_entry = state.exact.done.frame == Frame::PlusRow(index);
            outcome = is_same_entry.then_some(Flags::Exact(Outcome::RowEnd))?;
            None
        }
        _ => return None,
    };
    state.flags = outcome;
    Some(change)
}

fn branch(state: &mut State, insn: &Instruction) -> Option<Step> {
    let Flags::Exact(outcome) = state.flags else { return None };
    let mut taken = *state;
    match (outcome, insn.code()) {
        (Outcome::SameReturn, Code::Jne_rel32_64) => state.exact.is_noted = true,
        (Outcome::Remembered(cell), Code::Jne_rel32_64) => state.exact.remembered = Some(cell),
        (Outcome::Taken(cell), Code::Jne_rel32_64) => state.exact.claim = Some(Claim { cell, has_twin: false }),
        (Outcome::SamePath, Code::Je_rel32_64) => taken.exact.entry = PathEntry::Found,
        (Outcome::FreeEntry, Code::Je_rel32_64) => taken.registers[RAX] = Value::Exact(Known::Zero),
        (Outcome::Room, Code::Jae_rel32_64) => {
            state.exact.entry = PathEntry::Room;
            taken.exact.entry = PathEntry::Full;
        }
        (Outcome::TakenEntry, Code::Jne_rel32_64) => {
            state.exact.entry = PathEntry::New;
            taken.exact.entry = PathEntry::Unknown;
        }
        (Outcome::RowEnd, Code::Je_rel32_64) => {
            state.exact.row_ends = Some(true);
            taken.exact.row_ends = Some(false);
        }
        _ => return None,
    }
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

/// `jmp rax`: to a block that a jump through a table leads to.
fn jump(index: &Index<'_>, state: &State, insn: &Instruction) -> Option<Step> {
    let twin =
        if index.copy.probe == Probe::Exact(Counting::Paths) { Value::Exact(Known::TableTwin) } else { Value::Twin };
    let is_there = insn.op0_register() == Register::RAX && state.registers[RAX] == twin;
    (is_there && state.point == Point::Target && state.is_restored()).then_some(Step::Gone)
}
