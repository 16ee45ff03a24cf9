//! Which instructions are profiled: predicates over an event, and several types of profile at once.
//!
//! A compressor does not look into tuples, so one can serve several profiles; a tag in the tuple says which one a message belongs to.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::compressor::Tuple;

/// What an instruction does, as far as profiles are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpcodeClass {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Jumps or does not.
    ConditionalBranch,
    /// Always jumps to the same place.
    DirectJump,
    /// Jumps to a computed place.
    IndirectJump,
    /// Calls the same function always.
    DirectCall,
    /// Calls a computed function.
    IndirectCall,
    /// Returns.
    Return,
    /// Anything else.
    Other,
}

/// What is known of an event before it becomes a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Address of the instruction.
    pub pc: u64,
    /// The value loaded, the address accessed, the target.
    pub value: u64,
    /// What the instruction does.
    pub class: OpcodeClass,
    /// The module, by a number of the caller's.
    pub module: u32,
    /// The function, by a number of the caller's.
    pub function: u32,
}

/// A set of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every instruction.
    All,
    /// Instructions of a class.
    Class(OpcodeClass),
    /// Instructions with addresses in a range.
    PcRange(Range<u64>),
    /// Instructions of a module.
    Module(u32),
    /// Instructions of a function.
    Function(u32),
    /// Listed instructions.
    Pcs(PcList),
    /// Instructions in any of these sets.
    AnyOf(Box<[Selector]>),
    /// Instructions in all of these sets.
    AllOf(Box<[Selector]>),
    /// Instructions not in this set.
    Not(Box<Selector>),
}

impl Selector {
    /// Whether an event is selected.
    #[must_use]
    pub fn selects(&self, event: &Event) -> bool {
        match self {
            Selector::All => true,
            Selector::Class(class) => event.class == *class,
            Selector::PcRange(range) => range.contains(&event.pc),
            Selector::Module(module) => event.module == *module,
            Selector::Function(function) => event.function == *function,
            Selector::Pcs(pcs) => pcs.contains(event.pc),
            Selector::AnyOf(selectors) => selectors.iter().any(|selector| selector.selects(event)),
            Selector::AllOf(selectors) => selectors.iter().all(|selector| selector.selects(event)),
            Selector::Not(selector) => !selector.selects(event),
        }
    }
}

/// Addresses in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcList(Box<[u64]>);

impl FromIterator<u64> for PcList {
    fn from_iter<I: IntoIterator<Item = u64>>(pcs: I) -> PcList {
        let mut pcs: Vec<u64> = pcs.into_iter().collect();
        pcs.sort_unstable();
        pcs.dedup();
        PcList(pcs.into_boxed_slice())
    }
}

impl PcList {
    /// Whether the list has an address.
    #[must_use]
    pub fn contains(&self, pc: u64) -> bool {
        self.0.binary_search(&pc).is_ok()
    }
}

/// The number of a type of profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileTag(pub u8);

/// A tuple that says which profile it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypedTuple {
    /// The profile.
    pub tag: ProfileTag,
    /// Address of the instruction.
    pub pc: u64,
    /// What happened there.
    pub value: u64,
}

impl Tuple for TypedTuple {
    /// User addresses have 47 bits, so that the highest byte is free.
    #[inline]
    fn key(&self) -> [u64; 2] {
        [self.pc ^ (u64::from(self.tag.0) << 56), self.value]
    }
}

/// Types of profile that are taken at once; their tags are their numbers.
#[derive(Clone, Debug, Default)]
pub struct ProfileTypes {
    selectors: Vec<Selector>,
}

impl ProfileTypes {
    /// No type.
    #[must_use]
    pub fn new() -> ProfileTypes {
        ProfileTypes::default()
    }

    /// One more type, if there are less than 256.
    pub fn add(&mut self, selector: Selector) -> Option<ProfileTag> {
        let tag = u8::try_from(self.selectors.len()).ok()?;
        self.selectors.push(selector);
        Some(ProfileTag(tag))
    }

    /// The tuples of an event: one for each type that selects it.
    pub fn tuples(&self, event: Event) -> impl Iterator<Item = TypedTuple> {
        let selecting = self.selectors.iter().enumerate().filter(move |(_, selector)| selector.selects(&event));
        selecting.map(move |(tag, _)| TypedTuple { tag: ProfileTag(tag as u8), pc: event.pc, value: event.value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const LOAD: Event = Event { pc: 0x1000, value: 7, class: OpcodeClass::Load, module: 1, function: 20 };

    #[test]
    fn each_selector_selects_what_it_says() {
        let cases = [
            (Selector::All, true),
            (Selector::Class(OpcodeClass::Load), true),
            (Selector::Class(OpcodeClass::Store), false),
            (Selector::PcRange(0x1000..0x1001), true),
            (Selector::PcRange(0..0x1000), false),
            (Selector::Module(1), true),
            (Selector::Module(2), false),
            (Selector::Function(20), true),
            (Selector::Function(1), false),
            (Selector::Pcs([9, 0x1000, 9].into_iter().collect()), true),
            (Selector::Pcs([].into_iter().collect()), false),
            (Selector::AnyOf(Box::new([Selector::Module(2), Selector::Function(20)])), true),
            (Selector::AllOf(Box::new([Selector::Module(2), Selector::Function(20)])), false),
            (Selector::Not(Box::new(Selector::Module(2))), true),
        ];
        for (selector, expected) in cases {
            assert_eq!(selector.selects(&LOAD), expected, "{selector:?}");
        }
    }

    #[test]
    fn an_event_goes_to_every_profile_that_selects_it_under_its_own_key() {
        let mut types = ProfileTypes::new();
        let values = types.add(Selector::Class(OpcodeClass::Load)).unwrap();
        types.add(Selector::Class(OpcodeClass::DirectCall)).unwrap();
        let hot = types.add(Selector::PcRange(0..0x2000)).unwrap();
        let tuples: Vec<TypedTuple> = types.tuples(LOAD).collect();
        let typed = |tag| TypedTuple { tag, pc: 0x1000, value: 7 };
        assert_eq!(tuples, vec![typed(values), typed(hot)]);
        assert_ne!(tuples[0].key(), tuples[1].key());
    }

    #[test]
    fn there_are_256_tags() {
        let mut types = ProfileTypes::new();
        assert!((0..256).all(|_| types.add(Selector::All).is_some()));
        assert_eq!(types.add(Selector::All), None);
    }
}
