//! Whether a copy tells the data cache what the program accesses, and nothing else.
//!
//! Where a walk arrives at an instruction, it must have looked for every access of that
//! ([`Walker::expected_accesses`]): whether the line is the one that was used last in its set, and
//! the access ends in it. If so, nothing is left to do. If not, the module's stub must be asked,
//! with the first and the last byte. The stub has no alternatives: it is compared with what it must
//! be, instruction by instruction. That it does what a cache does, tests show.

use emit::Cache;
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use wire::exact::CACHE;
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::events::{Operand, Origin};
use super::exact::Known as Exact;
use super::index::{Index, offset_of};
use super::state::{Flags, Point, RAX, RCX, RDX, State, Value};
use super::step::Step;
use super::transfer::Pending;
use super::walk::{Landing, Walker};
use super::{Fault, SAMPLE, body, recovery};

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    operand: Operand,
    size: u64,
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The address of an operand.
    Address(Operand),
    /// From its lower half to the set.
    Low(Operand),
    Shifted(Operand),
    Set(Operand),
    /// How far it is from the line that was used last there.
    Distance(Operand),
    /// The last byte of an access.
    LastByte(Access),
}

/// The most accesses of one instruction.
const MAX_ACCESSES: usize = 2;

/// What the cache has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Told {
    done: [Option<Access>; MAX_ACCESSES],
    /// An access that was not found where the set was used last.
    other: Option<Access>,
}

impl Told {
    fn add(&mut self, access: Access) -> Option<()> {
        *self.done.iter_mut().find(|place| place.is_none())? = Some(access);
        Some(())
    }

    /// Whether this is what it must have been told, in any order.
    fn is(self, expected: &[Access]) -> bool {
        let mut rest: Vec<Access> = self.done.into_iter().flatten().collect();
        let are_done = expected.iter().all(|access| {
            let place = rest.iter().position(|done| done == access);
            place.map(|place| rest.swap_remove(place)).is_some()
        });
        are_done && rest.is_empty() && self.other.is_none()
    }
}

impl Walker<'_, '_> {
    /// Checks what the cache has been told where a walk ends, at `landing` if it has arrived.
    pub fn check_accesses(&self, at: u32, state: &State, landing: Option<&Landing>) -> Result<(), Fault> {
        let Some(cache) = self.module.options.probe.cache() else { return Ok(()) };
        let expected = landing.map_or(Vec::new(), |landing| self.expected_accesses(cache, landing));
        if state.told.is(&expected) { Ok(()) } else { Err(Fault::Access { at }) }
    }

    /// What the instruction accesses where a walk has arrived: what its operand names, what is on
    /// top of the stack, and strings.
    fn expected_accesses(&self, cache: Cache, landing: &Landing) -> Vec<Access> {
        let Some(insn) = self.instruction_at(landing) else { return Vec::new() };
        let has_count = insn.has_rep_prefix() || insn.has_repne_prefix();
        let is_near = matches!(insn.mnemonic(), Mnemonic::Push | Mnemonic::Pop | Mnemonic::Call | Mnemonic::Ret)
            || matches!(
                insn.mnemonic(),
                Mnemonic::Leave | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Pushf | Mnemonic::Popf
            );
        let is_far = insn.is_stack_instruction() && !is_near || insn.is_call_far_indirect() || insn.is_call_far();
        if insn.is_string_instruction() && has_count || is_far {
            return Vec::new();
        }
        let size = insn.memory_size().size() as u64;
        let mut factory = InstructionInfoFactory::new();
        let is_any = factory.info(&insn).used_memory().iter().any(|memory| memory.access() != OpAccess::NoMemAccess);
        let is_plain = !matches!(insn.memory_segment(), Register::FS | Register::GS);
        let mut all = Vec::new();
        for op in 0..insn.op_count() {
            let operand = match insn.op_kind(op) {
                OpKind::Memory => self.memory_operand(&insn).map(|operand| after_pop(&insn, operand)),
                OpKind::MemorySegRSI if is_plain => Some(Operand::at(Register::RSI, 0)),
                OpKind::MemorySegRDI if is_plain => Some(Operand::at(Register::RDI, 0)),
                OpKind::MemoryESRDI => Some(Operand::at(Register::RDI, 0)),
                _ => None,
            };
            all.extend(operand.filter(|_| is_any && size != 0).map(|operand| Access { operand, size }));
        }
        let moved = i64::from(insn.stack_pointer_increment());
        let is_return = matches!(insn.mnemonic(), Mnemonic::Ret);
        if insn.mnemonic() == Mnemonic::Leave {
            let size = if insn.code() == Code::Leaveq { 8 } else { 2 };
            all.push(Access { operand: Operand::at(Register::RBP, 0), size });
        } else if insn.is_stack_instruction() && moved < 0 {
            all.push(Access { operand: Operand::at(Register::RSP, moved), size: moved.unsigned_abs() });
        } else if insn.is_stack_instruction() && 0 < moved {
            let size = if is_return { 8 } else { moved.unsigned_abs() };
            all.push(Access { operand: Operand::at(Register::RSP, 0), size });
        }
        all.into_iter().map(|access| Access { size: access.size.min(cache.line()), ..access }).collect()
    }
}

/// A pop finds its operand with the stack pointer behind what it has popped.
fn after_pop(insn: &Instruction, operand: Operand) -> Operand {
    if insn.mnemonic() == Mnemonic::Pop {
        operand.moved(Register::RSP, insn.stack_pointer_increment())
    } else {
        operand
    }
}

/// Executes an instruction that has to do with the cache; `None` if it has no meaning here.
pub(super) fn step(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
    let cache = index.copy.probe().cache()?;
    let [first, second] = [insn.op0_register(), insn.op1_register()];
    let number = |register: Register| register.is_gpr().then(|| register.full_register().number());
    match insn.code() {
        Code::Lea_r64_m => state.registers[number(first)?] = address(state, pending, insn)?,
        Code::Mov_rm32_r32 => {
            let operand = operand_at(state.registers[number(second)?])?;
            state.registers[number(first)?] = Value::Cache(Known::Low(operand));
        }
        Code::Shr_rm32_imm8 if insn.immediate8() == cache.set_shift() => {
            let Value::Cache(Known::Low(operand)) = state.registers[number(first)?] else { return None };
            state.registers[number(first)?] = Value::Cache(Known::Shifted(operand));
            state.flags = Flags::Junk;
        }
        Code::And_rm32_imm32 if insn.immediate32() == cache.set_mask() => {
            let Value::Cache(Known::Shifted(operand)) = state.registers[number(first)?] else { return None };
            state.registers[number(first)?] = Value::Cache(Known::Set(operand));
            state.flags = Flags::Junk;
        }
        Code::Xor_r64_rm64 if insn.segment_prefix() == Register::GS => {
            let operand = operand_at(state.registers[number(first)?])?;
            let set = Some(insn.memory_index()).filter(|set| set.is_gpr64())?;
            let is_its_set = state.registers[set.number()] == Value::Cache(Known::Set(operand))
                && insn.memory_base() == Register::None
                && (insn.memory_index_scale(), insn.memory_displacement64()) == (8, CACHE.into());
            is_its_set.then_some(())?;
            state.registers[number(first)?] = Value::Cache(Known::Distance(operand));
            state.flags = Flags::Junk;
            state.event.forget_address();
        }
        Code::Cmp_rm64_imm8 | Code::Cmp_rm64_imm32 if insn.op0_kind() == OpKind::Register => {
            let Value::Cache(Known::Distance(operand)) = state.registers[number(first)?] else { return None };
            let size = cache.line().checked_sub(insn.immediate(1)).filter(|&size| size != 0)?;
            state.flags = Flags::InLine(Access { operand, size });
        }
        Code::Ja_rel32_64 => {
            let Flags::InLine(access) = std::mem::replace(&mut state.flags, Flags::Junk) else { return None };
            let mut taken = *state;
            state.told.add(access)?;
            taken.told.other = Some(access);
            return Some(Step::Branch(offset_of(insn.near_branch_target()), Box::new(taken)));
        }
        Code::Jmp_rel32_64 => return ask_stub(index, cache, state, offset_of(insn.near_branch_target())),
        _ => return None,
    }
    Some(Step::Next)
}

/// The operand whose address this is. One that is relative to the instruction pointer looks like an
/// address of code.
fn operand_at(value: Value) -> Option<Operand> {
    match value {
        Value::Cache(Known::Address(operand)) | Value::Noted(Origin::Address(operand)) => Some(operand),
        Value::Address(original) => {
            let displacement = SAMPLE.module_base.wrapping_add(original.0.into());
            Some(Operand::at(Register::RIP, displacement as i64))
        }
        _ => None,
    }
}

/// `lea`: the address of an operand, or the last byte of an access.
fn address(state: &State, pending: &Pending, insn: &Instruction) -> Option<Value> {
    if let Some(access) = state.told.other
        && insn.op0_register() == Register::RCX
        && (insn.memory_base(), insn.memory_index()) == (Register::RDX, Register::None)
        && operand_at(state.registers[RDX]) == Some(access.operand)
    {
        let size = insn.memory_displacement64().wrapping_add(1);
        return Some(Value::Cache(Known::LastByte(Access { size, ..access })));
    }
    let is_arrived = match *pending {
        Pending::Nothing => true,
        Pending::PushNext { next } | Pending::SystemCall { next, .. } => state.point == Point::At(next),
        _ => false,
    };
    let is_own = insn.memory_base() != Register::RIP && insn.op0_register() != Register::RSP;
    let operand = Operand::of(insn).filter(|_| is_arrived && is_own && state.why.is_none())?;
    let are_programs = operand.registers().all(|number| state.registers[number] == Value::Program);
    are_programs.then_some(Value::Cache(Known::Address(operand)))
}

/// The stub makes the access and goes on at the address in `twin`.
fn ask_stub(index: &Index<'_>, cache: Cache, state: &mut State, stub: u32) -> Option<Step> {
    let access = state.told.other?;
    let Value::Exact(Exact::Place(back)) = state.fields.twin else { return None };
    let is_right = operand_at(state.registers[RDX]) == Some(access.operand)
        && state.registers[RCX] == Value::Cache(Known::LastByte(access))
        && index.access_stub(|| is_stub(index, cache, stub).then_some(stub)) == Some(stub)
        && recovery::is_right(index.run(stub)?, 0, state);
    is_right.then_some(())?;
    state.told.other = None;
    state.told.add(access)?;
    [RAX, RCX, RDX].into_iter().for_each(|number| state.registers[number] = Value::Junk);
    state.flags = Flags::Junk;
    state.fields.twin = Value::Junk;
    Some(Step::Back(back))
}

/// Whether the stub is there, all of it under one rule of recovery: the thread is about to be at
/// the target, and everything is saved.
fn is_stub(index: &Index<'_>, cache: Cache, stub: u32) -> bool {
    let mut at = stub;
    let mut next_line = 0;
    let all = stub_instructions(cache);
    let end_of_ways = all.len() - AFTER_WAYS;
    let mut places = Vec::with_capacity(all.len());
    let mut jumps = Vec::new();
    for (number, expected) in all.iter().enumerate() {
        let Some(insn) = body::decode(index, at) else { return false };
        if !expected.is(&insn) {
            return false;
        }
        if number == BEFORE_LINE {
            next_line = at;
        }
        if matches!(insn.code(), Code::Je_rel32_64 | Code::Jmp_rel32_64) {
            jumps.push((number, offset_of(insn.near_branch_target())));
        }
        places.push(at);
        at += insn.len() as u32;
    }
    let leads_right = jumps.iter().all(|&(number, to)| match number {
        _ if number < end_of_ways => to == places[end_of_ways],
        _ if all[number].code == Code::Jmp_rel32_64 => to == next_line,
        _ => to == places[all.len() - AFTER_LINES],
    });
    let rule = saves::RAX | saves::RCX | saves::RDX | saves::FLAGS;
    let has_rule = index.run(stub).zip(index.run(at - 1)).is_some_and(|(run, last)| {
        run == last && run.copy == stub && (run.kind, run.saves, run.save_end) == (kind::FORWARD, rule, [0; 4])
    });
    leads_right && has_rule
}

/// Instructions of the stub before each line, behind the ways, and behind the last line.
const BEFORE_LINE: usize = 4;
const AFTER_WAYS: usize = 8;
const AFTER_LINES: usize = 3;

/// An instruction of the stub, but for where it jumps.
struct Expected {
    code: Code,
    registers: [Register; 2],
    /// Relative to `gs:`: displacement, and index with a scale of 8.
    field: Option<(u32, Register)>,
    immediate: Option<u64>,
    /// `lea rdx, [rdx + distance]`
    distance: Option<u64>,
}

impl Expected {
    fn is(&self, insn: &Instruction) -> bool {
        let registers = [0, 1].map(|op| if op < insn.op_count() { insn.op_register(op) } else { Register::None });
        let has_immediate = (0..insn.op_count())
            .find(|&op| matches!(insn.op_kind(op), OpKind::Immediate8 | OpKind::Immediate32 | OpKind::Immediate32to64));
        let scale = if insn.memory_index() == Register::None { 1 } else { 8 };
        let is_memory = match (self.field, self.distance) {
            (Some((displacement, set)), _) => {
                insn.segment_prefix() == Register::GS
                    && insn.memory_base() == Register::None
                    && (insn.memory_index(), insn.memory_index_scale()) == (set, scale)
                    && insn.memory_displacement64() == u64::from(displacement)
            }
            (None, Some(distance)) => {
                (insn.memory_base(), insn.memory_index()) == (Register::RDX, Register::None)
                    && insn.memory_displacement64() == distance
            }
            (None, None) => (0..insn.op_count()).all(|op| insn.op_kind(op) != OpKind::Memory),
        };
        insn.code() == self.code
            && registers == self.registers
            && has_immediate.map(|op| insn.immediate(op)) == self.immediate
            && is_memory
    }
}

fn stub_instructions(cache: Cache) -> Vec<Expected> {
    use Register::{EAX, ECX, EDX, None as No, RAX, RCX, RDX};
    let plain = |code, registers, immediate| Expected { code, registers, field: None, immediate, distance: None };
    let field = |code, registers, at| Expected { field: Some((at, No)), ..plain(code, registers, None) };
    let constant = |at, value| Expected { immediate: Some(value), ..field(Code::Mov_rm32_imm32, [No; 2], at) };
    let entry =
        |code, registers, way: u32| Expected { field: Some((CACHE + way * 8, RCX)), ..plain(code, registers, None) };
    let start_of_line = cache.line().wrapping_neg();
    let mut all = vec![
        plain(Code::And_rm64_imm32, [RDX, No], Some(start_of_line)),
        plain(Code::And_rm64_imm32, [RCX, No], Some(start_of_line)),
        field(Code::Mov_rm64_r64, [No, RCX], offset::LAST_LINE),
        constant(offset::HAS_MISSED, 0),
        field(Code::Mov_rm64_r64, [No, RDX], offset::LINE),
        plain(Code::Mov_rm32_r32, [ECX, EDX], None),
        plain(Code::Shr_rm32_imm8, [ECX, No], Some(cache.set_shift().into())),
        plain(Code::And_rm32_imm32, [ECX, No], Some(cache.set_mask().into())),
    ];
    for way in 0..cache.n_ways() {
        let [put, taken] = if way % 2 == 0 { [RDX, RAX] } else { [RAX, RDX] };
        all.extend([
            entry(Code::Mov_r64_rm64, [taken, No], way),
            entry(Code::Mov_rm64_r64, [No, put], way),
            field(Code::Cmp_r64_rm64, [taken, No], offset::LINE),
            plain(Code::Je_rel32_64, [No; 2], None),
        ]);
    }
    all.push(constant(offset::HAS_MISSED, 1));
    let from_line = Expected { distance: Some(cache.line()), ..plain(Code::Lea_r64_m, [RDX, No], None) };
    all.extend([
        field(Code::Mov_r64_rm64, [RDX, No], offset::LINE),
        field(Code::Cmp_r64_rm64, [RDX, No], offset::LAST_LINE),
        plain(Code::Je_rel32_64, [No; 2], None),
        from_line,
        plain(Code::Jmp_rel32_64, [No; 2], None),
        field(Code::Mov_r32_rm32, [EAX, No], offset::HAS_MISSED),
        field(Code::Add_rm64_r64, [No, RAX], offset::MISSES),
        field(Code::Jmp_rm64, [No; 2], offset::TWIN),
    ]);
    all
}
