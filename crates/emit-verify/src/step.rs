//! The meaning of the instructions that probes consist of, on abstract values.
//!
//! Each arm states what an instruction needs and what it gives. What has no arm, or lacks what it
//! needs, is not allowed in a probe.

use iced_x86::{Code, Instruction, OpKind, Register};
use wire::clusters::{Cluster, N_CLUSTERS};
use wire::recovery::saves;
use wire::sample::EndReason;
use wire::thread::{offset, thread_state};

use super::index::{Index, offset_of, original_at};
use super::state::{Flags, Point, R11, RAX, RCX, RDX, State, Value};
use super::transfer::Pending;
use super::{cache, events, exact};

/// Where control goes after an instruction of a probe.
#[derive(Debug)]
pub(super) enum Step {
    /// To the next instruction.
    Next,
    /// There.
    Jump(u32),
    /// There, where other ways of the same walk may have arrived in the same state.
    Back(u32),
    /// There, in that state, or to the next instruction.
    Branch(u32, Box<State>),
    /// To the original, or to the copy of the target: the walk is over.
    Gone,
}

/// Executes one instruction; `None` if it is not allowed.
pub(super) fn step(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
    if !index.copy.events().is_empty()
        && let Some(step) = events::step(index, state, pending, insn)
    {
        return Some(step);
    }
    if let Some(step) = cache::step(index, state, pending, insn) {
        return Some(step);
    }
    if index.copy.probe().stays()
        && let Some(step) = exact::step(index, state, pending, insn)
    {
        return Some(step);
    }
    if insn.segment_prefix() == Register::GS {
        return field(index, state, insn);
    }
    match insn.code() {
        Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => return Some(Step::Jump(offset_of(insn.near_branch_target()))),
        Code::Jae_rel32_64 | Code::Je_rel32_64 | Code::Jns_rel32_64 => return branch(state, insn),
        Code::Jrcxz_rel8_64 => return branch_on_rcx(state, insn),
        Code::Push_rm64 => push(index, state, pending, insn)?,
        Code::Mov_r64_rm64 => pending.load(state, insn)?,
        Code::Lea_r64_m | Code::Lea_r32_m => address(state, pending, insn)?,
        Code::Syscall => system_call(index, state, pending)?,
        Code::Rdtsc if index.copy.probe().cache().is_some() => return None,
        Code::Mov_rm32_imm32 => record(state, insn)?,
        _ => other(state, insn)?,
    }
    Some(Step::Next)
}

/// What flags become when they are taken from a field.
pub(super) fn unpacked(saved_flags: Value) -> Flags {
    if saved_flags == Value::PackedFlags { Flags::Program } else { Flags::Junk }
}

/// An instruction with a field of the thread's header.
fn field(index: &Index<'_>, state: &mut State, insn: &Instruction) -> Option<Step> {
    let is_absolute = insn.memory_base() == Register::None && insn.memory_index() == Register::None;
    let at = u32::try_from(insn.memory_displacement64()).ok().filter(|_| is_absolute)?;
    let register = |op: u32| Some(insn.op_register(op)).filter(|r| r.is_gpr()).map(|r| r.full_register().number());
    match insn.code() {
        Code::Mov_rm64_r64 => store(state, at, register(1)?)?,
        Code::Mov_rm32_r32 => store_low(state, at, register(1)?)?,
        Code::Mov_r64_rm64 => load(state, register(0)?, at, exact::map_field(index.copy.probe(), state))?,
        Code::Mov_r32_rm32 if at == offset::N_SYSTEM_CALLS => state.registers[register(0)?] = Value::Count,
        Code::Mov_rm32_imm32 => store_constant(state, at, insn.immediate32())?,
        Code::Cmp_r64_rm64 => compare(state, register(0)?, at)?,
        Code::Sub_r64_rm64 => {
            let cluster = cluster_field(at, std::mem::offset_of!(Cluster, lo))?;
            let target = &mut state.registers[register(0)?];
            *target = Some(Value::TargetOffset(cluster)).filter(|_| *target == Value::Target)?;
            state.flags = Flags::Junk;
        }
        Code::Add_r64_rm64 => {
            let cluster = cluster_field(at, std::mem::offset_of!(Cluster, leader_base))?;
            let entry = &mut state.registers[register(0)?];
            *entry = Some(Value::Twin).filter(|_| *entry == Value::LeaderEntry(cluster))?;
            state.flags = Flags::Junk;
        }
        Code::Dec_rm32 if at == offset::CHECKS => {
            state.flags = Flags::Checks;
            state.n_checks += 1;
        }
        Code::Jmp_rm64 => return gone(index, state, at),
        _ => return None,
    }
    Some(Step::Next)
}

fn cluster_field(at: u32, field: usize) -> Option<usize> {
    (0..N_CLUSTERS).find(|&cluster| offset::cluster(cluster) + field as u32 == at)
}

fn store(state: &mut State, at: u32, from: usize) -> Option<()> {
    let value = state.registers[from];
    // A dead register may hold anything, also when the burst ends.
    let is_right = state.is_right(from, value);
    if let Some((saved, register)) = state.fields.saved(at) {
        *saved = Some(value).filter(|_| register == from && is_right)?;
        return Some(());
    }
    match (at, value) {
        (offset::SAVED_FLAGS, Value::PackedFlags) => state.fields.saved_flags = value,
        (offset::TARGET, Value::Target | Value::Address(_)) => state.fields.target = value,
        (offset::TWIN, Value::Twin) => state.fields.twin = value,
        (offset::CURSOR, Value::NextCursor) => state.recorded = Some(state.written.take()?),
        (offset::SYSTEM_CALL_NUMBER, Value::Program) if from == RAX => {}
        (offset::SYSTEM_CALL_CYCLES, Value::NewCycles) => {}
        _ => return None,
    }
    Some(())
}

fn store_low(state: &mut State, at: u32, from: usize) -> Option<()> {
    let value = state.registers[from];
    if at == offset::N_SYSTEM_CALLS {
        return (value == Value::NewCount).then_some(());
    }
    let (time, is_high) = state.fields.time(at)?;
    *time = match (value, is_high) {
        (Value::TimeLow, false) => Value::TimeLow,
        (Value::TimeHigh, true) if *time == Value::TimeLow => Value::Time,
        _ => return None,
    };
    Some(())
}

fn load(state: &mut State, to: usize, at: u32, map: usize) -> Option<()> {
    if let Some((&mut saved, register)) = state.fields.saved(at) {
        state.registers[to] = Some(saved).filter(|&saved| register == to && state.is_right(to, saved))?;
        return Some(());
    }
    state.registers[to] = match at {
        offset::CURSOR => Value::Cursor,
        offset::SAVED_FLAGS if state.fields.saved_flags == Value::PackedFlags => Value::PackedFlags,
        offset::TARGET => state.fields.target,
        offset::SYSTEM_CALLS_THAT_LEAVE => Value::LeaveTable,
        offset::UNLOADS_PENDING => Value::PendingAddress,
        offset::SYSTEM_CALL_START if to == RDX && state.fields.start == Value::Time => Value::Time,
        offset::SYSTEM_CALL_END if to == RAX && state.fields.end == Value::Time => Value::Time,
        offset::SYSTEM_CALL_CYCLES => Value::Cycles,
        _ => Value::Map(cluster_field(at, map)?),
    };
    Some(())
}

fn store_constant(state: &mut State, at: u32, value: u32) -> Option<()> {
    match at {
        offset::END_REASON => {
            state.end_reason = Some(u8::try_from(value).ok().and_then(EndReason::from_u8)?);
        }
        offset::STATE if value == thread_state::ENDED && state.fields.end_tsc == Value::Time => {
            state.has_ended = state.end_reason.is_some();
        }
        _ => return None,
    }
    Some(())
}

fn compare(state: &mut State, register: usize, at: u32) -> Option<()> {
    state.flags = match state.registers[register] {
        Value::Cursor | Value::NextCursor if at == offset::LIMIT => Flags::Limit,
        Value::TargetOffset(cluster) if cluster_field(at, std::mem::offset_of!(Cluster, span)) == Some(cluster) => {
            Flags::Span(cluster)
        }
        _ => return None,
    };
    Some(())
}

/// A jump through a field: to the twin of the target, or back to the original.
fn gone(index: &Index<'_>, state: &State, at: u32) -> Option<Step> {
    let arrives = match at {
        offset::TWIN => state.fields.twin == Value::Twin && state.point == Point::Target && !state.has_ended,
        offset::TARGET => state.has_ended && state.is_at(state.fields.target) && !index.copy.probe().stays(),
        _ => false,
    };
    (arrives && state.is_restored()).then_some(Step::Gone)
}

fn branch(state: &mut State, insn: &Instruction) -> Option<Step> {
    let mut taken = *state;
    match (state.flags, insn.code()) {
        (Flags::Limit, Code::Jae_rel32_64) => {
            taken.why = Some(EndReason::BufferFull);
            state.looked_at_limit = true;
        }
        (Flags::Checks, Code::Je_rel32_64) => taken.why = Some(EndReason::Full),
        (Flags::Span(cluster), Code::Jae_rel32_64) => {
            taken.not_in |= 1 << cluster;
            if taken.not_in == (1 << N_CLUSTERS) - 1 {
                taken.why = Some(EndReason::Outside);
            }
            // A second look at a cluster is as good as the first.
            state.exact.n_looks += 1;
            state.why.take_if(|why| matches!(why, EndReason::Outside | EndReason::NoCopy));
        }
        (Flags::Sign(cluster), Code::Jns_rel32_64) => {
            taken.why = Some(EndReason::NoCopy);
            let entry = &mut state.registers[RAX];
            *entry = Some(Value::LeaderEntry(cluster)).filter(|_| *entry == Value::MapEntry(cluster))?;
        }
        _ => return None,
    }
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

fn branch_on_rcx(state: &mut State, insn: &Instruction) -> Option<Step> {
    let taken = *state;
    state.why = Some(match state.registers[RCX] {
        Value::LeaveByte => EndReason::SystemCall,
        Value::Pending => EndReason::Unloading,
        _ => return None,
    });
    Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)))
}

fn push(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<()> {
    let is_literal = insn.op0_kind() == OpKind::Memory && insn.memory_base() == Register::RIP;
    let literal = index.literal(offset_of(insn.memory_displacement64())).filter(|_| is_literal)?;
    pending.push(state, literal)
}

/// `lea` in its various uses.
fn address(state: &mut State, pending: &Pending, insn: &Instruction) -> Option<()> {
    let to = insn.op0_register();
    let base = insn.memory_base();
    if base == Register::RSP && insn.memory_index() == Register::None && to == Register::RSP {
        return pending.drop(state, insn.memory_displacement64());
    }
    let number = to.full_register().number();
    let value = state.registers[number];
    let (rax, rdx) = (state.registers[RAX], state.registers[RDX]);
    let adds_rdx = base == Register::RAX && insn.memory_index() == Register::RDX && insn.memory_index_scale() == 1;
    let is_plain = insn.memory_index() == Register::None && base.full_register() == to.full_register();
    state.registers[number] = match insn.memory_displacement64() {
        target if base == Register::RIP && insn.code() == Code::Lea_r64_m => Value::Address(original_at(target)?),
        4 if is_plain && value == Value::Cursor && insn.code() == Code::Lea_r64_m => {
            state.written?;
            Value::NextCursor
        }
        1 if is_plain && value == Value::Count && insn.code() == Code::Lea_r32_m => Value::NewCount,
        1 if adds_rdx && to == Register::RAX && (rax, rdx) == (Value::Time, Value::NotStart) => Value::Duration,
        0 if adds_rdx && to == Register::RAX && (rax, rdx) == (Value::Duration, Value::Cycles) => Value::NewCycles,
        _ => return None,
    };
    Some(())
}

fn system_call(index: &Index<'_>, state: &mut State, pending: &Pending) -> Option<()> {
    let (next, live) = pending.next_of_system_call().filter(|_| state.why.is_none() && state.is_restored())?;
    state.fields.saved_rax = Value::Junk;
    state.fields.saved_rdx = Value::Junk;
    (state.fields.start == Value::Time || index.copy.probe().stays()).then_some(())?;
    state.point = Point::At(next);
    state.live = live;
    state.rcx_is = Some(next);
    state.registers[RCX] = Value::Junk;
    state.registers[R11] = Value::Program;
    Some(())
}

fn record(state: &mut State, insn: &Instruction) -> Option<()> {
    let base = insn.memory_base();
    let is_plain = insn.memory_index() == Register::None && insn.memory_displacement64() == 0 && base.is_gpr64();
    let is_cursor = is_plain && state.registers[base.number()] == Value::Cursor;
    (is_cursor && state.written.is_none() && state.recorded.is_none()).then_some(())?;
    state.written = Some(insn.immediate32());
    Some(())
}

/// Instructions of which probes have just one form each.
fn other(state: &mut State, insn: &Instruction) -> Option<()> {
    let registers = [insn.op0_register(), insn.op1_register()];
    let memory = (insn.memory_base(), insn.memory_index(), insn.memory_index_scale(), insn.memory_displacement64());
    let (rax, rcx, rdx) = (state.registers[RAX], state.registers[RCX], state.registers[RDX]);
    let is_saved = |bit: u8| match bit {
        saves::RAX => state.fields.saved_rax == Value::Program || !state.live.register(RAX),
        _ => state.fields.saved_rdx == Value::Program || !state.live.register(RDX),
    };
    let has_flags = state.flags_are_right();
    match insn.code() {
        Code::Lahf if has_flags && is_saved(saves::RAX) => {
            state.registers[RAX] = Value::PartialFlags;
        }
        Code::Seto_rm8 if has_flags && rax == Value::PartialFlags => {
            (registers[0] == Register::AL).then_some(())?;
            state.registers[RAX] = Value::PackedFlags;
        }
        Code::Add_AL_imm8 if rax == Value::PackedFlags && insn.immediate8() == 0x7f => {
            state.registers[RAX] = Value::AddedFlags;
            state.flags = Flags::Overflow;
        }
        Code::Sahf if rax == Value::AddedFlags && state.flags == Flags::Overflow => state.flags = Flags::Program,
        Code::Rdtsc if is_saved(saves::RAX) && is_saved(saves::RDX) => {
            state.registers[RAX] = Value::TimeLow;
            state.registers[RDX] = Value::TimeHigh;
        }
        Code::Not_rm64 if registers[0] == Register::RDX && rdx == Value::Time => {
            state.registers[RDX] = Value::NotStart;
        }
        Code::Test_rm32_r32 if registers == [Register::EAX; 2] => {
            let Value::MapEntry(cluster) = rax else { return None };
            state.flags = Flags::Sign(cluster);
        }
        Code::Mov_r32_rm32 if registers[0] == Register::EAX => {
            let base = Some(memory.0).filter(|base| base.is_gpr64())?;
            let (Value::Map(cluster), Value::TargetOffset(offset)) = (state.registers[base.number()], rax) else {
                return None;
            };
            let is_entry = cluster == offset && memory == (base, Register::RAX, 4, 0);
            // The flags still tell that the offset is less than the span.
            (is_entry && state.flags == Flags::Span(cluster)).then_some(())?;
            state.registers[RAX] = Value::MapEntry(cluster);
        }
        Code::Mov_r32_rm32 if registers[0] == Register::ECX && rcx == Value::PendingAddress => {
            (memory == (Register::RCX, Register::None, 1, 0)).then_some(())?;
            state.registers[RCX] = Value::Pending;
        }
        Code::Movzx_r32_rm16 if registers == [Register::ECX, Register::AX] && rax == Value::Program => {
            state.registers[RCX] = Value::CallNumber;
        }
        Code::Movzx_r32_rm8 if registers[0] == Register::ECX && rcx == Value::CallNumber => {
            let is_table = state.registers[R11] == Value::LeaveTable;
            (is_table && memory == (Register::R11, Register::RCX, 1, 0)).then_some(())?;
            state.registers[RCX] = Value::LeaveByte;
        }
        _ => return None,
    }
    Some(())
}
