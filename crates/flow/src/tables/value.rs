//! Symbolic values: hash-consed expressions over 64-bit integers.
//!
//! Two values with the same [`ValueId`] are equal at run time, as far as the interpreter could see. That is all the jump-table
//! analysis needs: it lets a bound that a comparison puts on one register apply to every register and spill slot that holds
//! the same value.
//!
//! An expression of more than [`MAX_SIZE`] nodes, counted as a tree, stands for itself as a leaf ([`Value::Large`]). No table
//! address needs that many, and it bounds every recursion over expressions, whatever code the input contains.

use rustc_hash::FxHashMap;

use crate::graph::BlockId;

/// Handle of an expression in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValueId(u32);

/// A place that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// General register by hardware number.
    Register(u8),
    /// Stack memory: a base that does not change in the function, and an offset in bytes.
    Slot(ValueId, i64),
    /// All memory that is not a slot, as one version number.
    Memory,
}

/// An expression. Loads are zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Const(u64),
    /// What `place` held when the function was entered.
    Entry(Place),
    /// What `place` holds at the start of a block that different values flow into.
    Merge(BlockId, Place),
    /// What an instruction that is not modelled left in `register` (or in memory, for `u8::MAX`).
    Opaque {
        ip: u64,
        register: u8,
    },
    Add(ValueId, ValueId),
    Shl(ValueId, u8),
    Shr(ValueId, u8),
    Mul(ValueId, u64),
    And(ValueId, u64),
    /// The low bits, zero-extended.
    Zext(ValueId, u8),
    /// The low bits, sign-extended.
    Sext(ValueId, u8),
    Load {
        address: ValueId,
        memory: ValueId,
        bytes: u8,
    },
    /// An expression too large to look into.
    Large(ValueId),
}

/// Largest expression that is looked into, in nodes.
const MAX_SIZE: u32 = 48;

/// All expressions of one function.
#[derive(Debug, Default)]
pub(crate) struct Values {
    nodes: Vec<Value>,
    sizes: Vec<u32>,
    ids: FxHashMap<Value, ValueId>,
}

impl Values {
    pub fn get(&self, id: ValueId) -> Value {
        self.nodes[id.0 as usize]
    }

    pub fn contains(&self, value: Value) -> bool {
        self.ids.contains_key(&value)
    }

    pub fn constant(&mut self, value: u64) -> ValueId {
        self.intern(Value::Const(value))
    }

    pub fn as_constant(&self, id: ValueId) -> Option<u64> {
        match self.get(id) {
            Value::Const(value) => Some(value),
            _ => None,
        }
    }

    /// Interns an expression as it is; the constructors below simplify first.
    pub fn intern(&mut self, value: Value) -> ValueId {
        if let Some(&id) = self.ids.get(&value) {
            return id;
        }
        let id = ValueId(self.nodes.len() as u32);
        self.nodes.push(value);
        let size = 1 + self.operands(id).map(|operand| self.sizes[operand.0 as usize]).sum::<u32>();
        self.sizes.push(size);
        let id = if size <= MAX_SIZE { id } else { self.intern(Value::Large(id)) };
        self.ids.insert(value, id);
        id
    }

    pub fn add_constant(&mut self, value: ValueId, constant: u64) -> ValueId {
        let constant = self.constant(constant);
        self.add(value, constant)
    }

    /// Sums keep their constant on the right, and at most one.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let (a_rest, a_const) = self.split_constant(a);
        let (b_rest, b_const) = self.split_constant(b);
        let constant = a_const.wrapping_add(b_const);
        let rest = match (a_rest, b_rest) {
            (None, None) => return self.constant(constant),
            (Some(rest), None) | (None, Some(rest)) => rest,
            (Some(a), Some(b)) => {
                let ((a_base, a_factor), (b_base, b_factor)) = (self.split_factor(a), self.split_factor(b));
                if a_base == b_base {
                    self.mul(a_base, a_factor.wrapping_add(b_factor))
                } else {
                    self.intern(Value::Add(a.min(b), a.max(b)))
                }
            }
        };
        if constant == 0 {
            return rest;
        }
        let constant = self.constant(constant);
        self.intern(Value::Add(rest, constant))
    }

    /// `value` as (something, constant) whose sum it is.
    pub fn split_constant(&self, value: ValueId) -> (Option<ValueId>, u64) {
        match self.get(value) {
            Value::Const(constant) => (None, constant),
            Value::Add(rest, constant) => match self.as_constant(constant) {
                Some(constant) => (Some(rest), constant),
                None => (Some(value), 0),
            },
            _ => (Some(value), 0),
        }
    }

    /// `value` as (something, constant) whose product it is.
    fn split_factor(&self, value: ValueId) -> (ValueId, u64) {
        match self.get(value) {
            Value::Shl(of, bits) => (of, 1u64.checked_shl(bits.into()).unwrap_or(0)),
            Value::Mul(of, factor) => (of, factor),
            _ => (value, 1),
        }
    }

    pub fn shl(&mut self, value: ValueId, bits: u8) -> ValueId {
        match (self.get(value), bits) {
            (_, 0) => value,
            (Value::Const(constant), _) => self.constant(constant.checked_shl(bits.into()).unwrap_or(0)),
            _ => self.intern(Value::Shl(value, bits)),
        }
    }

    pub fn shr(&mut self, value: ValueId, bits: u8) -> ValueId {
        match (self.get(value), bits) {
            (_, 0) => value,
            (Value::Const(constant), _) => self.constant(constant.checked_shr(bits.into()).unwrap_or(0)),
            _ => self.intern(Value::Shr(value, bits)),
        }
    }

    pub fn mul(&mut self, value: ValueId, factor: u64) -> ValueId {
        match self.get(value) {
            Value::Const(constant) => self.constant(constant.wrapping_mul(factor)),
            _ if factor.is_power_of_two() => self.shl(value, factor.trailing_zeros() as u8),
            _ => self.intern(Value::Mul(value, factor)),
        }
    }

    pub fn and(&mut self, value: ValueId, mask: u64) -> ValueId {
        match (self.get(value), mask) {
            (Value::Const(constant), _) => self.constant(constant & mask),
            (_, 0xff) => self.zext(value, 8),
            (_, 0xffff) => self.zext(value, 16),
            (_, 0xffff_ffff) => self.zext(value, 32),
            _ => self.intern(Value::And(value, mask)),
        }
    }

    pub fn zext(&mut self, value: ValueId, bits: u8) -> ValueId {
        match self.get(value) {
            _ if bits >= 64 => value,
            Value::Const(constant) => self.constant(constant & low_mask(bits)),
            Value::Zext(_, inner) if inner <= bits => value,
            Value::Zext(of, _) => self.zext(of, bits),
            Value::Sext(of, inner) if bits <= inner => self.zext(of, bits),
            Value::And(_, mask) if mask <= low_mask(bits) => value,
            Value::Load { bytes, .. } if bytes * 8 <= bits => value,
            _ => self.intern(Value::Zext(value, bits)),
        }
    }

    pub fn sext(&mut self, value: ValueId, bits: u8) -> ValueId {
        match self.get(value) {
            _ if bits >= 64 => value,
            Value::Const(constant) => self.constant(sign_extend(constant, bits)),
            Value::Zext(of, inner) if bits <= inner => self.sext(of, bits),
            Value::Sext(of, inner) => self.sext(of, inner.min(bits)),
            _ => self.intern(Value::Sext(value, bits)),
        }
    }

    /// Whether the upper half is known to be zero.
    pub fn fits_in_32_bits(&self, value: ValueId) -> bool {
        match self.get(value) {
            Value::Const(constant) => constant <= low_mask(32),
            Value::Zext(_, bits) => bits <= 32,
            Value::Load { bytes, .. } => bytes <= 4,
            Value::And(_, mask) => mask <= low_mask(32),
            _ => false,
        }
    }

    /// The operands of an expression.
    pub fn operands(&self, id: ValueId) -> impl Iterator<Item = ValueId> + use<> {
        let (a, b) = match self.get(id) {
            Value::Add(a, b) => (Some(a), Some(b)),
            Value::Shl(a, _) | Value::Shr(a, _) | Value::Mul(a, _) | Value::And(a, _) => (Some(a), None),
            Value::Zext(a, _) | Value::Sext(a, _) | Value::Load { address: a, .. } => (Some(a), None),
            Value::Const(_) | Value::Entry(_) | Value::Merge(..) | Value::Opaque { .. } | Value::Large(_) => {
                (None, None)
            }
        };
        a.into_iter().chain(b)
    }
}

/// A mask of the low `bits` bits.
pub(crate) fn low_mask(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The low `bits` bits of `value` as a signed number.
pub(crate) fn sign_extend(value: u64, bits: u8) -> u64 {
    let shift = 64 - u32::from(bits.clamp(1, 64));
    (((value << shift) as i64) >> shift) as u64
}
