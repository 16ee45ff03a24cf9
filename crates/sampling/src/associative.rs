//! `A`: a table of tuples with counters. The least recently used one makes room for a new one and
//! is sent, so that nothing is lost.

use alloc::vec::Vec;

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::TableSize;
use crate::index::Index;

/// Counts tuples exactly for as long as they stay in the table.
#[derive(Clone, Debug)]
pub struct Associative<T> {
    entries: Vec<Entry<T>>,
    capacity: usize,
    index: Index,
    /// The ends of the list of entries by use; without meaning while there are none.
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    tuple: T,
    weight: u64,
    /// Neighbours in the list; without meaning at its ends.
    newer: u32,
    older: u32,
}

impl<T: Tuple> Associative<T> {
    /// A table for `n` tuples.
    #[must_use]
    pub fn new(n: TableSize, seed: u64) -> Associative<T> {
        let capacity = n.entries();
        Associative {
            entries: Vec::with_capacity(capacity),
            capacity,
            index: Index::new(n, seed),
            newest: 0,
            oldest: 0,
        }
    }

    #[inline]
    fn find(&self, tuple: T) -> Option<u32> {
        self.index.find(tuple, |entry| self.entries[entry as usize].tuple)
    }

    fn hit(&mut self, slot: u32, message: Message<T>) -> Option<Message<T>> {
        self.touch(slot);
        let entry = &mut self.entries[slot as usize];
        match entry.weight.checked_add(message.weight) {
            Some(weight) => {
                entry.weight = weight;
                None
            }
            None => {
                let full = core::mem::replace(&mut entry.weight, message.weight);
                Some(Message { weight: full, ..message })
            }
        }
    }

    /// Puts a tuple in an unused entry.
    fn add(&mut self, Message { tuple, weight }: Message<T>) {
        let slot = self.entries.len() as u32;
        self.entries.push(Entry { tuple, weight, newer: slot, older: self.newest });
        if slot == 0 {
            self.oldest = slot;
        } else {
            self.entries[self.newest as usize].newer = slot;
        }
        self.newest = slot;
        self.index.insert(tuple, slot);
    }

    /// Puts a tuple in the place of the least recently used one.
    fn replace(&mut self, Message { tuple, weight }: Message<T>) -> Message<T> {
        let slot = self.oldest;
        let old = self.entries[slot as usize];
        self.index.remove(old.tuple, |entry| self.entries[entry as usize].tuple);
        self.touch(slot);
        let entry = &mut self.entries[slot as usize];
        (entry.tuple, entry.weight) = (tuple, weight);
        self.index.insert(tuple, slot);
        Message { tuple: old.tuple, weight: old.weight }
    }

    /// Makes an entry the most recently used one.
    fn touch(&mut self, slot: u32) {
        if slot == self.newest {
            return;
        }
        let Entry { newer, older, .. } = self.entries[slot as usize];
        if slot == self.oldest {
            self.oldest = newer;
        } else {
            self.entries[older as usize].newer = newer;
            self.entries[newer as usize].older = older;
        }
        self.entries[self.newest as usize].newer = slot;
        self.entries[slot as usize].older = self.newest;
        self.newest = slot;
    }
}

impl<T: Tuple> Compressor<T> for Associative<T> {
    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        if let Some(slot) = self.find(message.tuple) {
            return self.hit(slot, message);
        }
        if self.entries.len() < self.capacity {
            self.add(message);
            return None;
        }
        Some(self.replace(message))
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        for Entry { tuple, weight, .. } in self.entries.drain(..) {
            send(Message { tuple, weight });
        }
        self.index.clear();
    }

    fn residue(&self) -> i128 {
        self.entries.iter().map(|entry| i128::from(entry.weight)).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.capacity * size_of::<Entry<T>>() + self.index.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, VecDeque};
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_used_tuple_is_sent() {
        let mut table = Associative::new(TableSize::new(2).unwrap(), 1);
        let sent: Vec<_> = [1u64, 2, 1, 3, 3, 2].iter().filter_map(|&tuple| table.observe(tuple)).collect();
        assert_eq!(sent, [Message { tuple: 2, weight: 1 }, Message { tuple: 1, weight: 2 }]);
        assert_eq!(table.residue(), 3);
    }

    #[test]
    fn a_counter_that_would_overflow_is_sent() {
        let mut table = Associative::new(TableSize::new(2).unwrap(), 1);
        assert_eq!(table.absorb(Message { tuple: 1u64, weight: u64::MAX }), None);
        let sent = table.absorb(Message { tuple: 1, weight: 5 });
        assert_eq!((sent, table.residue()), (Some(Message { tuple: 1, weight: u64::MAX }), 5));
    }

    proptest! {
        /// Same messages as a list that is searched and shifted, and no count is lost.
        #[test]
        fn behaves_as_a_list_by_use(stream in prop::collection::vec(0u64..12, 0..400), k in 1usize..9) {
            let mut table = Associative::new(TableSize::new(k as u64).unwrap(), 7);
            let mut list: VecDeque<(u64, u64)> = VecDeque::new();
            let mut totals: BTreeMap<u64, u64> = BTreeMap::new();
            for &tuple in &stream {
                let count = list.iter().position(|entry| entry.0 == tuple).and_then(|at| list.remove(at));
                list.push_front((tuple, count.map_or(1, |entry| entry.1 + 1)));
                let expected = if list.len() > k { list.pop_back() } else { None };
                let sent = table.observe(tuple).map(|message| (message.tuple, message.weight));
                prop_assert_eq!(sent, expected);
                if let Some((tuple, weight)) = sent {
                    *totals.entry(tuple).or_default() += weight;
                }
            }
            table.drain(&mut |message| *totals.entry(message.tuple).or_default() += message.weight);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            stream.iter().for_each(|&tuple| *exact.entry(tuple).or_default() += 1);
            prop_assert_eq!(totals, exact);
            prop_assert_eq!(table.residue(), 0);
        }
    }
}
