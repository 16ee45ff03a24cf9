//! The machine state that the interpreter carries through a function, and how two states join.
//!
//! Joining two different values of one place gives [`Value::Merge`] of the joining block and the place. On the next visit the
//! same name comes out again, so each place of a block changes at most once more and the analysis ends. Bounds on values
//! are kept while every way into the block implies one; their join is the hull, whose ends come from the finitely many
//! constants in comparisons.

use super::value::{Place, Value, ValueId, Values};
use crate::graph::BlockId;

/// Values of all modelled places, and what is known about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub registers: [ValueId; 16],
    pub memory: ValueId,
    /// Stack slots by base and offset, ascending, not overlapping.
    slots: Vec<Slot>,
    /// Unsigned bounds by value, ascending.
    bounds: Vec<(ValueId, Interval)>,
    /// What the flags were last set from.
    pub compared: Option<Comparison>,
}

/// A modelled piece of stack memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    base: ValueId,
    offset: i64,
    bytes: u8,
    /// Zero-extended.
    value: ValueId,
}

/// An inclusive range of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: u64,
    pub high: u64,
}

/// The flags describe `left - right`, both of `bits` bits, zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub left: ValueId,
    pub right: u64,
    pub bits: u8,
}

/// More slots than any real frame reaches with modelled values; the rest is forgotten.
const MAX_SLOTS: usize = 2048;

impl State {
    /// The state on entry: nothing is known.
    pub fn at_entry(values: &mut Values) -> State {
        State::unknown(|place| values.intern(Value::Entry(place)))
    }

    /// The state at a block that is entered in ways the analysis cannot see.
    pub fn at_unknown_entry(values: &mut Values, block: BlockId) -> State {
        State::unknown(|place| values.intern(Value::Merge(block, place)))
    }

    fn unknown(mut value: impl FnMut(Place) -> ValueId) -> State {
        State {
            registers: std::array::from_fn(|number| value(Place::Register(number as u8))),
            memory: value(Place::Memory),
            slots: Vec::new(),
            bounds: Vec::new(),
            compared: None,
        }
    }

    pub fn place(&self, place: Place) -> Option<ValueId> {
        match place {
            Place::Register(number) => Some(self.registers[usize::from(number)]),
            Place::Slot(base, offset) => {
                self.slots.get(self.first_slot(base, offset)).filter(|slot| slot.is_at(base, offset)).map(|slot| slot.value)
            }
            Place::Memory => Some(self.memory),
        }
    }

    /// What the first `bytes` bytes of a slot hold, zero-extended, if no more than those are known to.
    pub fn slot(&self, base: ValueId, offset: i64, bytes: u8) -> Option<ValueId> {
        let slot = self.slots.get(self.first_slot(base, offset))?;
        (slot.is_at(base, offset) && bytes <= slot.bytes).then_some(slot.value)
    }

    /// Stores `value`, or forgets what was there.
    pub fn set_slot(&mut self, base: ValueId, offset: i64, bytes: u8, value: Option<ValueId>) {
        let end = offset.saturating_add(bytes.into());
        let mut first = self.first_slot(base, offset);
        while first > 0 && self.slots[first - 1].overlaps(base, offset, end) {
            first -= 1;
        }
        let n_overlapping = self.slots[first..].iter().take_while(|slot| slot.overlaps(base, offset, end)).count();
        let new = value.filter(|_| self.slots.len() < MAX_SLOTS).map(|value| Slot { base, offset, bytes, value });
        self.slots.splice(first..first + n_overlapping, new);
    }

    fn first_slot(&self, base: ValueId, offset: i64) -> usize {
        self.slots.partition_point(|slot| (slot.base, slot.offset) < (base, offset))
    }

    pub fn bound(&self, value: ValueId) -> Option<Interval> {
        let index = self.bounds.binary_search_by_key(&value, |&(value, _)| value).ok()?;
        Some(self.bounds[index].1)
    }

    /// Adds what is known about `value`; an impossible result (dead code) keeps the old bound.
    pub fn constrain(&mut self, value: ValueId, interval: Interval) {
        match self.bounds.binary_search_by_key(&value, |&(value, _)| value) {
            Ok(index) => {
                let old = &mut self.bounds[index].1;
                let both = Interval { low: old.low.max(interval.low), high: old.high.min(interval.high) };
                if both.low <= both.high {
                    *old = both;
                }
            }
            Err(index) => self.bounds.insert(index, (value, interval)),
        }
    }

    /// Drops bounds on values that `stale` names: their instruction has run again.
    pub fn forget_bounds(&mut self, stale: impl Fn(ValueId) -> bool) {
        self.bounds.retain(|&(value, _)| !stale(value));
    }

    /// Joins what flows in over another edge into `block`; tells whether anything changed.
    pub fn join(&mut self, other: &State, block: BlockId, values: &mut Values) -> bool {
        let mut changed = false;
        let mut merge = |place: Place, mine: &mut ValueId, theirs: ValueId| {
            if *mine != theirs {
                let merged = values.intern(Value::Merge(block, place));
                changed |= std::mem::replace(mine, merged) != merged;
            }
        };
        for (number, (mine, &theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            merge(Place::Register(number as u8), mine, theirs);
        }
        merge(Place::Memory, &mut self.memory, other.memory);
        let n_slots = self.slots.len();
        let mut their_slots = other.slots.iter().peekable();
        self.slots.retain_mut(|mine| {
            while their_slots.next_if(|slot| (slot.base, slot.offset) < (mine.base, mine.offset)).is_some() {}
            match their_slots.peek() {
                Some(theirs) if theirs.is_at(mine.base, mine.offset) && theirs.bytes == mine.bytes => {
                    merge(Place::Slot(mine.base, mine.offset), &mut mine.value, theirs.value);
                    true
                }
                _ => false,
            }
        });
        changed |= n_slots != self.slots.len();
        let n_bounds = self.bounds.len();
        self.bounds.retain_mut(|(value, mine)| match other.bound(*value) {
            Some(theirs) => {
                let hull = mine.hull(theirs);
                changed |= std::mem::replace(mine, hull) != hull;
                true
            }
            None => false,
        });
        changed |= n_bounds != self.bounds.len();
        if self.compared != other.compared {
            changed |= self.compared.take().is_some();
        }
        changed
    }
}

impl Interval {
    /// The smallest interval that contains both.
    pub fn hull(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

impl Slot {
    fn is_at(&self, base: ValueId, offset: i64) -> bool {
        self.base == base && self.offset == offset
    }

    fn overlaps(&self, base: ValueId, start: i64, end: i64) -> bool {
        self.base == base && self.offset < end && start < self.offset.saturating_add(self.bytes.into())
    }
}
