//! Instructions with an operand relative to `gs:`, in copies that are never left: the path
//! register, cells, return table, frames, path table.

use emit::Probe;
use iced_x86::{Code, Instruction, Register};
use wire::clusters::{Cluster, N_CLUSTERS};
use wire::exact::{
    CONTEXTS, CallerFrame, FRAME_METRIC, FRAME_SCALE, FRAME_SITES, FRAMES, FRONT_CONTEXTS, FRONT_PATHS,
    MAX_PATH_ENTRIES, PATH_METRIC, PATHS, PathEntry as TableEntry, RETURN_SCALE,
};
use wire::sample::EndReason;
use wire::thread::offset;

use super::cells::cell_at;
use super::state::{Claim, Clock, Context, End, Frame, Known, Outcome, PathEntry, Sampling};
use super::{clock, contexts, samples, trigger};
use crate::state::{Flags, Point, RAX, RCX, RDX, State, Value};
use crate::step::Step;
use crate::transfer::Pending;

/// What an operand relative to `gs:` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Of the thread's header, or nothing.
    Header(u32),
    Cell(u32),
    /// The cell with this number plus the path register.
    PathCell(i64, Frame),
    /// The entry of the return table that the return address chooses.
    Return,
    /// Of the entry of the frames that the stack pointer chooses.
    Frame(u32),
    /// The cycles beside it.
    FrameCycles,
    /// And the site of the call.
    FrameSite,
    /// Of the entry of the path table that a register chooses.
    Path(u32),
    /// The cycles beside it, or the squares: this far from their start.
    PathCycles,
    Squares(u32),
    /// Of the entry of the table of contexts that a register chooses, and of the one of the present
    /// context.
    Context(u32),
    Present(u32),
}

const FRAME_KEY: u32 = std::mem::offset_of!(CallerFrame, key) as u32;
const FRAME_VALUE: u32 = std::mem::offset_of!(CallerFrame, frame) as u32;
const FRAME_CONTEXT: u32 = FRAME_VALUE + 4;
const RSP: usize = 4;
const PATH_KEY: u32 = std::mem::offset_of!(TableEntry, key) as u32;
const PATH_COUNT: u32 = std::mem::offset_of!(TableEntry, count) as u32;

/// Executes an instruction; `None` if it has no meaning of its own in these copies.
pub(super) fn step(state: &mut State, pending: &Pending, insn: &Instruction, probe: Probe) -> Option<Step> {
    let field = field(state, insn, trigger::returns(probe))?;
    let counts_misses = probe.cache().is_some();
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr()).map(|r| r.full_register().number());
    match insn.code() {
        Code::Jmp_rm64 => return jump(state, field),
        Code::Mov_rm64_r64 => store(state, field, register(1)?)?,
        Code::Mov_r64_rm64 => state.registers[register(0)?] = load(state, field, counts_misses)?,
        Code::Mov_rm32_r32 => store_low(state, field, register(1)?)?,
        Code::Mov_r32_rm32 => {
            state.registers[register(0)?] = Value::Exact(match field {
                Field::Header(offset::FRAME) => Known::Frame(state.exact.done.frame),
                Field::Frame(FRAME_VALUE) if state.exact.is_own => Known::LeftFrame,
                Field::Frame(FRAME_CONTEXT) if state.exact.is_same => Known::LeftContext,
                Field::Header(offset::CONTEXT) => Known::Context(state.exact.done.context),
                Field::Header(offset::TARGET) if state.fields.target == Value::Target => Known::ReturnTag,
                Field::Present(contexts::KEY) if state.exact.done.context == Context::Kept => Known::ParentContext,
                Field::Context(at) => contexts::load(state, at)?,
                Field::Header(offset::ENDS_BETWEEN) => Known::EndsBetween,
                Field::Header(at @ (offset::N_CHECK | offset::N_INSTR)) => trigger::next_checks(state, probe, at)?,
                _ => return None,
            });
        }
        Code::Movsxd_r64_rm32 if field == Field::Header(offset::FRAME) => {
            state.registers[register(0)?] = Value::Exact(Known::SignedFrame(state.exact.done.frame));
        }
        Code::Mov_rm32_imm32 if field == Field::Header(offset::FRAME) => {
            state.exact.done.frame = Frame::Is(insn.immediate32() as i32);
        }
        // The key comes last.
        Code::Mov_rm32_imm32 if field == Field::FrameSite && !state.exact.left.has_key => {
            state.exact.left.site = Some(insn.immediate32());
        }
        Code::Mov_rm32_imm32 if field == Field::Header(offset::SAMPLES_WANTED) => {
            samples::set_wanted(state, insn.immediate32())?;
        }
        Code::Mov_rm32_imm32 if field == Field::Header(offset::CONTEXT) => {
            contexts::store_constant(state, insn.immediate32())?;
        }
        Code::Mov_rm32_imm32 if field == Field::Header(offset::IS_INSTRUMENTED) => {
            trigger::turn(state, probe, insn.immediate32())?;
        }
        Code::Dec_rm32 if field == Field::Header(offset::CHECKS) => {
            state.flags = Flags::Exact(trigger::count_down(state, probe)?);
        }
        _ => {
            state.flags = calculate(state, pending, insn, field, counts_misses)?;
        }
    }
    Some(Step::Next)
}

fn field(state: &State, insn: &Instruction, returns: u32) -> Option<Field> {
    let displacement = insn.memory_displacement64() as i64;
    let value = |register: Register| match register.is_gpr64().then(|| state.registers[register.number()]) {
        Some(Value::Exact(known)) => Some(known),
        _ => None,
    };
    let (base, index, scale) = (insn.memory_base(), insn.memory_index(), insn.memory_index_scale());
    let within = |start: u32| u32::try_from(displacement - i64::from(start)).ok();
    match (base, index) {
        (Register::None, Register::None) if displacement < wire::PAGE as i64 => within(0).map(Field::Header),
        (Register::None, Register::None) => Some(Field::Cell(u32::try_from(cell_at(displacement)?).ok()?)),
        (Register::None, index) => match (value(index)?, scale) {
            (Known::SignedFrame(frame), 8) => Some(Field::PathCell(cell_at(displacement)?, frame)),
            (Known::FrameSlot, FRAME_SCALE) => within(FRAMES).map(Field::Frame),
            (Known::ReturnIndex, RETURN_SCALE) if within(returns) == Some(0) => Some(Field::Return),
            _ => None,
        },
        (base, Register::None) if value(base) == Some(Known::PathSlot) => match within(PATH_METRIC) {
            Some(at) if state.exact.done.is_sampled => Some(Field::Squares(at)),
            Some(at) => (at == 0).then_some(Field::PathCycles),
            None => within(PATHS).map(Field::Path),
        },
        (base, Register::None) if value(base) == Some(Known::FrontPathSlot) => {
            match (within(PATH_METRIC + FRONT_PATHS), within(PATHS + FRONT_PATHS)) {
                (Some(at), _) => (at == 0).then_some(Field::PathCycles),
                (None, at) => at.map(Field::Path),
            }
        }
        (base, Register::None) => match value(base)? {
            Known::FrameSlot if within(FRAME_METRIC) == Some(0) => Some(Field::FrameCycles),
            Known::FrameSlot if within(FRAME_SITES) == Some(0) => Some(Field::FrameSite),
            Known::ContextPlace => within(CONTEXTS).map(Field::Context),
            Known::FrontContextPlace => within(CONTEXTS + FRONT_CONTEXTS).map(Field::Context),
            Known::Context(_) => within(CONTEXTS).map(Field::Present),
            _ => None,
        },
        _ => None,
    }
}

fn store(state: &mut State, field: Field, from: usize) -> Option<()> {
    let exact = &mut state.exact;
    match (field, state.registers[from]) {
        (Field::Cell(cell), Value::Exact(Known::NextCount(counted))) if cell == counted => {
            exact.done = exact.done.count(cell)?;
        }
        (Field::Cell(cell), Value::Twin) => {
            let claim = exact.claim.filter(|claim| claim.cell + 1 == cell && !claim.has_twin)?;
            exact.claim = Some(Claim { has_twin: true, ..claim });
        }
        // Whoever finds the target finds its twin.
        (Field::Cell(cell), Value::Target) => {
            exact.claim.take_if(|claim| claim.cell == cell && claim.has_twin)?;
        }
        (Field::Frame(FRAME_KEY), Value::Program) if from == RSP => exact.left.has_key = true,
        (Field::Header(offset::CHARGED), _) => clock::set(state, from)?,
        (Field::Header(offset::ENDED_METRIC), _) => clock::keep(state, from)?,
        (Field::FrameCycles, _) => clock::leave(state, from)?,
        (Field::Squares(samples::LAST), Value::Exact(Known::NextGrowth)) => samples::set_last(exact)?,
        (Field::Header(offset::WANTED_CONTEXT), _) => contexts::want(state, from)?,
        (Field::Return, Value::Exact(Known::NewReturnEntry)) => {}
        (Field::Header(offset::TWIN), twin @ Value::Exact(Known::Place(_) | Known::Landing | Known::TableTwin)) => {
            state.fields.twin = twin;
        }
        (Field::Header(offset::SAVED_RDX), row @ Value::Exact(Known::Place(_))) => state.fields.saved_rdx = row,
        _ => return None,
    }
    Some(())
}

fn load(state: &State, field: Field, counts_misses: bool) -> Option<Value> {
    Some(match field {
        Field::Cell(cell) if state.exact.remembered.is_some_and(|remembered| remembered + 1 == cell) => Value::Twin,
        Field::Cell(cell) => Value::Exact(Known::Count(cell)),
        Field::Return => Value::Exact(Known::ReturnEntry),
        Field::FrameCycles if state.exact.is_own => Value::Exact(Known::LeftMetric),
        Field::Header(offset::CHARGED) => Value::Exact(Known::Charged),
        Field::Header(offset::MISSES) if counts_misses => Value::Exact(Known::Now),
        Field::Header(offset::ENDED_METRIC) if state.exact.has_ended_metric => Value::Exact(Known::PathTime),
        Field::Path(PATH_KEY) => Value::Exact(Known::EntryKey),
        Field::Squares(samples::LAST) if matches!(state.exact.entry, PathEntry::Found(_)) => {
            Value::Exact(Known::LastSample)
        }
        Field::Header(offset::SAMPLING_TICK) if state.registers[RAX] == Value::Exact(Known::OldSample) => {
            Value::Exact(Known::Growth)
        }
        Field::Header(offset::TWIN) if state.fields.twin == Value::Twin => Value::Twin,
        Field::Header(offset::SAVED_RDX) if state.fields.saved_rdx == Value::Exact(Known::Row) => {
            Value::Exact(Known::Row)
        }
        // Any flags will do where nobody needs them.
        Field::Header(offset::SAVED_FLAGS) if !state.live.flags => Value::PackedFlags,
        _ => return None,
    })
}

fn store_low(state: &mut State, field: Field, from: usize) -> Option<()> {
    let Value::Exact(value) = state.registers[from] else { return None };
    let exact = &mut state.exact;
    match (field, value) {
        (Field::Header(offset::FRAME), Known::Frame(frame)) => exact.done.frame = frame,
        (Field::Header(offset::FRAME), Known::LeftFrame) if exact.done.frame == Frame::Foreign => {
            exact.done.frame = Frame::Kept(0);
        }
        // The key comes last.
        (Field::Frame(_), _) if exact.left.has_key => return None,
        (Field::Frame(FRAME_VALUE), Known::Frame(Frame::Kept(0))) => exact.left.has_path = true,
        (Field::Frame(FRAME_CONTEXT), Known::Context(Context::Kept)) => exact.left.has_context = true,
        (Field::Header(offset::CONTEXT), value) => contexts::store(state, value)?,
        (Field::Header(offset::ENDS_TO_SKIP), Known::EndsBetween) => samples::rewind(state)?,
        (Field::Header(offset::CHECKS), Known::NextChecks { again }) => trigger::set_checks(state, again)?,
        _ => return None,
    }
    Some(())
}

/// What changes flags. Returns what they tell.
fn calculate(
    state: &mut State,
    pending: &Pending,
    insn: &Instruction,
    field: Field,
    counts_misses: bool,
) -> Option<Flags> {
    let [rax, rcx] = [RAX, RCX].map(|number| state.registers[number]);
    let first = insn.op_register(0).is_gpr64().then(|| state.registers[insn.op_register(0).number()]);
    let is_own = |cell: u32| pending.remembering() == Some(cell);
    Some(Flags::Exact(match (insn.code(), field) {
        (Code::Inc_rm64, _) => {
            increment(state, field)?;
            return Some(Flags::Junk);
        }
        (Code::Add_rm32_imm32, Field::Header(offset::FRAME)) => {
            state.exact.done.frame = state.exact.done.frame.plus(insn.immediate32() as i32)?;
            return Some(Flags::Junk);
        }
        (Code::Add_rm32_r32, Field::Header(offset::FRAME)) if insn.op1_register() == Register::EAX => {
            let Value::Exact(Known::RowAmount(index)) = rax else { return None };
            (state.exact.done.frame == Frame::Kept(0)).then_some(())?;
            state.exact.done.frame = Frame::PlusRow(index);
            return Some(Flags::Junk);
        }
        (Code::Sub_r64_rm64, Field::Header(offset::CHARGED)) => {
            clock::time(state, insn.op0_register().number())?;
            return Some(Flags::Junk);
        }
        (Code::Add_rm64_r64, Field::PathCycles) if insn.op1_register() == Register::RAX => {
            clock::add(state)?;
            return Some(Flags::Junk);
        }
        (Code::Cmp_rm32_imm8, Field::Header(offset::SAMPLES_WANTED)) if insn.immediate8() == 0 => {
            samples::may_ask(state).then_some(Outcome::Wanted)?
        }
        (Code::Sub_rm32_imm8, Field::Header(at)) if insn.immediate8() == 1 => samples::count_down(state, at)?,
        (Code::Cmp_r64_rm64, Field::Header(offset::SAMPLING_TICK)) if insn.op0_register() == Register::RAX => {
            (rax == Value::Exact(Known::LastSample)).then_some(Outcome::SameTick)?
        }
        (Code::Add_rm32_r32, Field::Squares(samples::SUM)) if insn.op1_register() == Register::EAX => {
            samples::grow(state).map(|()| Outcome::SquaresCarry)?
        }
        (Code::Adc_rm32_imm8, Field::Squares(samples::SUM_HIGH)) if insn.immediate8() == 0 => {
            samples::carry(state)?;
            return Some(Flags::Junk);
        }
        (_, Field::Present(contexts::CYCLES)) => {
            contexts::charge(state, insn)?;
            return Some(Flags::Junk);
        }
        (_, Field::Context(contexts::KEY)) => contexts::compare(state, insn)?,
        (Code::Cmp_r64_rm64, Field::Frame(FRAME_KEY)) if insn.op0_register() == Register::RSP => Outcome::SameFrame,
        (Code::Cmp_rm32_imm32, Field::FrameSite) if state.exact.is_same => {
            (state.exact.landing_site == Some(insn.immediate32())).then_some(Outcome::OwnFrame)?
        }
        (Code::Xor_r32_rm32, Field::Header(offset::TARGET)) if insn.op0_register() == Register::EAX => {
            let is_high = rax == Value::Exact(Known::HighReturn) && state.fields.target == Value::Target;
            is_high.then(|| state.registers[RAX] = Value::Exact(Known::ReturnBits))?;
            return Some(Flags::Junk);
        }
        (Code::Sub_r64_rm64, Field::Header(offset::TARGET)) if rax == Value::Exact(Known::Landing) => {
            (insn.op0_register() == Register::RAX && state.fields.target == Value::Target).then_some(())?;
            state.registers[RAX] = Value::Exact(Known::LandingDistance);
            return Some(Flags::Junk);
        }
        (Code::Cmp_r64_rm64, Field::Header(offset::CHARGED)) => {
            let is_now = first == Some(Value::Exact(Known::Now)) && state.exact.done.clock == Clock::Kept;
            is_now.then_some(Outcome::SameMetric)?
        }
        (Code::Add_r64_rm64, Field::Header(at @ (offset::MISSES | offset::CHARGED))) => {
            let is_counter = counts_misses == (at == offset::MISSES) && state.exact.done.clock == Clock::Foreign;
            (is_counter && first == Some(Value::Exact(Known::LessLeftMetric))).then_some(())?;
            state.registers[insn.op_register(0).number()] = Value::Exact(Known::PathStart);
            return Some(Flags::Junk);
        }
        (Code::Add_rm64_r64, Field::PathCell(cell, frame)) if insn.op1_register() == Register::RAX => {
            clock::add_to_cell(state, cell, frame)?;
            return Some(Flags::Junk);
        }
        (Code::Cmp_r64_rm64 | Code::Add_r64_rm64, Field::Header(at)) if insn.op0_register() == Register::RAX => {
            match (rax, insn.code()) {
                (Value::Exact(Known::LastByteOffset(cluster)), Code::Cmp_r64_rm64) => {
                    let is_span = at == offset::cluster(cluster) + std::mem::offset_of!(Cluster, span) as u32;
                    is_span.then_some(Outcome::LastByteSpan(cluster))?
                }
                (Value::Exact(Known::LandingOffset(cluster)), Code::Add_r64_rm64) => {
                    let base = offset::cluster(cluster) + std::mem::offset_of!(Cluster, copy_base) as u32;
                    (at == base && cluster < N_CLUSTERS).then_some(())?;
                    state.registers[RAX] = Value::Exact(Known::Landing);
                    return Some(Flags::Junk);
                }
                _ => return None,
            }
        }
        (Code::Cmp_rm64_r64, Field::Path(PATH_KEY)) => {
            Outcome::SamePath(path_of(state.registers[insn.op1_register().number()])?)
        }
        (Code::Cmp_r64_rm64, Field::Cell(cell)) if first == Some(Value::Target) && is_own(cell) => {
            Outcome::Remembered(cell)
        }
        (Code::Cmp_rm64_imm8, Field::Cell(cell)) if is_own(cell) && insn.immediate8() == 0 => Outcome::InUse,
        (Code::Cmpxchg_rm64_r64, Field::Cell(cell)) if is_own(cell) && insn.op1_register() == Register::RCX => {
            let is_ready = (rax, rcx) == (Value::Exact(Known::Zero), Value::Exact(Known::One));
            (is_ready && state.exact.claim.is_none()).then_some(())?;
            state.registers[RAX] = Value::Junk;
            Outcome::Taken(cell)
        }
        (Code::Cmp_rm32_imm32, Field::Header(offset::N_PATH_ENTRIES)) if insn.immediate32() == MAX_PATH_ENTRIES => {
            Outcome::Room
        }
        (Code::Cmpxchg_rm64_r64, Field::Path(PATH_KEY)) if insn.op1_register() == Register::RCX => {
            let is_ready = rax == Value::Exact(Known::Zero) && path_of(rcx).is_some();
            (is_ready && state.exact.entry == PathEntry::Room).then_some(())?;
            state.registers[RAX] = Value::Junk;
            Outcome::TakenEntry
        }
        _ => return None,
    }))
}

fn increment(state: &mut State, field: Field) -> Option<()> {
    let exact = &mut state.exact;
    let is_timed = if exact.entry == PathEntry::Full { exact.has_ended_metric } else { exact.has_added_cycles };
    let end = match field {
        Field::Cell(cell) => {
            exact.done = exact.done.count(cell)?;
            return Some(());
        }
        Field::Header(offset::N_PATH_ENTRIES) if exact.entry == PathEntry::New => {
            exact.entry = PathEntry::Found(path_of(state.registers[RCX])?);
            return Some(());
        }
        Field::Context(contexts::COUNT) => return contexts::count(state),
        Field::PathCell(cell, frame) => End::Cell(cell, frame),
        Field::Path(PATH_COUNT) => match exact.entry {
            PathEntry::Found(end) if samples::may_count(exact) => end,
            _ => return None,
        },
        Field::Header(offset::LOST_PATHS) if exact.entry == PathEntry::Full => path_of(state.registers[RCX])?,
        _ => return None,
    };
    exact.entry = PathEntry::Unknown;
    if let End::Callee(key) = end {
        // The stub may have counted the path before, and comes back once more.
        exact.is_back = false;
        return exact.done.callee.replace(key).is_none().then_some(());
    }
    exact.done.is_timed = is_timed;
    exact.done.end.is_none().then(|| exact.done.end = Some(end))
}

fn jump(state: &mut State, field: Field) -> Option<Step> {
    let is_gone = match field {
        Field::Header(offset::GATE) if state.end_reason == Some(EndReason::NewContext) => return contexts::made(state),
        Field::Header(offset::GATE) => {
            state.has_ended = state.end_reason.is_some() && state.is_at(state.fields.target);
            state.has_ended
        }
        Field::Header(offset::TWIN) => match state.fields.twin {
            Value::Exact(Known::Place(place)) => return back(state).map(|()| Step::Back(place)),
            Value::Exact(Known::Landing | Known::TableTwin) => state.point == Point::Target,
            _ => return None,
        },
        _ => false,
    };
    (is_gone && state.is_restored()).then_some(Step::Gone)
}

/// Back from counting a path, once. However it was counted, all that is needed from here on is
/// where it was saved.
fn back(state: &mut State) -> Option<()> {
    let has_counted = state.exact.done.end.is_some() || state.exact.done.callee.is_some();
    let is_first = has_counted && !std::mem::replace(&mut state.exact.is_back, true);
    [RAX, RCX, RDX].into_iter().for_each(|number| state.registers[number] = Value::Junk);
    state.flags = Flags::Junk;
    state.exact.sampling = Sampling::Unknown;
    is_first.then_some(())
}

/// The path that is counted under this key in the path table.
pub(super) fn path_of(key: Value) -> Option<End> {
    match key {
        Value::Exact(Known::PathKey(key, path)) => Some(End::Table(key, path)),
        Value::Exact(Known::ContextPathKey(path)) => Some(End::OfContext(path)),
        Value::Exact(Known::CalleeKey(key)) => Some(End::Callee(key)),
        _ => None,
    }
}
