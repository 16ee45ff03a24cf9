//! Symbolic values: hash-consed expressions over 64-bit integers.
//!
//! Two values with the same [`ValueId`] are equal at run time. That lets a bound that a comparison
//! puts on one register apply to every register and spill slot that holds the same value.
//!
//! An expression of more than [`MAX_SIZE`] nodes, counted as a tree, stands for itself as a leaf
//! ([`Value::Large`]). No table address needs that many, and it bounds every recursion over
//! expressions, whatever code the input contains.

use rustc_hash::FxHashMap;

use crate::graph::BlockId;

/// Handle of an expression in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);

/// A place that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// General register by hardware number.
    Register(u8),
    /// Stack memory: a base that does not change in the function, and an offset in bytes.
    Slot(ValueId, i64),
    /// All memory that is not a slot, as one version number.
    Memory,
}

/// An expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    Const(u64),
    /// What `place` held when the function was entered.
    Entry(Place),
    /// What `place` holds at the start of a block that different values flow into.
    Merge(BlockId, Place),
    /// What an instruction that is not modelled leaves.
    Opaque {
        /// Its address.
        ip: u64,
        /// Where: a register, or memory for `u8::MAX`.
        register: u8,
    },
    /// A sum; a constant is on the right.
    Add(ValueId, ValueId),
    /// A shift to the left by a constant.
    Shl(ValueId, u8),
    /// A logical shift to the right by a constant.
    Shr(ValueId, u8),
    /// A product with a constant.
    Mul(ValueId, u64),
    /// A conjunction with a constant.
    And(ValueId, u64),
    /// The low bits, zero-extended.
    Zext(ValueId, u8),
    /// The low bits, sign-extended.
    Sext(ValueId, u8),
    /// What memory holds, zero-extended.
    Load {
        /// Where.
        address: ValueId,
        /// The version of memory.
        memory: ValueId,
        /// How many bytes.
        bytes: u8,
    },
    /// An expression too large to look into.
    Large(ValueId),
}

/// Largest expression that is looked into, in nodes.
const MAX_SIZE: u32 = 48;

/// All expressions of one function.
#[derive(Debug, Default)]
pub struct Values {
    nodes: Vec<Value>,
    sizes: Vec<u32>,
    ids: FxHashMap<Value, ValueId>,
}

impl Values {
    /// Returns the expression with this id.
    #[must_use]
    pub fn get(&self, id: ValueId) -> Value {
        self.nodes[id.0 as usize]
    }

    /// Whether the expression has been interned.
    #[must_use]
    pub fn contains(&self, value: Value) -> bool {
        self.ids.contains_key(&value)
    }

    /// Returns the id of a number.
    pub fn constant(&mut self, value: u64) -> ValueId {
        self.intern(Value::Const(value))
    }

    /// Returns the number, if the expression is one.
    #[must_use]
    pub fn as_constant(&self, id: ValueId) -> Option<u64> {
        match self.get(id) {
            Value::Const(value) => Some(value),
            _ => None,
        }
    }

    /// Interns an expression as it is. [`Values::add`] and its like simplify first.
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

    /// Returns a value plus a number.
    pub fn add_constant(&mut self, value: ValueId, constant: u64) -> ValueId {
        let constant = self.constant(constant);
        self.add(value, constant)
    }

    /// Returns a sum, which has one constant at most, on the right.
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

    /// Returns two parts whose sum the value is: the rest, and a constant.
    #[must_use]
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

    /// Returns two factors whose product the value is: the rest, and a constant.
    fn split_factor(&self, value: ValueId) -> (ValueId, u64) {
        match self.get(value) {
            Value::Shl(of, bits) => (of, 1u64.checked_shl(bits.into()).unwrap_or(0)),
            Value::Mul(of, factor) => (of, factor),
            _ => (value, 1),
        }
    }

    /// Returns a value shifted to the left.
    pub fn shl(&mut self, value: ValueId, bits: u8) -> ValueId {
        match (self.get(value), bits) {
            (_, 0) => value,
            (Value::Const(constant), _) => self.constant(constant.checked_shl(bits.into()).unwrap_or(0)),
            _ => self.intern(Value::Shl(value, bits)),
        }
    }

    /// Returns a value shifted to the right, as an unsigned number.
    pub fn shr(&mut self, value: ValueId, bits: u8) -> ValueId {
        match (self.get(value), bits) {
            (_, 0) => value,
            (Value::Const(constant), _) => self.constant(constant.checked_shr(bits.into()).unwrap_or(0)),
            _ => self.intern(Value::Shr(value, bits)),
        }
    }

    /// Returns a value times a number.
    pub fn mul(&mut self, value: ValueId, factor: u64) -> ValueId {
        match self.get(value) {
            Value::Const(constant) => self.constant(constant.wrapping_mul(factor)),
            _ if factor.is_power_of_two() => self.shl(value, factor.trailing_zeros() as u8),
            _ => self.intern(Value::Mul(value, factor)),
        }
    }

    /// Returns the bits of a value that a mask has.
    pub fn and(&mut self, value: ValueId, mask: u64) -> ValueId {
        match (self.get(value), mask) {
            (Value::Const(constant), _) => self.constant(constant & mask),
            (_, 0xff) => self.zext(value, 8),
            (_, 0xffff) => self.zext(value, 16),
            (_, 0xffff_ffff) => self.zext(value, 32),
            _ => self.intern(Value::And(value, mask)),
        }
    }

    /// Returns the low bits of a value, zero-extended.
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

    /// Returns the low bits of a value, sign-extended.
    pub fn sext(&mut self, value: ValueId, bits: u8) -> ValueId {
        match self.get(value) {
            _ if bits >= 64 => value,
            Value::Const(constant) => self.constant(sign_extend(constant, bits)),
            Value::Zext(of, inner) if bits <= inner => self.sext(of, bits),
            Value::Sext(of, inner) => self.sext(of, inner.min(bits)),
            _ => self.intern(Value::Sext(value, bits)),
        }
    }

    /// Whether the upper half of a value is known to be zero.
    #[must_use]
    pub fn fits_in_32_bits(&self, value: ValueId) -> bool {
        match self.get(value) {
            Value::Const(constant) => constant <= low_mask(32),
            Value::Zext(_, bits) => bits <= 32,
            Value::Load { bytes, .. } => bytes <= 4,
            Value::And(_, mask) => mask <= low_mask(32),
            _ => false,
        }
    }

    /// Returns the operands of an expression.
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

/// Returns a mask of so many low bits.
#[must_use]
pub fn low_mask(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Returns the low bits of a number, sign-extended.
#[must_use]
pub fn sign_extend(value: u64, bits: u8) -> u64 {
    let shift = 64 - u32::from(bits.clamp(1, 64));
    (((value << shift) as i64) >> shift) as u64
}
