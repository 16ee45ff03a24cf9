//! Finds the entry of a tuple: open addressing with linear probing, of a size that never changes.
//!
//! The table holds numbers of entries; the tuples are with the entries. It has at least twice as
//! many places as there are entries, so that a search ends soon. Removal moves later entries of the
//! same run forward instead of leaving a mark, so that searches do not get longer with time.

use alloc::boxed::Box;
use alloc::vec;

use crate::compressor::Tuple;
use crate::error::TableSize;
use crate::hash::FastHash;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Index {
    hash: FastHash,
    places: Box<[u32]>,
}

impl Index {
    /// Room for `n` entries.
    pub(crate) fn new(n: TableSize, seed: u64) -> Index {
        let places = vec![NONE; (2 * n.entries()).next_power_of_two()];
        Index { hash: FastHash::new(n, seed), places: places.into_boxed_slice() }
    }

    /// The entry of `tuple`, given the tuples of entries.
    #[inline]
    pub(crate) fn find<T: Tuple>(&self, tuple: T, tuple_of: impl Fn(u32) -> T) -> Option<u32> {
        let mut at = self.home(tuple);
        loop {
            match self.places[at] {
                NONE => return None,
                entry if tuple_of(entry) == tuple => return Some(entry),
                _ => at = self.after(at),
            }
        }
    }

    /// Adds an entry for a tuple that has none. There must be room.
    pub(crate) fn insert<T: Tuple>(&mut self, tuple: T, entry: u32) {
        let mut at = self.home(tuple);
        while self.places[at] != NONE {
            at = self.after(at);
        }
        self.places[at] = entry;
    }

    /// Removes the entry of a tuple, which must be there.
    pub(crate) fn remove<T: Tuple>(&mut self, tuple: T, tuple_of: impl Fn(u32) -> T) {
        let mut hole = self.home(tuple);
        while self.places[hole] != NONE && tuple_of(self.places[hole]) != tuple {
            hole = self.after(hole);
        }
        let mut at = hole;
        loop {
            at = self.after(at);
            let entry = self.places[at];
            if entry == NONE {
                break;
            }
            let home = self.home(tuple_of(entry));
            // An entry may move to the hole unless its home lies behind the hole.
            if self.distance(home, at) >= self.distance(hole, at) {
                self.places[hole] = entry;
                hole = at;
            }
        }
        self.places[hole] = NONE;
    }

    pub(crate) fn clear(&mut self) {
        self.places.fill(NONE);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    #[inline]
    fn home<T: Tuple>(&self, tuple: T) -> usize {
        (self.hash.hash(tuple.key()) >> 32) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list, in a table so small that runs wrap around.
        #[test]
        fn finds_exactly_what_was_inserted_and_not_removed(steps in prop::collection::vec(0u64..12, 1..200), seed: u64) {
            let tuple_of = |entry: u32| u64::from(entry);
            let mut index = Index::new(TableSize::new(6).unwrap(), seed);
            let mut present: Vec<u64> = Vec::new();
            for tuple in steps {
                match present.iter().position(|&other| other == tuple) {
                    Some(at) => {
                        index.remove(tuple, tuple_of);
                        present.swap_remove(at);
                    }
                    None if present.len() < 6 => {
                        index.insert(tuple, tuple as u32);
                        present.push(tuple);
                    }
                    None => {}
                }
                for tuple in 0..12 {
                    prop_assert_eq!(index.find(tuple, tuple_of).is_some(), present.contains(&tuple));
                }
            }
        }
    }
}
