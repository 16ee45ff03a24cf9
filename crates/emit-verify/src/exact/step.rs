//! Instructions without an operand relative to `gs:`, in copies that are never left.

use iced_x86::{Code, Instruction, Register};
use wire::clusters::LANDING;
use wire::exact::{
    CALLEE, CONTEXT_BYTES, FRAME_MASK, FRONT_PATHS, N_FRONT_PATHS, N_PATH_ENTRIES, PathEntry as TableEntry,
    RETURN_MASK, RETURN_SHIFT,
};

use super::fields::path_of;
use super::rows::ROW_ENTRY_BYTES;
use super::state::{Claim, Context, ContextSearch, Frame, Known, Outcome, PathEntry, Switch};
use super::{clock, contexts, fields, samples, trace, trigger};
use crate::SAMPLE;
use crate::index::{Index, address_of, offset_of, original_at};
use crate::state::{Flags, Point, RAX, RCX, State, Value};
use crate::step::Step;
use crate::transfer::Pending;

const ENTRY_BYTES: u32 = size_of::<TableEntry>() as u32;
/// Bits that tell the entries of the path table apart.
const PATH_MASK: u32 = (N_PATH_ENTRIES - 1) * ENTRY_BYTES;
/// The same of its front.
const FRONT_PATH_MASK: u32 = (N_FRONT_PATHS - 1) * ENTRY_BYTES;
/// How far before the code for arrivals jumps through tables arrive, where paths are counted.
pub(super) const TABLE_ENTRY_BYTES: u32 = 5;
/// Where in an entry of a row the end of the path is.
const ROW_END: u32 = 4;

/// Executes an instruction of a copy that is never left; `None` if it has no meaning of its own
/// there.
pub(crate) fn step(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
    let probe = index.copy.probe();
    if (probe.traces_paths() || trigger::logs(probe))
        && let Some(step) = trace::step(state, insn, probe)
    {
        return Some(step);
    }
    match (insn.segment_prefix(), insn.code()) {
        (Register::GS, _) => return fields::step(state, pending, insn, probe),
        (Register::None, _) => {}
        _ => return None,
    }
    let value = match insn.code() {
        Code::Jne_rel32_64 | Code::Je_rel32_64 | Code::Jae_rel32_64 => return branch(state, insn),
        Code::Call_rel32_64 => return call(state, pending, insn),
        Code::Add_rm64_imm32 => return replace_by_original(index, state, pending, insn),
        Code::Retnq | Code::Retnq_imm16 => return go_back(state, insn),
        Code::Jmp_rm64 => return jump(index, state, insn),
        Code::Lea_r32_m | Code::Lea_r64_m => address(index, state, insn)?,
        Code::Mov_r64_rm64 | Code::Mov_r32_rm32 => load(state, pending, insn)?,
        _ => other(state, pending, insn)?,
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
    if base == Register::RIP {
        let place = offset_of(insn.memory_displacement64());
        let is_place = is_long && original_at(insn.memory_displacement64()).is_none();
        return sets(to, Known::Place(place)).filter(|_| is_place && place < index.copy.literals());
    }
    match (base, to) {
        (Register::RAX, Register::RAX) if is_plain && is_long && distance == -1 => {
            if let Value::TargetOffset(cluster) = state.registers[RAX] {
                return sets(to, Known::LastByteOffset(cluster));
            }
        }
        (Register::RAX, Register::RAX) if is_plain && is_long && state.registers[RAX] == Value::Twin => {
            let has_tables = index.copy.probe().tells_arrivals_apart();
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
        Known::NextChecks { again: false } if is_plain && distance == 1 && !is_long && base == to.full_register() => {
            sets(to, Known::NextChecks { again: true })
        }
        _ => None,
    }
}

fn load(state: &State, pending: &Pending, insn: &Instruction) -> Option<Change> {
    let to = insn.op0_register();
    if to == Register::RCX && is_top_of_stack(insn, 0) && may_return(state, pending) {
        return sets(to, Known::ReturnAddress);
    }
    if let Some(cluster) = landing_entry(state, insn) {
        return sets(to, Known::LandingEntry(cluster));
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

/// `mov eax, [rcx + rax * 4]` at the last byte of a call, which flags still tell to be in the
/// cluster.
fn landing_entry(state: &State, insn: &Instruction) -> Option<usize> {
    let Some(Known::LastByteOffset(cluster)) = known(state, insn.memory_index()) else { return None };
    let operand = (insn.op0_register(), insn.memory_base(), insn.memory_index_scale(), insn.memory_displacement64());
    let is_entry = insn.code() == Code::Mov_r32_rm32
        && operand == (Register::EAX, Register::RCX, 4, 0)
        && state.registers[RCX] == Value::Map(cluster)
        && state.flags == Flags::Exact(Outcome::LastByteSpan(cluster));
    is_entry.then_some(cluster)
}

/// A call to what will put the original return address in place of the one of the copy.
fn call(state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
    let is_ready = pending.is_call() && matches!(state.point, Point::At(_)) && state.is_restored();
    (is_ready && state.exact.called.is_none()).then_some(())?;
    state.exact.called = Some(offset_of(insn.next_ip()));
    Some(Step::Jump(offset_of(insn.near_branch_target())))
}

/// `add qword [rsp], original - copy`: the return address is now that of the original.
fn replace_by_original(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
    let landing = state.exact.called.take().filter(|_| is_top_of_stack(insn, 0))?;
    let next = original_at(address_of(landing).wrapping_add(insn.immediate32to64() as u64))?;
    (index.landing(next) == Some(landing)).then_some(())?;
    state.flags = Flags::Junk;
    pending.push(state, next)?;
    Some(Step::Next)
}

/// A return to the copy of the return site, which is on the stack.
fn go_back(state: &State, insn: &Instruction) -> Option<Step> {
    let extra = if insn.code() == Code::Retnq { 0 } else { u64::from(insn.immediate16()) };
    let is_there = state.exact.returning == Some(8 + extra);
    (is_there && state.is_restored()).then_some(Step::Gone)
}

fn is_top_of_stack(insn: &Instruction, distance: u64) -> bool {
    insn.memory_base() == Register::RSP
        && insn.memory_index() == Register::None
        && insn.memory_displacement64() == distance
}

/// The return address of the program is on top of the stack, and `rcx` is saved.
fn may_return(state: &State, pending: &Pending) -> bool {
    let is_saved = state.is_right(RCX, state.fields.saved_rcx);
    pending.dropped().is_some() && matches!(state.point, Point::At(_)) && is_saved
}

/// Instructions of which there is just one form each.
fn other(state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Change> {
    let [first, second] = [insn.op0_register(), insn.op1_register()];
    if let Some(known) = contexts::calculate(state, insn) {
        return sets(first, known);
    }
    let [rax, rcx] = [RAX, RCX].map(|number| state.registers[number]);
    let is = |expected: [Register; 2]| [first, second] == expected;
    let mut outcome = Flags::Junk;
    let change = match insn.code() {
        Code::Mov_rm32_r32 if second == Register::ESP && !state.exact.has_moved => {
            return sets(first, Known::StackAddress);
        }
        Code::Mov_rm32_r32 if is([Register::ECX, Register::EAX]) => {
            let Value::Exact(Known::LandingEntry(cluster)) = rax else { return None };
            return sets(first, Known::EntryCopy(cluster));
        }
        Code::Shr_rm32_imm8 if first == Register::ECX && u32::from(insn.immediate8()) == LANDING.ilog2() => {
            let Value::Exact(Known::EntryCopy(cluster)) = rcx else { return None };
            sets(first, Known::EntryKind(cluster))?
        }
        Code::Xor_r32_rm32 if first == Register::ECX && is_top_of_stack(insn, 0) && may_return(state, pending) => {
            sets(first, Known::ReturnBits).filter(|_| rcx == Value::Exact(Known::HighReturn))?
        }
        Code::Mov_r64_imm64 if insn.immediate64() as u32 == 0 => {
            let key = (insn.immediate64() >> 32) as u32;
            return sets(first, Known::HighKey(key.checked_sub(SAMPLE.first_key)?));
        }
        Code::Mov_r64_imm64 => return sets(first, Known::Factor),
        Code::Xor_rm32_r32 if is([Register::EAX; 2]) => sets(first, Known::Zero)?,
        Code::And_rm32_imm32 => match known(state, first)? {
            Known::StackAddress if insn.immediate32() == FRAME_MASK => sets(first, Known::FrameSlot)?,
            Known::PathHash => {
                forget_entry(state);
                match insn.immediate32() {
                    FRONT_PATH_MASK => sets(first, Known::FrontPathSlot)?,
                    PATH_MASK => sets(first, Known::PathSlot)?,
                    _ => return None,
                }
            }
            Known::NextPathSlot if insn.immediate32() == PATH_MASK => sets(first, Known::PathSlot)?,
            Known::ContextHash => {
                state.exact.search = ContextSearch::Looking;
                match insn.immediate32() {
                    contexts::FRONT_MASK => sets(first, Known::FrontContextPlace)?,
                    contexts::PLACE_MASK => sets(first, Known::ContextPlace)?,
                    _ => return None,
                }
            }
            Known::NextContextPlace if insn.immediate32() == contexts::PLACE_MASK => sets(first, Known::ContextPlace)?,
            Known::ReturnBits if insn.immediate32() == RETURN_MASK => sets(first, Known::ReturnIndex)?,
            _ => return None,
        },
        Code::Cmp_r32_rm32 if first == Register::ECX && is_top_of_stack(insn, 0) => {
            let is_entry = rcx == Value::Exact(Known::ReturnEntry) && may_return(state, pending);
            outcome = is_entry.then_some(Flags::Exact(Outcome::SameReturn))?;
            None
        }
        Code::Sar_rm64_imm8 if first == Register::RCX && insn.immediate8() == 32 => {
            let is_found = rcx == Value::Exact(Known::ReturnEntry) && state.exact.is_same;
            sets(first, Known::ReturnDistance).filter(|_| is_found)?
        }
        Code::Add_rm64_r64 if second == Register::RCX && is_top_of_stack(insn, 0) => {
            (rcx == Value::Exact(Known::ReturnDistance) && may_return(state, pending)).then_some(())?;
            state.exact.returning = pending.dropped();
            state.point = Point::Target;
            None
        }
        Code::Shl_rm64_imm8 => match (known(state, first)?, insn.immediate8()) {
            (Known::Context(Context::Kept), 32) => sets(first, Known::HighContext)?,
            (Known::LandingDistance, 32) => sets(first, Known::HighDistance)?,
            _ => return None,
        },
        Code::Or_rm32_imm32 if known(state, first)? == Known::FrontPathSlot => {
            sets(first, Known::PathSlot).filter(|_| insn.immediate32() == FRONT_PATHS)?
        }
        Code::Or_rm64_r64 => match (known(state, first)?, known(state, second)?) {
            (Known::Frame(path), Known::HighKey(key)) => sets(first, Known::PathKey(key, path))?,
            (Known::Frame(path), Known::HighContext) => sets(first, Known::ContextPathKey(path))?,
            (Known::ReturnTag, Known::HighKey(key)) => {
                sets(first, Known::CalleeKey(key)).filter(|_| key & CALLEE != 0)?
            }
            (Known::Context(context), Known::HighKey(key)) => sets(first, Known::ContextKey(key, context))?,
            (Known::ReturnTag, Known::HighDistance) => sets(first, Known::NewReturnEntry)?,
            _ => return None,
        },
        Code::Imul_r64_rm64 if known(state, first)? == Known::Factor => match known(state, second)? {
            Known::PathKey(..) | Known::ContextPathKey(_) | Known::CalleeKey(_) => sets(first, Known::PathHash)?,
            Known::ContextKey(..) => sets(first, Known::ContextHash)?,
            _ => return None,
        },
        Code::Imul_r64_rm64_imm32 => match known(state, second)? {
            Known::ContextKey(..) => sets(first, Known::ContextHash)?,
            _ => return None,
        },
        Code::Shr_rm64_imm8 if matches!(known(state, first), Some(Known::PathHash | Known::ContextHash)) => None,
        Code::Neg_rm64 if known(state, first)? == Known::LeftMetric => sets(first, Known::LessLeftMetric)?,
        Code::Shr_rm64_imm8 if u32::from(insn.immediate8()) == RETURN_SHIFT => {
            let is_address =
                state.registers[first.number()] == Value::Target || known(state, first)? == Known::ReturnAddress;
            sets(first, Known::HighReturn).filter(|_| is_address)?
        }
        Code::Add_rm64_imm8 if known(state, first) == Some(Known::ContextPlace) => {
            // What is known about one entry is not known about the next one.
            state.exact.search = ContextSearch::Looking;
            sets(first, Known::NextContextPlace).filter(|_| u32::from(insn.immediate8()) == CONTEXT_BYTES)?
        }
        Code::Add_rm32_imm8 if known(state, first)? == Known::PathSlot => {
            forget_entry(state);
            sets(first, Known::NextPathSlot).filter(|_| u32::from(insn.immediate8()) == ENTRY_BYTES)?
        }
        Code::Add_rm64_imm8 if first == Register::RAX && u32::from(insn.immediate8()) == samples::GROWTH => {
            sets(first, Known::NextGrowth).filter(|_| samples::has_grown(state))?
        }
        Code::Cmp_rm64_r64 if is([Register::RAX, Register::RCX]) => {
            let path = path_of(rcx).filter(|_| rax == Value::Exact(Known::EntryKey));
            outcome = Flags::Exact(Outcome::SamePath(path?));
            None
        }
        Code::Test_rm64_r64 if is([Register::RAX; 2]) && rax == Value::Exact(Known::EntryKey) => {
            outcome = Flags::Exact(Outcome::FreeEntry);
            None
        }
        Code::Cmp_rm32_imm8 if first == Register::ECX && insn.immediate8() == 1 => {
            let Value::Exact(Known::EntryKind(cluster)) = rcx else { return None };
            outcome = Flags::Exact(Outcome::HasLanding(cluster));
            None
        }
        Code::And_EAX_imm32 if insn.immediate32() == LANDING - 1 => {
            let Value::Exact(Known::FoundLanding(cluster)) = rax else { return None };
            sets(Register::EAX, Known::LandingOffset(cluster))?
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

/// What is known about one entry of the path table is not known about another one.
fn forget_entry(state: &mut State) {
    state.exact.entry = PathEntry::Unknown;
    for value in &mut state.registers {
        if *value == Value::Exact(Known::EntryKey) {
            *value = Value::Junk;
        }
    }
}

fn branch(state: &mut State, insn: &Instruction) -> Option<Step> {
    let Flags::Exact(outcome) = state.flags else { return None };
    let mut taken = *state;
    match (outcome, insn.code()) {
        (Outcome::OwnFrame, Code::Jne_rel32_64) => {
            state.exact.is_own = true;
            taken.exact.is_other = true;
        }
        (Outcome::SameReturn | Outcome::SameFrame, Code::Jne_rel32_64) => {
            state.exact.is_same = true;
            taken.exact.is_other = true;
        }
        (Outcome::SameContext(key), Code::Jne_rel32_64) => state.exact.search = ContextSearch::Found(key),
        (Outcome::SameContext(key), Code::Je_rel32_64) => taken.exact.search = ContextSearch::Found(key),
        (Outcome::SameMetric, Code::Jne_rel32_64) => clock::end_without(state)?,
        (Outcome::NoContext, Code::Je_rel32_64) => taken.exact.search = ContextSearch::Missing,
        (Outcome::LastByteSpan(_), Code::Jae_rel32_64) | (Outcome::InUse, Code::Jne_rel32_64) => {}
        (Outcome::HasLanding(cluster), Code::Jne_rel32_64) => {
            state.registers[RAX] = Value::Exact(Known::FoundLanding(cluster));
        }
        (Outcome::Remembered(cell), Code::Jne_rel32_64) => state.exact.remembered = Some(cell),
        (Outcome::Taken(cell), Code::Jne_rel32_64) => state.exact.claim = Some(Claim { cell, has_twin: false }),
        (Outcome::SamePath(path), Code::Je_rel32_64) => taken.exact.entry = PathEntry::Found(path),
        (Outcome::SamePath(path), Code::Jne_rel32_64) => state.exact.entry = PathEntry::Found(path),
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
        (Outcome::LastCheck, Code::Je_rel32_64) => {
            state.exact.switch = Switch::No;
            taken.exact.switch = Switch::Due;
        }
        (outcome, code) => samples::branch(outcome, code, state, &mut taken)?,
    }
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

/// `jmp rax`: to a block that a jump through a table leads to.
fn jump(index: &Index<'_>, state: &State, insn: &Instruction) -> Option<Step> {
    let twin = if index.copy.probe().tells_arrivals_apart() { Value::Exact(Known::TableTwin) } else { Value::Twin };
    let is_there = insn.op0_register() == Register::RAX && state.registers[RAX] == twin;
    (is_there && state.point == Point::Target && state.is_restored()).then_some(Step::Gone)
}
