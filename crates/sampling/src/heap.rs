//! The tuples of greatest weight: a heap whose root has the least, with an index to find tuples in
//! it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::compressor::{Message, Tuple};
use crate::error::TableSize;
use crate::index::Index;

#[derive(Clone, Debug)]
pub(crate) struct Heap<T> {
    /// Entries stay where they are; the heap orders their numbers.
    entries: Vec<Message<T>>,
    order: Box<[u32]>,
    /// Where an entry is in `order`.
    position: Box<[u32]>,
    capacity: usize,
    index: Index,
}

impl<T: Tuple> Heap<T> {
    pub(crate) fn new(n: TableSize, seed: u64) -> Heap<T> {
        let capacity = n.entries();
        let numbers = || vec![0; capacity].into_boxed_slice();
        Heap {
            entries: Vec::with_capacity(capacity),
            order: numbers(),
            position: numbers(),
            capacity,
            index: Index::new(n, seed),
        }
    }

    #[inline]
    pub(crate) fn find(&self, tuple: T) -> Option<u32> {
        self.index.find(tuple, |entry| self.entries[entry as usize].tuple)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// The least weight, 0 if there is none.
    #[inline]
    pub(crate) fn least(&self) -> u64 {
        self.entries.get(self.order[0] as usize).map_or(0, |entry| entry.weight)
    }

    pub(crate) fn weight(&self, entry: u32) -> u64 {
        self.entries[entry as usize].weight
    }

    /// Gives an entry a weight that is not less than what it has.
    #[inline]
    pub(crate) fn raise(&mut self, entry: u32, weight: u64) {
        self.entries[entry as usize].weight = weight;
        self.sift_down(self.position[entry as usize] as usize);
    }

    /// Adds a tuple that is not there; the heap must not be full.
    pub(crate) fn add(&mut self, message: Message<T>) {
        let entry = self.entries.len() as u32;
        self.entries.push(message);
        self.index.insert(message.tuple, entry);
        self.place(entry as usize, entry);
        self.sift_up(entry as usize);
    }

    /// Puts a tuple that is not there in the place of the one of least weight; its own weight is
    /// not less.
    pub(crate) fn replace_least(&mut self, message: Message<T>) {
        let entry = self.order[0];
        let old = self.entries[entry as usize].tuple;
        self.index.remove(old, |entry| self.entries[entry as usize].tuple);
        self.entries[entry as usize] = message;
        self.index.insert(message.tuple, entry);
        self.sift_down(0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Message<T>> {
        self.entries.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let links = size_of_val(&*self.order) + size_of_val(&*self.position);
        self.capacity * size_of::<Message<T>>() + links + self.index.memory_bytes()
    }

    #[inline]
    fn weight_at(&self, at: usize) -> u64 {
        self.entries[self.order[at] as usize].weight
    }

    #[inline]
    fn place(&mut self, at: usize, entry: u32) {
        self.order[at] = entry;
        self.position[entry as usize] = at as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.order[at];
        let weight = self.entries[entry as usize].weight;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.weight_at(parent) <= weight {
                break;
            }
            self.place(at, self.order[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        let entry = self.order[at];
        let weight = self.entries[entry as usize].weight;
        loop {
            let left = 2 * at + 1;
            if left >= self.entries.len() {
                break;
            }
            let right = left + 1;
            let is_right = right < self.entries.len() && self.weight_at(right) < self.weight_at(left);
            let child = if is_right { right } else { left };
            if weight <= self.weight_at(child) {
                break;
            }
            self.place(at, self.order[child]);
            at = child;
        }
        self.place(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_root_is_the_least(steps in prop::collection::vec((0u64..10, 1u64..50), 1..200)) {
            let mut heap = Heap::new(TableSize::new(5).unwrap(), 3);
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (tuple, more) in steps {
                let least = list.iter().map(|entry| entry.1).min().unwrap_or(0);
                prop_assert_eq!(heap.least(), least);
                if let Some(entry) = heap.find(tuple) {
                    let weight = heap.weight(entry) + more;
                    heap.raise(entry, weight);
                    list.iter_mut().filter(|entry| entry.0 == tuple).for_each(|entry| entry.1 = weight);
                } else if heap.is_full() {
                    heap.replace_least(Message { tuple, weight: least + more });
                    // Of several least ones, any may go: the list follows the heap.
                    list.retain(|entry| heap.find(entry.0).is_some());
                    list.push((tuple, least + more));
                } else {
                    heap.add(Message { tuple, weight: more });
                    list.push((tuple, more));
                }
                let mut held: Vec<_> = heap.iter().map(|message| (message.tuple, message.weight)).collect();
                held.sort_unstable();
                list.sort_unstable();
                prop_assert_eq!(&held, &list);
            }
        }
    }
}
