//! Symbolic execution of instructions, as far as addresses are made of them.
//!
//! Everything else is covered by one rule: a register that an instruction writes in a way not
//! modelled here becomes an [`Value::Opaque`] named after the instruction. Memory is two-fold.
//! Slots of the stack frame are tracked one by one, because compilers spill table addresses and
//! indices there, and nothing else is assumed to point at a spill slot. Only what may be such an
//! address or index is kept. All other memory has one version, which any other store and any call
//! replaces; two loads are the same value if address and version are.

use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use image::{Image, Svma};

use crate::clobbers::CALLER_SAVED;
use crate::liveness::writes;
use crate::transfer::Transfer;

use super::state::{Comparison, Interval, State};
use super::value::{Place, Value, ValueId, Values, low_mask, sign_extend};

/// The hardware number of the stack pointer.
pub const RSP: usize = 4;
const RBP: usize = 5;

/// Executes instructions on a [`State`].
pub struct Interpreter<'a, 'data> {
    /// Whose code is executed, and whose constant memory is read.
    pub image: &'a Image<'data>,
    /// The expressions that states consist of.
    pub values: Values,
    /// Which registers a callee changes, where more is to be known than the calling convention
    /// says.
    clobbered_by: Option<&'a dyn Fn(Svma) -> u16>,
    info: InstructionInfoFactory,
}

impl std::fmt::Debug for Interpreter<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'a, 'data> Interpreter<'a, 'data> {
    /// Returns an interpreter of the code of an image. `clobbered_by` tells which registers the
    /// callee at an address changes, as bits by hardware number; without it, those that the calling
    /// convention allows.
    #[must_use]
    pub fn new(image: &'a Image<'data>, clobbered_by: Option<&'a dyn Fn(Svma) -> u16>) -> Interpreter<'a, 'data> {
        Interpreter { image, values: Values::default(), clobbered_by, info: InstructionInfoFactory::new() }
    }

    /// Executes one instruction. Jumps have no effect; what a branch implies, [`refine`] adds.
    pub fn step(&mut self, state: &mut State, insn: &Instruction) {
        let bits = operand_bits(insn);
        match insn.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx if !insn.op0_register().is_segment_register() => {
                let value = self.read(state, insn, 1);
                self.write(state, insn, value);
            }
            Mnemonic::Movsx | Mnemonic::Movsxd => {
                let value = self.read(state, insn, 1);
                let extended = value.map(|value| self.values.sext(value, source_bits(insn)));
                self.write(state, insn, extended);
            }
            Mnemonic::Cdqe => state.registers[0] = self.values.sext(state.registers[0], 32),
            Mnemonic::Lea => {
                let address = self.address(state, insn);
                self.write(state, insn, address);
            }
            Mnemonic::Add => self.binary(state, insn, |values, a, b| Some(values.add(a, b))),
            Mnemonic::Sub => {
                let compared = self.comparison(state, insn, bits);
                self.binary(state, insn, |values, a, b| {
                    let constant = values.as_constant(b)?;
                    Some(values.add_constant(a, constant.wrapping_neg()))
                });
                state.compared = compared;
            }
            Mnemonic::Inc => self.unary(state, insn, |values, a| values.add_constant(a, 1)),
            Mnemonic::Dec => self.unary(state, insn, |values, a| values.add_constant(a, u64::MAX)),
            Mnemonic::Shl => self.binary(state, insn, |values, a, b| {
                let count = values.as_constant(b)? & 63;
                Some(values.shl(a, count as u8))
            }),
            Mnemonic::Shr => self.binary(state, insn, |values, a, b| {
                let count = values.as_constant(b)? & 63;
                Some(values.shr(a, count as u8))
            }),
            Mnemonic::And => {
                self.binary(state, insn, |values, a, b| match (values.as_constant(a), values.as_constant(b)) {
                    (_, Some(mask)) => Some(values.and(a, mask)),
                    (Some(mask), _) => Some(values.and(b, mask)),
                    _ => None,
                });
                state.compared = self.read(state, insn, 0).map(|left| Comparison { left, right: 0, bits });
            }
            Mnemonic::Imul if insn.op_count() == 3 => {
                let factors = self.read(state, insn, 1).zip(self.read(state, insn, 2));
                let product = factors.and_then(|(value, factor)| {
                    let factor = self.values.as_constant(factor)?;
                    Some(self.values.mul(value, factor))
                });
                self.write(state, insn, product);
                state.compared = None;
            }
            Mnemonic::Xor if same_register(insn) => {
                let zero = self.values.constant(0);
                self.write(state, insn, Some(zero));
                state.compared = None;
            }
            Mnemonic::Cmp => state.compared = self.comparison(state, insn, bits),
            Mnemonic::Test => {
                let left = self.read(state, insn, 0).filter(|_| same_register(insn));
                state.compared = left.map(|left| Comparison { left, right: 0, bits });
            }
            Mnemonic::Push => self.push(state, insn),
            Mnemonic::Pop if insn.op0_kind() == OpKind::Register => self.pop(state, insn.op0_register(), insn.ip()),
            Mnemonic::Leave => {
                state.registers[RSP] = state.registers[RBP];
                self.pop(state, Register::RBP, insn.ip());
            }
            Mnemonic::Call => self.call(state, insn),
            _ => self.unmodelled(state, insn),
        }
    }

    /// Returns the value of an operand, zero-extended from its size.
    pub fn read(&mut self, state: &State, insn: &Instruction, op: u32) -> Option<ValueId> {
        match insn.op_kind(op) {
            OpKind::Register => {
                let register = insn.op_register(op);
                let value = state.registers[usize::from(register_number(register)?)];
                Some(self.values.zext(value, (register.size() * 8) as u8))
            }
            OpKind::Memory => {
                let address = self.address(state, insn)?;
                self.load(state, address, u8::try_from(insn.memory_size().size()).ok()?)
            }
            kind if is_immediate(kind) => {
                let bits = operand_bits(insn);
                Some(self.values.constant(insn.immediate(op) & low_mask(bits)))
            }
            _ => None,
        }
    }

    /// Returns the effective address of the memory operand.
    fn address(&mut self, state: &State, insn: &Instruction) -> Option<ValueId> {
        if matches!(insn.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        let mut address = self.values.constant(insn.memory_displacement64());
        if insn.memory_base() != Register::None && !insn.is_ip_rel_memory_operand() {
            let base = state.registers[usize::from(register_number(insn.memory_base())?)];
            let base = self.values.zext(base, (insn.memory_base().size() * 8) as u8);
            address = self.values.add(address, base);
        }
        if insn.memory_index() != Register::None {
            let index = state.registers[usize::from(register_number(insn.memory_index())?)];
            let index = self.values.zext(index, (insn.memory_index().size() * 8) as u8);
            let scaled = self.values.shl(index, insn.memory_index_scale().trailing_zeros() as u8);
            address = self.values.add(address, scaled);
        }
        Some(address)
    }

    fn load(&mut self, state: &State, address: ValueId, bytes: u8) -> Option<ValueId> {
        if let Some((base, offset)) = self.stack_place(address)
            && let Some(value) = state.slot(base, offset, bytes)
        {
            return Some(self.values.zext(value, bytes.saturating_mul(8)));
        }
        if let Some(address) = self.values.as_constant(address)
            && bytes == 8
            && let Some(target) = self.image.slot_target(Svma(address))
        {
            return Some(self.values.constant(target.0));
        }
        (bytes <= 8).then(|| self.values.intern(Value::Load { address, memory: state.memory, bytes }))
    }

    /// Splits an address into a base that stays put in the function's frame, and an offset.
    fn stack_place(&self, address: ValueId) -> Option<(ValueId, i64)> {
        let (base, offset) = self.values.split_constant(address);
        base.filter(|&base| self.is_stack(base)).map(|base| (base, offset as i64))
    }

    fn is_stack(&self, base: ValueId) -> bool {
        match self.values.get(base) {
            Value::Entry(Place::Register(register)) | Value::Merge(_, Place::Register(register)) => {
                usize::from(register) == RSP
            }
            Value::And(of, _) => self.values.split_constant(of).0.is_some_and(|of| self.is_stack(of)),
            _ => false,
        }
    }

    /// Writes operand 0; `None` makes its new value opaque.
    fn write(&mut self, state: &mut State, insn: &Instruction, value: Option<ValueId>) {
        match insn.op0_kind() {
            OpKind::Register => {
                let register = insn.op0_register();
                match (register_number(register), value, register.size()) {
                    (Some(number), Some(value), 4 | 8) => {
                        let bits = (register.size() * 8) as u8;
                        state.registers[usize::from(number)] = self.values.zext(value, bits);
                    }
                    _ => self.make_opaque(state, register, insn.ip()),
                }
            }
            OpKind::Memory => {
                let bytes = u8::try_from(insn.memory_size().size()).unwrap_or(u8::MAX);
                let address = self.address(state, insn);
                self.store(state, address, bytes, value, insn.ip());
            }
            _ => {}
        }
    }

    fn store(&mut self, state: &mut State, address: Option<ValueId>, bytes: u8, value: Option<ValueId>, ip: u64) {
        match address.and_then(|address| self.stack_place(address)) {
            Some((base, offset)) => {
                let value = value.map(|value| self.values.zext(value, bytes.saturating_mul(8)));
                state.set_slot(base, offset, bytes, value.filter(|&value| self.may_select(state, value)));
            }
            None => state.memory = self.opaque(state, ip, u8::MAX),
        }
    }

    /// Whether a value may be the address of a table, an index into one, or an entry. The other
    /// contents of a frame are not worth carrying through the function.
    fn may_select(&self, state: &State, value: ValueId) -> bool {
        let has_module_address = |value| self.is_module_address(self.values.split_constant(value).1);
        self.values.fits_in_32_bits(value)
            || state.bound(value).is_some()
            || match self.values.get(value) {
                Value::Sext(..) => true,
                Value::Load { address, .. } => has_module_address(address),
                _ => has_module_address(value),
            }
    }

    /// Whether a number is an address in the file. The first page holds headers; numbers that small
    /// are field offsets.
    #[must_use]
    pub fn is_module_address(&self, number: u64) -> bool {
        number >= 4096 && self.image.read(Svma(number), 1).is_some()
    }

    fn binary(
        &mut self,
        state: &mut State,
        insn: &Instruction,
        operation: impl FnOnce(&mut Values, ValueId, ValueId) -> Option<ValueId>,
    ) {
        let bits = operand_bits(insn);
        let a = self.read(state, insn, 0);
        let b = self.read(state, insn, 1).map(|b| self.sign_extended_immediate(insn, b, bits));
        let result = a.zip(b).and_then(|(a, b)| operation(&mut self.values, a, b));
        let result = result.map(|result| self.values.zext(result, bits));
        self.write(state, insn, result);
        state.compared = None;
    }

    /// Immediates are sign-extended so that adding `0xffff_ffff` to a 32-bit register reads as
    /// subtracting one.
    fn sign_extended_immediate(&mut self, insn: &Instruction, value: ValueId, bits: u8) -> ValueId {
        match self.values.as_constant(value) {
            Some(constant) if is_immediate(insn.op1_kind()) && insn.mnemonic() != Mnemonic::And => {
                self.values.constant(sign_extend(constant, bits))
            }
            _ => value,
        }
    }

    fn unary(
        &mut self,
        state: &mut State,
        insn: &Instruction,
        operation: impl FnOnce(&mut Values, ValueId) -> ValueId,
    ) {
        let bits = operand_bits(insn);
        let result = self.read(state, insn, 0).map(|value| operation(&mut self.values, value));
        let result = result.map(|result| self.values.zext(result, bits));
        self.write(state, insn, result);
        state.compared = None;
    }

    fn comparison(&mut self, state: &State, insn: &Instruction, bits: u8) -> Option<Comparison> {
        let left = self.read(state, insn, 0)?;
        let right = self.read(state, insn, 1)?;
        Some(Comparison { left, right: self.values.as_constant(right)?, bits })
    }

    fn push(&mut self, state: &mut State, insn: &Instruction) {
        let value = if is_immediate(insn.op0_kind()) {
            Some(self.values.constant(insn.immediate(0)))
        } else {
            self.read(state, insn, 0)
        };
        let top = self.values.add_constant(state.registers[RSP], 8u64.wrapping_neg());
        state.registers[RSP] = top;
        self.store(state, Some(top), 8, value, insn.ip());
    }

    fn pop(&mut self, state: &mut State, register: Register, ip: u64) {
        let top = state.registers[RSP];
        let value = self.load(state, top, 8);
        state.registers[RSP] = self.values.add_constant(top, 8);
        if let Some(number) = register_number(register) {
            state.registers[usize::from(number)] = value.unwrap_or_else(|| self.opaque(state, ip, number));
        }
    }

    fn call(&mut self, state: &mut State, insn: &Instruction) {
        let clobbered = match (Transfer::of(insn), self.clobbered_by) {
            (Transfer::Call(callee), Some(clobbered_by)) => clobbered_by(callee),
            _ => CALLER_SAVED,
        };
        for number in (0..16).filter(|number| clobbered >> number & 1 != 0) {
            state.registers[usize::from(number)] = self.opaque(state, insn.ip(), number);
        }
        state.memory = self.opaque(state, insn.ip(), u8::MAX);
        state.compared = None;
    }

    fn unmodelled(&mut self, state: &mut State, insn: &Instruction) {
        let info = self.info.info(insn);
        let written: Vec<Register> =
            info.used_registers().iter().filter(|used| writes(used.access())).map(|used| used.register()).collect();
        let stores: Vec<_> = info.used_memory().iter().filter(|used| writes(used.access())).copied().collect();
        for register in written {
            self.make_opaque(state, register, insn.ip());
        }
        if !stores.is_empty() {
            let address = self.address(state, insn).filter(|_| stores.len() == 1 && has_memory_operand(insn));
            let bytes = u8::try_from(stores[0].memory_size().size()).unwrap_or(u8::MAX);
            self.store(state, address, bytes, None, insn.ip());
        }
        if insn.rflags_modified() != 0 {
            state.compared = None;
        }
    }

    fn make_opaque(&mut self, state: &mut State, register: Register, ip: u64) {
        if let Some(number) = register_number(register.full_register()) {
            state.registers[usize::from(number)] = self.opaque(state, ip, number);
        }
    }

    /// What an instruction leaves in a register, or in memory. A bound on what it left there before
    /// does not hold any more.
    fn opaque(&mut self, state: &mut State, ip: u64, register: u8) -> ValueId {
        let value = Value::Opaque { ip, register };
        if self.values.contains(value) {
            state.forget_bounds(|bounded| self.made_by(bounded, ip));
        }
        self.values.intern(value)
    }

    fn made_by(&self, value: ValueId, ip: u64) -> bool {
        matches!(self.values.get(value), Value::Opaque { ip: maker, .. } if maker == ip)
            || self.values.operands(value).any(|operand| self.made_by(operand, ip))
    }
}

/// Adds what is known if a conditional branch is taken, or is not.
pub fn refine(state: &mut State, branch: &Instruction, taken: bool) {
    let Some(Comparison { left, right, bits }) = state.compared else { return };
    let condition = if taken { branch.condition_code() } else { negated(branch.condition_code()) };
    let max = low_mask(bits);
    let sign = max >> 1;
    let not_negative = right <= sign && state.bound(left).is_some_and(|bound| bound.high <= sign);
    let interval = match condition {
        ConditionCode::e => Interval { low: right, high: right },
        ConditionCode::a if right < max => Interval { low: right + 1, high: max },
        ConditionCode::ae => Interval { low: right, high: max },
        ConditionCode::b if right > 0 => Interval { low: 0, high: right - 1 },
        ConditionCode::be => Interval { low: 0, high: right },
        ConditionCode::ns | ConditionCode::ge if right == 0 => Interval { low: 0, high: sign },
        ConditionCode::g if right == 0 => Interval { low: 1, high: sign },
        ConditionCode::l if not_negative && right > 0 => Interval { low: 0, high: right - 1 },
        ConditionCode::le if not_negative => Interval { low: 0, high: right },
        _ => return,
    };
    state.constrain(left, interval);
}

fn negated(condition: ConditionCode) -> ConditionCode {
    use ConditionCode as C;
    match condition {
        C::None => C::None,
        C::o => C::no,
        C::no => C::o,
        C::b => C::ae,
        C::ae => C::b,
        C::e => C::ne,
        C::ne => C::e,
        C::be => C::a,
        C::a => C::be,
        C::s => C::ns,
        C::ns => C::s,
        C::p => C::np,
        C::np => C::p,
        C::l => C::ge,
        C::ge => C::l,
        C::le => C::g,
        C::g => C::le,
    }
}

/// Hardware number of a general register; `None` for others, and for `ah` to `bh`, which are not
/// low bits.
fn register_number(register: Register) -> Option<u8> {
    let is_high_byte = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    (register.is_gpr() && !is_high_byte).then(|| register.full_register().number() as u8)
}

fn same_register(insn: &Instruction) -> bool {
    insn.op0_kind() == OpKind::Register
        && insn.op1_kind() == OpKind::Register
        && insn.op0_register() == insn.op1_register()
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

fn has_memory_operand(insn: &Instruction) -> bool {
    (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory)
}

/// Size of the first operand.
fn operand_bits(insn: &Instruction) -> u8 {
    let bytes = match insn.op0_kind() {
        OpKind::Register => insn.op0_register().size(),
        OpKind::Memory => insn.memory_size().size(),
        _ => 8,
    };
    (bytes * 8).min(64) as u8
}

/// Size of the second operand.
fn source_bits(insn: &Instruction) -> u8 {
    let bytes = match insn.op1_kind() {
        OpKind::Register => insn.op1_register().size(),
        _ => insn.memory_size().size(),
    };
    (bytes * 8).min(64) as u8
}
