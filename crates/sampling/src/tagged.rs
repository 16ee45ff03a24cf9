//! `T`: counters with partial tags (section 4 and figure 6 of the paper).
//!
//! An entry of the table counts one tuple at a time, which it knows only by a tag of a few bits. To
//! send its count, it needs the whole tuple, so it must wait for the tuple to come again:
//!
//! ```text
//!            E1 any tuple: tag := its, hits += 1
//!    Empty ------------------------------------------> Valid --. E3 hit: hits += 1
//!      ^  ^                                            | |  ^  |
//!      |  '------- E2 hits = rate: send, hits := 0 ----' |  '--'
//!      |                                                 | E4 miss: misses := 1
//!      |                                                 v
//!      '-- E6 hit and ShouldEvict: send,             Evict --. E5a miss: misses += 1
//!          hits := misses, misses := 0                 |     | E6a hit:  hits += 1
//!                                                      |  ^--'
//!                      Valid <-------------------------'
//!                            E5 miss and ShouldReplace: tag := its, hits += misses + 1, misses := 0
//! ```
//!
//! **Counts are handed over, never dropped** (E5, E6): hits and misses together are the occurrences
//! that went through the entry and were not sent, whoever they belonged to. So the residue of the
//! table is the sum of all its counters.
//!
//! The paper does not say which entry of a set a miss goes to. Here it is an empty one, else one
//! that is already waiting to be evicted, else the one with the fewest hits. It does not say what
//! "enough" and "too many" are either; [`Replacement`] does.

use alloc::boxed::Box;
use alloc::vec;

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::{Error, Rate, TableSize};
use crate::hash::TableHash;

/// When an entry that others want is given up.
pub trait Replacement {
    /// Whether a hit entry that waits to be evicted has enough hits to be worth a message.
    fn should_evict(&self, hits: u32, misses: u32) -> bool;

    /// Whether an entry that waits to be evicted has had too many misses to wait longer.
    fn should_replace(&self, hits: u32, misses: u32) -> bool;
}

/// Gives up an entry at so many hits or misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    evict: u32,
    replace: u16,
}

impl Thresholds {
    /// Evicts at `evict` hits, 1 to the rate; replaces at `replace` misses, 1 to 65535.
    pub fn new(rate: Rate, evict: u64, replace: u64) -> Result<Thresholds, Error> {
        let in_rate = |evict: &u32| (1..=rate.get()).contains(evict);
        let evict = u32::try_from(evict).ok().filter(in_rate).ok_or(Error::EvictThreshold(evict))?;
        let nonzero = |replace: &u16| *replace != 0;
        let replace = u16::try_from(replace).ok().filter(nonzero).ok_or(Error::ReplaceThreshold(replace))?;
        Ok(Thresholds { evict, replace })
    }

    /// Hits.
    #[must_use]
    pub fn evict(&self) -> u32 {
        self.evict
    }

    /// Misses.
    #[must_use]
    pub fn replace(&self) -> u16 {
        self.replace
    }
}

impl Replacement for Thresholds {
    #[inline]
    fn should_evict(&self, hits: u32, _misses: u32) -> bool {
        hits >= self.evict
    }

    #[inline]
    fn should_replace(&self, _hits: u32, misses: u32) -> bool {
        misses >= u32::from(self.replace)
    }
}

/// Sizes of a [`TagTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagShape {
    rate: Rate,
    entries: TableSize,
    tag_bits: u32,
    ways: u32,
}

impl TagShape {
    /// A table of `entries` entries in sets of `ways` (1 to 8), with tags of `tag_bits` (1 to 8).
    pub fn new(rate: Rate, entries: TableSize, tag_bits: u64, ways: u64) -> Result<TagShape, Error> {
        let small = |n: u64| u32::try_from(n).ok().filter(|n| (1..=8).contains(n));
        let tag_bits = small(tag_bits).ok_or(Error::TagBits(tag_bits))?;
        let ways = small(ways).ok_or(Error::Ways(ways))?;
        if !entries.get().is_multiple_of(ways) {
            return Err(Error::UnevenWays { entries: entries.get(), ways });
        }
        Ok(TagShape { rate, entries, tag_bits, ways })
    }

    /// Hits at which an entry is sent.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Entries of the whole table.
    #[must_use]
    pub fn entries(&self) -> TableSize {
        self.entries
    }

    /// Bits of a tag.
    #[must_use]
    pub fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    /// Entries of a set.
    #[must_use]
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Sets, which is what a hash has to tell apart.
    pub fn sets(&self) -> Result<TableSize, Error> {
        TableSize::new(u64::from(self.entries.get() / self.ways))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Valid,
    Evict,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// An empty entry, too, has hits: what was handed over when its last tuple was evicted.
    hits: u32,
    /// Not zero only while waiting to be evicted.
    misses: u16,
    tag: u8,
    state: State,
}

/// The tagged compressor.
#[derive(Clone, Debug)]
pub struct TagTable<H, P = Thresholds> {
    shape: TagShape,
    policy: P,
    hash: H,
    entries: Box<[Entry]>,
}

impl<H: TableHash, P: Replacement> TagTable<H, P> {
    /// An empty table; it has as many sets as the hash has places.
    #[must_use]
    pub fn new(shape: TagShape, policy: P, hash: H) -> TagTable<H, P> {
        let empty = Entry { hits: 0, misses: 0, tag: 0, state: State::Empty };
        let n = hash.places().entries() * shape.ways as usize;
        TagTable { shape, policy, hash, entries: vec![empty; n].into_boxed_slice() }
    }

    #[inline]
    fn set_of(&self, key: [u64; 2]) -> core::ops::Range<usize> {
        let ways = self.shape.ways as usize;
        let first = self.hash.index(key) * ways;
        first..first + ways
    }
}

/// The entry of a set that a tuple without one gets or presses on.
fn wanted(set: &mut [Entry]) -> Option<&mut Entry> {
    let rank = |state| match state {
        State::Empty => 0,
        State::Evict => 1,
        State::Valid => 2,
    };
    set.iter_mut().min_by_key(|entry| (rank(entry.state), entry.hits))
}

impl Entry {
    /// E1 and E5: the entry is now about the tuple with this tag, and so are all counts in it.
    #[inline]
    fn assign(&mut self, tag: u8, weight: u64, shape: &TagShape) -> Option<u64> {
        let hits = u64::from(self.hits) + u64::from(self.misses);
        (self.tag, self.state, self.misses) = (tag, State::Valid, 0);
        self.count(hits.saturating_add(weight), shape)
    }

    /// E2 or E3: the count is sent at the rate.
    #[inline]
    fn count(&mut self, hits: u64, shape: &TagShape) -> Option<u64> {
        if hits < u64::from(shape.rate.get()) {
            self.hits = hits as u32;
            return None;
        }
        (self.hits, self.state) = (0, State::Empty);
        Some(hits)
    }

    #[inline]
    fn hit<P: Replacement>(&mut self, weight: u64, shape: &TagShape, policy: &P) -> Option<u64> {
        let hits = u64::from(self.hits).saturating_add(weight);
        if self.state == State::Valid {
            return self.count(hits, shape);
        }
        let misses = u32::from(self.misses);
        let is_full = hits >= u64::from(shape.rate.get());
        if is_full || policy.should_evict(hits as u32, misses) {
            *self = Entry { hits: misses, misses: 0, tag: self.tag, state: State::Empty };
            return Some(hits);
        }
        self.hits = hits as u32;
        None
    }

    #[inline]
    fn miss<P: Replacement>(&mut self, tag: u8, weight: u64, shape: &TagShape, policy: &P) -> Option<u64> {
        if self.state == State::Empty {
            return self.assign(tag, weight, shape);
        }
        let misses = u64::from(self.misses).saturating_add(weight);
        match u16::try_from(misses) {
            Ok(few) if !policy.should_replace(self.hits, u32::from(few)) => {
                (self.state, self.misses) = (State::Evict, few);
                None
            }
            _ => self.assign(tag, weight, shape),
        }
    }
}

impl<T: Tuple, H: TableHash, P: Replacement> Compressor<T> for TagTable<H, P> {
    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        let key = message.tuple.key();
        let tag = self.hash.tag(key, self.shape.tag_bits);
        let range = self.set_of(key);
        let set = self.entries.get_mut(range)?;
        let own = set.iter_mut().find(|entry| entry.state != State::Empty && entry.tag == tag);
        let weight = match own {
            Some(entry) => entry.hit(message.weight, &self.shape, &self.policy),
            None => wanted(set)?.miss(tag, message.weight, &self.shape, &self.policy),
        }?;
        Some(Message { weight, ..message })
    }

    fn drain(&mut self, _send: &mut dyn FnMut(Message<T>)) {}

    fn residue(&self) -> i128 {
        self.entries.iter().map(|entry| i128::from(entry.hits) + i128::from(entry.misses)).sum()
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::FastHash;
    use alloc::vec::Vec;

    /// A table of one set, and tuples with tags of their own: the tag is the lowest bits of the
    /// tuple.
    struct OnePlace;

    impl TableHash for OnePlace {
        fn places(&self) -> TableSize {
            TableSize::new(1).unwrap()
        }
        fn index(&self, _key: [u64; 2]) -> usize {
            0
        }
        fn tag(&self, [tuple, _]: [u64; 2], tag_bits: u32) -> u8 {
            (tuple & ((1 << tag_bits) - 1)) as u8
        }
    }

    fn table(ways: u64, evict: u64, replace: u64) -> TagTable<OnePlace> {
        let rate = Rate::new(5).unwrap();
        let shape = TagShape::new(rate, TableSize::new(ways).unwrap(), 4, ways).unwrap();
        TagTable::new(shape, Thresholds::new(rate, evict, replace).unwrap(), OnePlace)
    }

    fn sent(table: &mut TagTable<OnePlace>, stream: &[u64]) -> Vec<(u64, u64)> {
        stream.iter().filter_map(|&tuple| table.observe(tuple)).map(|message| (message.tuple, message.weight)).collect()
    }

    fn residue(table: &TagTable<OnePlace>) -> i128 {
        Compressor::<u64>::residue(table)
    }

    #[test]
    fn a_full_counter_is_sent_and_the_entry_is_empty() {
        let mut table = table(1, 3, 8);
        assert_eq!(sent(&mut table, &[1, 1, 1, 1, 1, 2]), [(1, 5)]);
        assert_eq!((table.entries[0].state, table.entries[0].tag, residue(&table)), (State::Valid, 2, 1));
    }

    #[test]
    fn an_entry_waits_for_its_tuple_to_be_evicted_and_hands_its_misses_over() {
        let mut table = table(1, 3, 8);
        // E1, E3, E4 by 2, E5a, E6 at the third hit; then 2 takes over with the two misses.
        assert_eq!(sent(&mut table, &[1, 1, 2, 2, 1]), [(1, 3)]);
        assert_eq!((table.entries[0].state, table.entries[0].hits), (State::Empty, 2));
        assert_eq!(sent(&mut table, &[2, 2, 2]), [(2, 5)]);
        assert_eq!(residue(&table), 0);
    }

    #[test]
    fn too_few_hits_are_not_worth_a_message() {
        let mut table = table(1, 4, 8);
        assert_eq!(sent(&mut table, &[1, 2, 1, 1]), []);
        assert_eq!((table.entries[0].state, table.entries[0].hits), (State::Evict, 3));
        assert_eq!(sent(&mut table, &[1]), [(1, 4)]);
    }

    #[test]
    fn too_many_misses_replace_the_tuple_and_hand_all_counts_over() {
        let mut table = table(1, 5, 2);
        assert_eq!(sent(&mut table, &[1, 2, 2]), []);
        let Entry { hits, misses, tag, state } = table.entries[0];
        assert_eq!((hits, misses, tag, state), (3, 0, 2, State::Valid));
        assert_eq!(sent(&mut table, &[2, 2]), [(2, 5)]);
    }

    #[test]
    fn a_set_keeps_as_many_tuples_as_it_has_ways() {
        let mut table = table(2, 5, 8);
        assert_eq!(sent(&mut table, &[1, 2, 1, 2, 1, 2, 1, 2, 1, 2]), [(1, 5), (2, 5)]);
    }

    #[test]
    fn tuples_with_the_same_tag_are_taken_for_each_other() {
        let mut table = table(1, 5, 8);
        assert_eq!(sent(&mut table, &[1, 17, 1, 17, 17]), [(17, 5)]);
    }

    #[test]
    fn shapes_and_thresholds_are_checked() {
        let (rate, n) = (Rate::new(256).unwrap(), TableSize::new(2048).unwrap());
        assert_eq!(TagShape::new(rate, n, 9, 2), Err(Error::TagBits(9)));
        assert_eq!(TagShape::new(rate, n, 2, 0), Err(Error::Ways(0)));
        assert_eq!(TagShape::new(rate, n, 2, 3), Err(Error::UnevenWays { entries: 2048, ways: 3 }));
        assert_eq!(Thresholds::new(rate, 257, 8), Err(Error::EvictThreshold(257)));
        assert_eq!(Thresholds::new(rate, 64, 0), Err(Error::ReplaceThreshold(0)));
        let shape = TagShape::new(rate, n, 2, 2).unwrap();
        let policy = Thresholds::new(rate, 64, 8).unwrap();
        let table = TagTable::new(shape, policy, FastHash::new(shape.sets().unwrap(), 1));
        assert_eq!(Compressor::<u64>::memory_bytes(&table), 2048 * 8);
    }
}
