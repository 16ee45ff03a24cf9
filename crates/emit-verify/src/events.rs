//! Whether a copy notes what it must, and nothing else.
//!
//! Behind a move to a whole register the walk to the next twin must have appended an event: the
//! program's value of the register that was loaded, under the site of the load. Where the walk ends
//! at an instruction, it must then have appended what is to be noted before that ([`expected`]),
//! above all what it is about to read: the same bytes, by the same registers. After each event it
//! must have looked whether the buffer is full. A full buffer ends a burst; in a copy that is never
//! left it leads to the gate with the place to come back to in `twin`: the walk goes on there.

mod expected;

use emit::Original;
use flow::graph::BlockId;
use iced_x86::{Code, ConditionCode, Instruction, OpKind, Register};
use image::Svma;
use wire::events::{EVENT_WORDS, EVENTS_END, SITE, TAG};
use wire::sample::EndReason;
use wire::thread::offset;

use super::block::Site;
use super::exact::{Known, Record};
use super::index::{Index, loaded, offset_of};
use super::liveness::Set;
use super::module::Module;
use super::state::{Flags, Needs, Point, RAX, RCX, State, Value};
use super::step::Step;
use super::transfer::Pending;
use super::walk::{Goal, Landing, Place, Walker};
pub(super) use expected::Expected;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The program's register.
    Register(usize),
    /// What is in memory.
    Loaded(Read),
    /// The address of an operand.
    Address(Operand),
    /// One of two addresses: `taken` if the program's flags say so.
    Outcome { condition: ConditionCode, taken: u64, behind: u64 },
}

/// A memory operand without a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    base: Register,
    index: Register,
    scale: u32,
    /// The address, if the base is the instruction pointer.
    displacement: u64,
}

/// What is read from memory: at an operand, relative to `fs` or not, so many bytes, of which at
/// most eight go on, extended by zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub operand: Operand,
    pub has_fs: bool,
    pub n_bytes: u8,
    /// Whether a page fault counts as one of a write.
    pub is_written: bool,
}

impl Read {
    /// What is read by an instruction of the copy that only moves it to a register.
    fn by_move(index: &Index<'_>, insn: &Instruction) -> Option<Read> {
        let n_bytes = match insn.code() {
            Code::Movzx_r32_rm8 => 1,
            Code::Movzx_r32_rm16 => 2,
            Code::Mov_r32_rm32 => 4,
            Code::Mov_r64_rm64 => 8,
            _ => return None,
        };
        let has_fs = insn.memory_segment() == Register::FS;
        let is_written = match index.run(offset_of(insn.ip()))?.writes {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Read { operand: Operand::of_any_size(insn)?, has_fs, n_bytes, is_written })
    }
}

impl Operand {
    /// A register and a displacement.
    pub fn at(base: Register, displacement: i64) -> Operand {
        Operand { base, index: Register::None, scale: 1, displacement: displacement as u64 }
    }

    /// The same if a register that it may be relative to has more by so much.
    pub fn moved(self, base: Register, distance: i32) -> Operand {
        let distance = if self.base == base { i64::from(distance) } else { 0 };
        Operand { displacement: self.displacement.wrapping_add_signed(distance), ..self }
    }

    /// The operand of an instruction, without a segment and with whole registers.
    pub fn of(insn: &Instruction) -> Option<Operand> {
        let has_segment = matches!(insn.memory_segment(), Register::FS | Register::GS);
        Operand::of_any_size(insn).filter(|operand| !has_segment && !operand.is_short())
    }

    /// The same relative to `fs`, too, and with registers of 32 bits.
    pub fn of_any_size(insn: &Instruction) -> Option<Operand> {
        let (base, index) = (insn.memory_base(), insn.memory_index());
        let has_registers = |is_right: fn(Register) -> bool| {
            [base, index].into_iter().all(|register| register == Register::None || is_right(register))
        };
        let is_known = has_registers(Register::is_gpr64)
            || has_registers(Register::is_gpr32)
            || base == Register::RIP && index == Register::None;
        (is_known && insn.memory_segment() != Register::GS).then_some(Operand {
            base,
            index,
            // Without an index, an encoding may still have one.
            scale: if index == Register::None { 1 } else { insn.memory_index_scale() },
            displacement: insn.memory_displacement64(),
        })
    }

    /// Whether its registers, and the address, have 32 bits.
    fn is_short(self) -> bool {
        [self.base, self.index].into_iter().any(Register::is_gpr32)
    }

    pub fn registers(self) -> impl Iterator<Item = usize> {
        [self.base, self.index].into_iter().filter(|register| register.is_gpr()).map(Register::number)
    }
}

/// The most events of one walk: all arguments, a load behind an instruction, and the four kinds
/// that can come together before one.
const MAX_EVENTS: usize = 11;

/// Events on their way into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Appended {
    /// Those that are there.
    done: [Option<Expected>; MAX_EVENTS],
    /// The last one, in parts.
    value: Option<Origin>,
    site: Option<u32>,
    tag: Option<u32>,
    /// The next event goes behind it.
    is_in: bool,
    /// It has been looked whether the buffer is full.
    has_looked: bool,
    /// Memory has been read, or an address made, and not yet appended.
    is_made: bool,
}

impl Appended {
    /// The last one is complete: room for another.
    fn turn(&mut self) -> Option<()> {
        let last = Expected { origin: self.value?, site: self.site?, tag: self.tag.unwrap_or(0) };
        (self.is_in && self.has_looked && !self.is_made).then_some(())?;
        let free = self.done.iter_mut().find(|event| event.is_none())?;
        *free = Some(last);
        *self = Appended { done: self.done, ..Appended::default() };
        Some(())
    }

    /// An address that was made is not for the buffer.
    pub fn forget_address(&mut self) {
        self.is_made = false;
    }

    /// What has been appended, if nothing is left half done.
    fn all(mut self) -> Option<impl Iterator<Item = Expected>> {
        let is_begun = Appended { done: self.done, ..Appended::default() } != self;
        if is_begun {
            self.turn()?;
        }
        Some(self.done.into_iter().flatten())
    }
}

impl Walker<'_, '_> {
    /// Checks what has been appended where a walk ends, at `landing` if it has arrived.
    pub fn check_event(&self, at: u32, state: &State, landing: Option<&Landing>) -> Result<(), super::Fault> {
        if state.exact.record != Record::default() {
            return Err(super::Fault::Event { at });
        }
        if self.index.copy.events().is_empty() {
            return Ok(());
        }
        let before = landing.map(|landing| self.expected_before(landing));
        let expected = self.event.into_iter().chain(before.into_iter().flatten());
        let is_right = state.event.all().is_some_and(|appended| appended.eq(expected));
        if is_right { Ok(()) } else { Err(super::Fault::Event { at }) }
    }

    /// Checks what has been appended where a burst ends: what belongs behind the instruction, and
    /// the first of what belongs before the next, which the original then executes.
    pub fn check_event_departure(&self, at: u32, state: &State, goal: Goal) -> Result<(), super::Fault> {
        if self.index.copy.events().is_empty() {
            return Ok(());
        }
        let place = if matches!(goal, Goal::Twin(..)) { Place::Within } else { Place::First };
        let before = match state.point {
            Point::At(block) => {
                self.expected_before(&Landing { block, place, is_checked: false, looked_at_limit: false })
            }
            _ => Vec::new(),
        };
        let expected: Vec<Expected> = self.event.into_iter().chain(before).collect();
        let n_behind = usize::from(self.event.is_some());
        let is_right = state.event.all().is_some_and(|appended| {
            let appended: Vec<Expected> = appended.collect();
            appended.len() >= n_behind && expected.starts_with(&appended)
        });
        if is_right { Ok(()) } else { Err(super::Fault::Event { at }) }
    }

    /// Whether there may be probes before any instruction of a block.
    pub fn has_probes_within(&self) -> bool {
        !self.index.copy.events().is_empty() || self.module.options.probe.cache().is_some()
    }

    /// What is needed behind each instruction of a block; nothing if nothing depends on it.
    pub fn needs_behind_each(&self, block: BlockId) -> Vec<Needs> {
        if !self.has_probes_within() {
            return Vec::new();
        }
        let unseen = if self.module.passes_flags_unseen { Set::FLAGS } else { Set::NONE };
        let Module { image, flow, liveness, .. } = self.module;
        let at_end = liveness.at_end(self.id, block) | unseen;
        let live = liveness.behind_each(image, flow, self.id, block, at_end);
        live.into_iter().map(Needs::of).collect()
    }
}

/// Executes an instruction that has to do with events; `None` if it has no meaning here.
pub(super) fn step(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<Step> {
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
            state.registers[register(0)?] = Value::Noted(Origin::Register(register(1)?));
        }
        Code::Lea_r64_m if may_make(state, pending, insn) => make(state, insn)?,
        Code::Mov_r64_rm64 | Code::Mov_r32_rm32 | Code::Movzx_r32_rm16 | Code::Movzx_r32_rm8
            if insn.op1_kind() == OpKind::Memory =>
        {
            read(index, state, pending, insn)?;
        }
        Code::Lea_r64_m if may_make_other(state, insn) => {
            state.registers[RCX] = Value::Noted(Origin::Address(Operand::of(insn)?));
        }
        _ if is_choice(insn) => choose(state, insn.condition_code())?,
        Code::Je_rel32_64 if state.flags == Flags::EventsLeft => return look(state, insn),
        Code::Jrcxz_rel8_64 if state.registers[RCX] == Value::NextEventPlace => return look(state, insn),
        _ => return None,
    }
    Some(Step::Next)
}

/// Whether a probe is about to make an address, in `rax`: it has saved what it needs and done
/// nothing else.
fn may_make(state: &State, pending: &Pending, insn: &Instruction) -> bool {
    let is_saved = [(RAX, state.fields.saved_rax), (RCX, state.fields.saved_rcx)].into_iter().all(|(number, saved)| {
        let value = state.registers[number];
        state.is_right(number, value) && saved == value
    });
    let is_operand = insn.op0_register() == Register::RAX && insn.op1_kind() == OpKind::Memory;
    is_saved && is_operand && may_begin(state, pending)
}

/// Whether the program is where a probe can begin to note something.
fn may_begin(state: &State, pending: &Pending) -> bool {
    let is_arrived = match *pending {
        Pending::Nothing => true,
        Pending::PushNext { next } | Pending::SystemCall { next, .. } => state.point == Point::At(next),
        _ => false,
    };
    is_arrived && state.why.is_none() && !state.event.is_made
}

/// Makes what is appended: finds an address.
fn make(state: &mut State, insn: &Instruction) -> Option<()> {
    let operand = Operand::of(insn)?;
    operand.registers().all(|number| state.registers[number] == Value::Program).then_some(())?;
    state.registers[RAX] = Value::Noted(Origin::Address(operand));
    state.event.is_made = true;
    Some(())
}

/// Makes what is appended: reads memory, into a register that nobody needs, or that is saved. That
/// it is restored is seen where the walk ends.
fn read(index: &Index<'_>, state: &mut State, pending: &Pending, insn: &Instruction) -> Option<()> {
    let to = insn.op0_register().full_register();
    let read = Read::by_move(index, insn).filter(|_| may_begin(state, pending) && to != Register::RSP)?;
    read.operand.registers().all(|number| state.registers[number] == Value::Program).then_some(())?;
    state.registers[to.number()] = Value::Noted(Origin::Loaded(read));
    state.event.is_made = true;
    Some(())
}

/// Whether a probe is about to make the other one of two addresses, in `rcx`: the first one is in
/// `rax`.
fn may_make_other(state: &State, insn: &Instruction) -> bool {
    let rcx = state.registers[RCX];
    let is_saved = state.is_right(RCX, rcx) && state.fields.saved_rcx == rcx;
    let is_second = state.event.is_made && fixed_address(state.registers[RAX]).is_some();
    is_saved && is_second && insn.op0_register() == Register::RCX && insn.memory_base() == Register::RIP
}

/// `cmovcc rax, rcx`
fn is_choice(insn: &Instruction) -> bool {
    let is_conditional = insn.condition_code() != ConditionCode::None && insn.op_count() == 2;
    is_conditional && [insn.op0_register(), insn.op1_register()] == [Register::RAX, Register::RCX]
}

/// Takes the address in `rcx` instead of that in `rax`, if the program's flags say so.
fn choose(state: &mut State, condition: ConditionCode) -> Option<()> {
    let [behind, taken] = [RAX, RCX].map(|number| fixed_address(state.registers[number]));
    let origin = Origin::Outcome { condition, taken: taken?, behind: behind? };
    (state.event.is_made && state.flags == Flags::Program).then(|| state.registers[RAX] = Value::Noted(origin))
}

/// An address that was made, if no register is part of it.
fn fixed_address(value: Value) -> Option<u64> {
    match value {
        Value::Noted(Origin::Address(Operand { base: Register::RIP, index: Register::None, displacement, .. })) => {
            Some(displacement)
        }
        _ => None,
    }
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
                let origin = match state.registers[register(1)?] {
                    Value::Program => Origin::Register(register(1)?),
                    Value::Noted(origin) => origin,
                    _ => return None,
                };
                let is_made = !matches!(origin, Origin::Register(_));
                (is_made == state.event.is_made).then(|| state.event.is_made = false)?;
                state.event.value = Some(origin);
            }
            (Code::Mov_rm32_imm32, SITE_FIELD) if state.event.site.is_none() => {
                state.event.site = Some(insn.immediate32());
            }
            (Code::Mov_rm32_imm32, TAG_FIELD) if state.event.tag.is_none() => {
                state.event.tag = Some(insn.immediate32()).filter(|&tag| tag != 0);
            }
            _ => return None,
        }
        return Some(Step::Next);
    }
    match (insn.code(), at) {
        (Code::Mov_r64_rm64, offset::NEXT_EVENT) => {
            if state.event.is_in {
                // What the next one has made stays.
                let is_made = std::mem::take(&mut state.event.is_made);
                state.event.turn()?;
                state.event.is_made = is_made;
            }
            state.registers[register(0)?] = Value::EventPlace;
        }
        (Code::Mov_rm64_r64, offset::NEXT_EVENT) => {
            let is_next = state.registers[register(1)?] == Value::NextEventPlace && !state.event.is_in;
            is_next.then(|| state.event.is_in = true)?;
        }
        (Code::Jmp_rm64, offset::GATE) if state.end_reason == Some(EndReason::EventsFull) => return come_back(state),
        _ => return None,
    }
    Some(Step::Next)
}

/// Offsets of site and tag of the event in hand.
const SITE_FIELD: u32 = EVENTS_END + SITE;
const TAG_FIELD: u32 = EVENTS_END + TAG;

/// The gate empties the buffer and goes on at the address in `twin`, with everything as it was.
pub(super) fn come_back(state: &mut State) -> Option<Step> {
    let Value::Exact(Known::Place(back)) = state.fields.twin else { return None };
    let is_ready = state.why == Some(EndReason::EventsFull) && state.is_at(state.fields.target) && state.is_restored();
    is_ready.then_some(())?;
    (state.why, state.end_reason) = (state.exact.why_again.take(), None);
    state.fields.twin = Value::Junk;
    Some(Step::Back(back))
}
