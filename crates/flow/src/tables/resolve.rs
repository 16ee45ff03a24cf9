//! From the symbolic target of an indirect jump to a list of addresses.

use std::collections::BTreeSet;

use image::{Svma, SvmaRange};

use super::Interpretation;
use crate::clobbers::UNDEFINED_BEHIND_CALL;
use crate::graph::BlockId;
use crate::indirect::{Bound, JumpTable, Reason, Resolution};
use crate::semantics::{Interval, State, Value, ValueId, low_mask, sign_extend};
use crate::transfer::Transfer;

/// What the surroundings of a function say about addresses.
pub(crate) trait Surface {
    /// Whether a jump table of the function may lead to `target`.
    fn may_contain(&self, target: Svma) -> bool;
    /// Whether there is code at `target`.
    fn is_code(&self, target: Svma) -> bool;
    /// Whether the stack is as on entry just before the instruction at `at`, if unwind information
    /// tells.
    fn at_entry_height(&self, at: Svma) -> Option<bool>;
    /// Whether `target` is where a part of the function ends.
    fn is_end(&self, target: Svma) -> bool;
    /// Whether the function's code names this data address, so that a table may begin there.
    fn is_named(&self, data: Svma) -> bool;
}

/// Where a target expression comes from.
enum Origin {
    Table(Entries),
    Pointer { slot: Option<Svma> },
    Unknown(Reason),
}

/// Table entries found so far.
#[derive(Default)]
struct Entries {
    targets: BTreeSet<Svma>,
    n_entries: u32,
    bound: Option<Bound>,
    reads: BTreeSet<(Svma, u8)>,
}

/// How far a resolution has gone back.
#[derive(Default)]
struct Search {
    /// Targets being split.
    trail: Vec<ValueId>,
    ways: u32,
}

/// The sub-expression that selects a table entry.
#[derive(Clone, Copy)]
struct Index {
    value: ValueId,
    interval: Interval,
    bound: Bound,
}

/// Tables larger than any that compilers emit.
const MAX_ENTRIES: u64 = 1 << 16;
/// Entries without a function at the start of a table of functions.
const MAX_LEADING_HOLES: u32 = 64;
/// Targets of a jump that computes them from an index without a table.
const MAX_COMPUTED: u64 = 64;
/// Ways that merges may split one resolution into, and how often in a row.
const MAX_WAYS: u32 = 256;
const MAX_DEPTH: usize = 6;

impl Interpretation<'_, '_> {
    /// Resolves the indirect jump that ends `block`.
    pub fn resolve(&mut self, block: BlockId, surface: &dyn Surface) -> Resolution {
        if !self.settled {
            return Resolution::Unresolved(Reason::TooComplex);
        }
        let at = self.cfg.block(block).last();
        let (Some(state), Some(last)) = (self.state_before_last(block), self.listing.at(at)) else {
            return Resolution::Unresolved(Reason::Unreached);
        };
        let origin = match self.interpreter.read(&state, self.listing.get(last), 0) {
            Some(target) => self.origin(target, &state, surface, &mut Search::default()),
            None => Origin::Pointer { slot: None },
        };
        match origin {
            Origin::Table(entries) => Resolution::Table(entries.finish()),
            Origin::Unknown(reason) => Resolution::Unresolved(reason),
            Origin::Pointer { slot } => {
                let at_entry = surface.at_entry_height(at).unwrap_or_else(|| self.at_entry_height(&state));
                if at_entry { Resolution::TailCall { slot } } else { Resolution::Unresolved(Reason::PointerInFrame) }
            }
        }
    }

    /// Classifies a target, if necessary by going back to where the values it depends on flowed
    /// together.
    fn origin(&mut self, target: ValueId, state: &State, surface: &dyn Surface, search: &mut Search) -> Origin {
        let index = self.index_of(target, state);
        if let Some(index) = index.filter(|index| index.bound == Bound::Compared) {
            return match (self.enumerate(target, index, surface), self.scanning_index_of(target)) {
                // The comparison bounds something wider than the table.
                (Origin::Unknown(Reason::BadEntry), Some(index)) => self.enumerate(target, index, surface),
                (origin, _) => origin,
            };
        }
        let is_merge = matches!(self.interpreter.values.get(target), Value::Merge(..));
        let is_vague = index.is_none_or(|index| index.bound == Bound::Scanned && search.trail.is_empty());
        if is_vague
            && let Some(split) = self.split(target, surface, search)
            && (is_merge || split.is_exact_table())
        {
            return split;
        }
        match (index, self.interpreter.values.get(target)) {
            (Some(index), _) => self.enumerate(target, index, surface),
            _ if self.relies_on_callee(target) => Origin::Unknown(Reason::BehindCall),
            (None, Value::Load { address, bytes: 8, .. }) => {
                let slot = self.interpreter.values.as_constant(address).map(Svma);
                Origin::Pointer { slot }
            }
            (None, Value::Entry(_) | Value::Merge(..) | Value::Opaque { .. }) => Origin::Pointer { slot: None },
            (None, _) => self.origin_without_index(target, surface),
        }
    }

    /// Whether a value depends on what a call has left in a register in which the calling
    /// convention returns nothing: the callee is known to keep it (`-fipa-ra`), and what is in it
    /// can be anything, the address of a table included.
    fn relies_on_callee(&self, value: ValueId) -> bool {
        let values = &self.interpreter.values;
        if let Value::Opaque { ip, register } = values.get(value) {
            let maker = self.listing.at(Svma(ip)).map(|index| Transfer::of(self.listing.get(index)));
            let is_undefined = register < 16 && UNDEFINED_BEHIND_CALL >> register & 1 != 0;
            return is_undefined && maker.is_some_and(|maker| maker.is_call());
        }
        values.operands(value).any(|operand| self.relies_on_callee(operand))
    }

    /// Classifies a target separately for each way into the last block where values that it depends
    /// on flow together. `None` if there is no such block.
    fn split(&mut self, target: ValueId, surface: &dyn Surface, search: &mut Search) -> Option<Origin> {
        let block = self.last_merge(target)?;
        if search.trail.len() >= MAX_DEPTH {
            return Some(Origin::Unknown(Reason::TooComplex));
        }
        search.trail.push(target);
        let origin = self.origin_by_ways(target, block, surface, search);
        search.trail.pop();
        Some(origin)
    }

    fn origin_by_ways(
        &mut self,
        target: ValueId,
        block: BlockId,
        surface: &dyn Surface,
        search: &mut Search,
    ) -> Origin {
        let mut tables = Entries::default();
        let mut pointer = None;
        for state in self.states_into(block) {
            search.ways += 1;
            if search.ways > MAX_WAYS {
                return Origin::Unknown(Reason::TooComplex);
            }
            let Some(value) = self.substitute(target, block, &state) else {
                return Origin::Unknown(Reason::NotATable);
            };
            if search.trail.contains(&value) {
                continue;
            }
            match self.origin(value, &state, surface, search) {
                Origin::Table(entries) => tables.absorb(entries),
                Origin::Pointer { slot } => pointer = Some(slot),
                unknown @ Origin::Unknown(_) => return unknown,
            }
        }
        match (pointer, tables.targets.is_empty()) {
            (None, false) => Origin::Table(tables),
            (Some(_), false) => Origin::Unknown(Reason::Mixed),
            (_, true) => Origin::Pointer { slot: None },
        }
    }

    /// The last block, in the order of the function's flow, where values that `value` depends on
    /// flow together.
    fn last_merge(&self, value: ValueId) -> Option<BlockId> {
        let below = self.interpreter.values.operands(value).filter_map(|operand| self.last_merge(operand));
        let own = match self.interpreter.values.get(value) {
            Value::Merge(block, _) => Some(block),
            _ => None,
        };
        own.into_iter().chain(below).max_by_key(|&block| self.order.reverse_post_position(block))
    }

    /// The expression as it reads on one way into `block`; `None` if that way does not define a
    /// place that it depends on.
    fn substitute(&mut self, value: ValueId, block: BlockId, state: &State) -> Option<ValueId> {
        let node = self.interpreter.values.get(value);
        let mut operand = |value| self.substitute(value, block, state);
        let (a, b) = match node {
            Value::Merge(at, place) if at == block => return state.place(place),
            Value::Add(a, b) => (operand(a)?, Some(operand(b)?)),
            Value::Load { address, memory, .. } => (operand(address)?, Some(operand(memory)?)),
            Value::Shl(a, _) | Value::Shr(a, _) | Value::Mul(a, _) | Value::And(a, _) => (operand(a)?, None),
            Value::Zext(a, _) | Value::Sext(a, _) => (operand(a)?, None),
            Value::Const(_) | Value::Entry(_) | Value::Merge(..) | Value::Opaque { .. } | Value::Large(_) => {
                return Some(value);
            }
        };
        let values = &mut self.interpreter.values;
        Some(match node {
            Value::Shl(_, bits) => values.shl(a, bits),
            Value::Shr(_, bits) => values.shr(a, bits),
            Value::Mul(_, factor) => values.mul(a, factor),
            Value::And(_, mask) => values.and(a, mask),
            Value::Zext(_, bits) => values.zext(a, bits),
            Value::Sext(_, bits) => values.sext(a, bits),
            Value::Load { bytes, .. } => values.intern(Value::Load { address: a, memory: b?, bytes }),
            _ => values.add(a, b?),
        })
    }

    /// A target that is no look-up: a label, an entry of a table that the compiler selected itself,
    /// a function, or arithmetic.
    fn origin_without_index(&self, target: ValueId, surface: &dyn Surface) -> Origin {
        let mut reads = Vec::new();
        match self.evaluate(target, None, &mut reads).map(Svma) {
            Some(address) if surface.may_contain(address) => Origin::Table(Entries {
                targets: BTreeSet::from([address]),
                n_entries: 1,
                bound: Some(Bound::Compared),
                reads: reads.into_iter().collect(),
            }),
            Some(_) => Origin::Pointer { slot: None },
            None if self.may_be_look_up(target) => Origin::Unknown(Reason::NotATable),
            None => Origin::Pointer { slot: None },
        }
    }

    /// Whether an expression contains an address of the module, or what may be an entry of a table
    /// of offsets. Without either it does not depend on a table of the module.
    fn may_be_look_up(&self, value: ValueId) -> bool {
        match self.interpreter.values.get(value) {
            Value::Const(address) => self.interpreter.is_module_address(address),
            Value::Load { bytes: 1..=7, .. } | Value::Large(_) => true,
            _ => self.interpreter.values.operands(value).any(|operand| self.may_be_look_up(operand)),
        }
    }

    /// Finds the index of a table look-up: going down from the target while exactly one operand is
    /// not constant.
    fn index_of(&mut self, target: ValueId, state: &State) -> Option<Index> {
        let mut best: Option<Index> = None;
        let mut n_loads = 0;
        let scanning = self.scanning_index_of(target).map(|index| self.limited_by_low_half(index, state));
        let mut is_below_scanning = false;
        let mut is_best_below_scanning = false;
        for value in self.spine(target) {
            if value != target
                && let Some(found) = self.bounded(value, state)
                && (n_loads > 0 || found.size() <= MAX_COMPUTED)
                && best.is_none_or(|best| (found.bound, found.size()) < (best.bound, best.size()))
            {
                best = Some(found);
                is_best_below_scanning = is_below_scanning;
            }
            n_loads += u32::from(matches!(self.interpreter.values.get(value), Value::Load { .. }));
            is_below_scanning |= scanning.is_some_and(|scanning| scanning.value == value);
        }
        match (best, scanning) {
            // A narrow value that is biased before it selects: the table starts where the biased
            // value is zero.
            (Some(Index { bound: Bound::Width, .. }), Some(scanning)) if is_best_below_scanning => {
                Some(Index { bound: Bound::Width, ..scanning })
            }
            (None, scanning) => scanning,
            (best, _) => best,
        }
    }

    /// What is scaled by the size of a table entry, without a bound.
    fn scanning_index_of(&self, target: ValueId) -> Option<Index> {
        let mut is_loaded = false;
        let mut scaled = None;
        for value in self.spine(target) {
            match self.interpreter.values.get(value) {
                Value::Load { .. } => is_loaded = true,
                Value::Shl(index, _) | Value::Mul(index, _) if is_loaded => scaled = Some(index),
                _ => {}
            }
        }
        let interval = Interval { low: 0, high: MAX_ENTRIES - 1 };
        scaled.map(|value| Index { value, interval, bound: Bound::Scanned })
    }

    /// A comparison of the lower half of an index limits the table, even where it does not show
    /// that the upper half is zero: what was compared is what selects.
    fn limited_by_low_half(&mut self, index: Index, state: &State) -> Index {
        let highest = self.highest_low_half(index.value, state).or_else(|| {
            let Value::Merge(block, place) = self.interpreter.values.get(index.value) else { return None };
            let mut highest = None;
            for state in self.states_into(block) {
                highest = highest.max(Some(self.highest_low_half(state.place(place)?, &state)?));
            }
            highest
        });
        let high = highest.map_or(index.interval.high, |high| high.min(index.interval.high));
        Index { interval: Interval { high, ..index.interval }, ..index }
    }

    /// What the lower half of a value was compared with.
    fn highest_low_half(&mut self, value: ValueId, state: &State) -> Option<u64> {
        let low_half = self.interpreter.values.zext(value, 32);
        state.bound(low_half).map(|bound| bound.high)
    }

    /// The expression, its one operand that is not constant, and so on downwards.
    fn spine(&self, target: ValueId) -> Vec<ValueId> {
        let values = &self.interpreter.values;
        let mut spine = vec![target];
        let mut value = target;
        loop {
            let mut variable = values.operands(value).filter(|&operand| values.as_constant(operand).is_none());
            match (variable.next(), variable.next()) {
                (Some(next), None) => value = next,
                _ => return spine,
            }
            spine.push(value);
        }
    }

    /// Whether the values of an expression are few, and how that is known.
    fn bounded(&mut self, value: ValueId, state: &State) -> Option<Index> {
        let found = |interval: Interval, bound| {
            let index = Index { value, interval, bound };
            (index.size() <= MAX_ENTRIES).then_some(index)
        };
        if let Some(interval) = state.bound(value)
            && let Some(index) = found(interval, Bound::Compared)
        {
            return Some(index);
        }
        match self.interpreter.values.get(value) {
            Value::Sext(of, bits) => {
                let unsigned = self.interpreter.values.zext(of, bits);
                let interval = state.bound(unsigned)?;
                (interval.high <= low_mask(bits) >> 1).then(|| found(interval, Bound::Compared)).flatten()
            }
            Value::Merge(block, place) => {
                let ways: Option<Vec<(ValueId, State)>> =
                    self.states_into(block).into_iter().map(|state| Some((state.place(place)?, state))).collect();
                let ways = ways?;
                let low_half = self.interpreter.values.zext(value, 32);
                let is_low_half = ways
                    .iter()
                    .all(|&(incoming, _)| incoming == value || self.interpreter.values.fits_in_32_bits(incoming));
                let interval = state.bound(low_half).filter(|_| is_low_half).or_else(|| self.hull(&ways));
                found(interval?, Bound::Compared)
            }
            Value::And(_, mask) => found(Interval { low: 0, high: mask }, Bound::Width),
            Value::Zext(_, bits @ 1..=16) => found(Interval { low: 0, high: low_mask(bits) }, Bound::Width),
            Value::Load { bytes: bytes @ 1..=2, .. } => {
                found(Interval { low: 0, high: low_mask(bytes * 8) }, Bound::Width)
            }
            Value::Shr(of, count) => {
                let width = match self.interpreter.values.get(of) {
                    Value::Zext(_, bits) => bits,
                    Value::Load { bytes, .. } => bytes * 8,
                    _ => 64,
                };
                found(Interval { low: 0, high: low_mask(width.saturating_sub(count)) }, Bound::Width)
            }
            _ => None,
        }
    }

    /// What the values that come in on each way are known to lie between.
    fn hull(&self, ways: &[(ValueId, State)]) -> Option<Interval> {
        let intervals = ways.iter().map(|(incoming, state)| match self.interpreter.values.as_constant(*incoming) {
            Some(constant) => Some(Interval { low: constant, high: constant }),
            None => state.bound(*incoming),
        });
        intervals.reduce(|hull, interval| Some(hull?.hull(interval?)))?
    }

    /// Reads the table: the target for each value of the index.
    ///
    /// A table of labels leads into the function, every entry of it; a table of functions leads
    /// elsewhere and may have holes.
    fn enumerate(&mut self, target: ValueId, index: Index, surface: &dyn Surface) -> Origin {
        let is_exact = index.bound == Bound::Compared;
        let mut entries = Entries { bound: Some(index.bound), ..Entries::default() };
        let (mut n_inside, mut n_elsewhere, mut n_holes) = (0u32, 0u32, 0u32);
        for selector in index.interval.low..=index.interval.high {
            let mut reads = Vec::new();
            let address = self.evaluate(target, Some((index.value, selector)), &mut reads).map(Svma);
            let is_next_table = n_inside > 0 && reads.last().is_some_and(|&(read, _)| surface.is_named(read));
            if is_next_table && !is_exact {
                break;
            }
            match address {
                Some(address) if surface.may_contain(address) => n_inside += 1,
                // Where clang knows that a value does not occur, the entry leads past the last
                // instruction.
                Some(address) if surface.is_end(address) => {
                    entries.n_entries += 1;
                    continue;
                }
                Some(address) if surface.is_code(address) => n_elsewhere += 1,
                _ => n_holes += 1,
            }
            let is_over = n_elsewhere > 0 || n_holes > if n_inside > 0 { 0 } else { MAX_LEADING_HOLES };
            if is_over && !is_exact {
                break;
            }
            entries.targets.extend(address.filter(|&address| surface.is_code(address)));
            entries.reads.extend(reads);
            entries.n_entries += 1;
        }
        match (n_inside, n_elsewhere, n_holes) {
            (0, 1.., _) => Origin::Pointer { slot: None },
            // Pointers that the file does not contain are stored at run time, and are not labels.
            (0, 0, _) if matches!(self.interpreter.values.get(target), Value::Load { bytes: 8, .. }) => {
                Origin::Pointer { slot: None }
            }
            (0, 0, _) => Origin::Unknown(Reason::BadEntry),
            (_, _, 1..) if is_exact => Origin::Unknown(Reason::BadEntry),
            (1, ..) if !is_exact => Origin::Unknown(Reason::NotATable),
            _ => Origin::Table(entries),
        }
    }

    /// The value of an expression when `index` has the given value. Notes the memory it reads.
    fn evaluate(&self, value: ValueId, index: Option<(ValueId, u64)>, reads: &mut Vec<(Svma, u8)>) -> Option<u64> {
        if let Some((index, selector)) = index
            && value == index
        {
            return Some(selector);
        }
        let mut operand = |value| self.evaluate(value, index, reads);
        Some(match self.interpreter.values.get(value) {
            Value::Const(constant) => constant,
            Value::Add(a, b) => operand(a)?.wrapping_add(operand(b)?),
            Value::Shl(a, count) => operand(a)?.checked_shl(count.into()).unwrap_or(0),
            Value::Shr(a, count) => operand(a)?.checked_shr(count.into()).unwrap_or(0),
            Value::Mul(a, factor) => operand(a)?.wrapping_mul(factor),
            Value::And(a, mask) => operand(a)? & mask,
            Value::Zext(a, bits) => operand(a)? & low_mask(bits),
            Value::Sext(a, bits) => sign_extend(operand(a)?, bits),
            Value::Load { address, bytes, .. } => {
                let at = Svma(operand(address)?);
                reads.push((at, bytes));
                self.read_constant(at, bytes)?
            }
            Value::Entry(_) | Value::Merge(..) | Value::Opaque { .. } | Value::Large(_) => return None,
        })
    }

    fn read_constant(&self, at: Svma, bytes: u8) -> Option<u64> {
        let image = self.interpreter.image;
        if bytes == 8 {
            return image.pointer_at(at).map(|pointer| pointer.0);
        }
        let raw = image.read(at, bytes.into())?;
        Some(raw.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

impl Origin {
    fn is_exact_table(&self) -> bool {
        matches!(self, Origin::Table(Entries { bound: Some(Bound::Compared), .. }))
    }
}

impl Index {
    fn size(&self) -> u64 {
        self.interval.high.saturating_sub(self.interval.low).saturating_add(1)
    }
}

impl Entries {
    fn absorb(&mut self, other: Entries) {
        self.targets.extend(other.targets);
        self.reads.extend(other.reads);
        self.n_entries += other.n_entries;
        self.bound = self.bound.max(other.bound);
    }

    fn finish(self) -> JumpTable {
        let mut data: Vec<SvmaRange> = Vec::new();
        for (start, bytes) in self.reads {
            let end = start.offset(bytes.into());
            match data.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => data.push(SvmaRange { start, end }),
            }
        }
        JumpTable {
            targets: self.targets.into_iter().collect(),
            n_entries: self.n_entries,
            bound: self.bound.unwrap_or(Bound::Scanned),
            data,
        }
    }
}
