//! Sets of registers and flags.

use std::ops::{BitAnd, BitOr, Sub};

use iced_x86::{Register, RflagsBits};

/// A set of parts of general registers and of arithmetic flags.
///
/// A register has two parts, its lowest byte and the rest: compilers write bytes, and what else the
/// register holds is then dead. The direction flag is no member, because probes never touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Set {
    /// Lowest bytes, by hardware number.
    low: u16,
    /// What is above them.
    rest: u16,
    flags: u8,
}

const FLAGS: [u32; 6] =
    [RflagsBits::CF, RflagsBits::PF, RflagsBits::AF, RflagsBits::ZF, RflagsBits::SF, RflagsBits::OF];

impl Set {
    pub const NONE: Set = Set { low: 0, rest: 0, flags: 0 };
    /// All general registers.
    pub const REGISTERS: Set = Set { low: u16::MAX, rest: u16::MAX, flags: 0 };
    /// All arithmetic flags.
    pub const FLAGS: Set = Set { low: 0, rest: 0, flags: (1 << FLAGS.len()) - 1 };

    /// Returns the registers with these hardware numbers.
    pub const fn of(numbers: &[u8]) -> Set {
        let (mut bits, mut index) = (0, 0);
        while index < numbers.len() {
            bits |= 1 << numbers[index];
            index += 1;
        }
        Set { low: bits, rest: bits, flags: 0 }
    }

    /// Returns the flags of a mask of iced.
    pub fn of_rflags(mask: u32) -> Set {
        let bits = FLAGS.into_iter().enumerate().filter(|(_, flag)| mask & flag != 0);
        Set { flags: bits.fold(0, |bits, (index, _)| bits | 1 << index), ..Set::NONE }
    }

    /// Returns the whole register that one is a part of; nothing for registers of other kinds.
    pub fn around(register: Register) -> Set {
        let full = register.full_register();
        if full.is_gpr64() { Set::of(&[full.number() as u8]) } else { Set::NONE }
    }

    /// Returns what is read with a register.
    pub fn read_with(register: Register) -> Set {
        let whole = Set::around(register);
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => Set { low: 0, ..whole },
            _ if register.is_gpr8() => Set { rest: 0, ..whole },
            _ => whole,
        }
    }

    /// Returns what is lost for good when a register is written. A write of 32 bits clears the
    /// upper half.
    pub fn lost_with(register: Register) -> Set {
        let whole = Set::around(register);
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => Set::NONE,
            _ if register.is_gpr8() || register.is_gpr16() => Set { rest: 0, ..whole },
            _ => whole,
        }
    }

    /// Whether a part of the register is in the set.
    pub fn has_register(self, number: usize) -> bool {
        (self.low | self.rest) >> number & 1 != 0
    }

    /// Whether a flag is in the set.
    pub fn has_flags(self) -> bool {
        self.flags != 0
    }

    pub fn is_empty(self) -> bool {
        self == Set::NONE
    }
}

impl BitOr for Set {
    type Output = Set;
    fn bitor(self, other: Set) -> Set {
        Set { low: self.low | other.low, rest: self.rest | other.rest, flags: self.flags | other.flags }
    }
}

impl BitAnd for Set {
    type Output = Set;
    fn bitand(self, other: Set) -> Set {
        Set { low: self.low & other.low, rest: self.rest & other.rest, flags: self.flags & other.flags }
    }
}

impl Sub for Set {
    type Output = Set;
    fn sub(self, other: Set) -> Set {
        Set { low: self.low & !other.low, rest: self.rest & !other.rest, flags: self.flags & !other.flags }
    }
}
