//! The machine state that the interpreter carries through a function, and how two states join.
//!
//! Joining two different values of one place gives [`Value::Merge`], named after the joining block
//! and the place. Places whose values have been the same on every way so far share one name
//! (compilers keep a state number in one register and its extension in another). The analysis ends
//! because a place of a block only ever moves from a value to a shared name to a name of its own:
//! [`Merged`] remembers how far it has come. Bounds on values are kept while every way into the
//! block implies one; their join is the hull, whose ends come from the finitely many constants in
//! comparisons.

use rustc_hash::FxHashMap;

use super::value::{Place, Value, ValueId, Values};
use crate::graph::BlockId;

/// Values of all modelled places, and what is known about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// General registers, by hardware number.
    pub registers: [ValueId; 16],
    /// The version of all memory that is no slot.
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
pub struct Interval {
    /// The smallest.
    pub low: u64,
    /// The largest.
    pub high: u64,
}

/// What flags describe: the difference of a value and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The value, zero-extended.
    pub left: ValueId,
    /// What is taken from it, zero-extended.
    pub right: u64,
    /// How many bits are compared.
    pub bits: u8,
}

/// More slots than any real frame reaches with modelled values; the rest is forgotten.
const MAX_SLOTS: usize = 2048;

impl State {
    /// Returns the state on entry: nothing is known.
    pub fn at_entry(values: &mut Values) -> State {
        State::unknown(|place| values.intern(Value::Entry(place)))
    }

    /// Returns the state at a block that is entered in ways that cannot be seen.
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

    /// Returns what a place holds; `None` for a slot of which nothing is known.
    #[must_use]
    pub fn place(&self, place: Place) -> Option<ValueId> {
        match place {
            Place::Register(number) => Some(self.registers[usize::from(number)]),
            Place::Slot(base, offset) => self
                .slots
                .get(self.first_slot(base, offset))
                .filter(|slot| slot.is_at(base, offset))
                .map(|slot| slot.value),
            Place::Memory => Some(self.memory),
        }
    }

    /// Returns what the first bytes of a slot hold, zero-extended, if so many are known.
    #[must_use]
    pub fn slot(&self, base: ValueId, offset: i64, bytes: u8) -> Option<ValueId> {
        let slot = self.slots.get(self.first_slot(base, offset))?;
        (slot.is_at(base, offset) && bytes <= slot.bytes).then_some(slot.value)
    }

    /// Stores a value in a slot, or forgets what was there.
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

    /// Returns what is known about a value.
    #[must_use]
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

    /// Joins what flows in over another edge into `block`.
    pub fn join(&mut self, other: &State, block: BlockId, values: &mut Values) {
        let mut twins: Vec<(ValueId, ValueId, ValueId)> = Vec::new();
        let mut merge = |place: Place, mine: &mut ValueId, theirs: ValueId| {
            if *mine == theirs {
                return;
            }
            let has_own_name = values.get(*mine) == Value::Merge(block, place);
            let twin = twins.iter().find(|&&(twin_mine, twin_theirs, _)| (twin_mine, twin_theirs) == (*mine, theirs));
            let merged = match twin {
                _ if has_own_name => *mine,
                Some(&(_, _, merged)) => merged,
                None => values.intern(Value::Merge(block, place)),
            };
            if matches!(place, Place::Register(_)) && twin.is_none() {
                twins.push((*mine, theirs, merged));
            }
            *mine = merged;
        };
        for (number, (mine, &theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            merge(Place::Register(number as u8), mine, theirs);
        }
        merge(Place::Memory, &mut self.memory, other.memory);
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
        self.bounds.retain_mut(|(value, mine)| match other.bound(*value) {
            Some(theirs) => {
                *mine = mine.hull(theirs);
                true
            }
            None => false,
        });
        if self.compared != other.compared {
            self.compared = None;
        }
    }
}

/// How far each place of a block has come from having a value to having a name of its own.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    registers: [Option<Stage>; 16],
    memory: Option<Stage>,
    slots: FxHashMap<(ValueId, i64), Option<Stage>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    SharedName,
    OwnName,
}

impl Merged {
    /// Keeps the places of a joined state from going back.
    pub fn keep(&mut self, state: &mut State, block: BlockId, values: &mut Values) {
        let mut keep = |place: Place, value: &mut ValueId, reached: &mut Option<Stage>| match values.get(*value) {
            Value::Merge(at, of) if at == block && of == place => *reached = Some(Stage::OwnName),
            Value::Merge(at, _) if at == block && *reached != Some(Stage::OwnName) => {
                *reached = Some(Stage::SharedName)
            }
            _ if reached.is_none() => {}
            _ => {
                *value = values.intern(Value::Merge(block, place));
                *reached = Some(Stage::OwnName);
            }
        };
        for (number, (value, reached)) in state.registers.iter_mut().zip(&mut self.registers).enumerate() {
            keep(Place::Register(number as u8), value, reached);
        }
        keep(Place::Memory, &mut state.memory, &mut self.memory);
        for slot in &mut state.slots {
            let reached = self.slots.entry((slot.base, slot.offset)).or_default();
            keep(Place::Slot(slot.base, slot.offset), &mut slot.value, reached);
        }
    }
}

impl Interval {
    /// Returns the smallest interval that contains both.
    #[must_use]
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
