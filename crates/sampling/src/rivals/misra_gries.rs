//! Misra-Gries (1982): a tuple that finds no counter takes one from every counter.
//!
//! Counters hold their value plus a common `floor`, so that taking from all of them is raising the
//! floor.

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::TableSize;
use crate::heap::Heap;

/// `MG`: every tuple that occurs more than 1/(n+1) of the time, never too high.
#[derive(Clone, Debug)]
pub struct MisraGries<T> {
    heap: Heap<T>,
    n: u64,
    floor: u64,
    lost: i128,
}

impl<T: Tuple> MisraGries<T> {
    /// A table of `n` tuples.
    #[must_use]
    pub fn new(n: TableSize, seed: u64) -> MisraGries<T> {
        MisraGries { heap: Heap::new(n, seed), n: u64::from(n.get()), floor: 0, lost: 0 }
    }

    fn values(&self) -> impl Iterator<Item = Message<T>> {
        let floor = self.floor;
        self.heap.iter().map(move |message| Message { weight: message.weight - floor, ..message })
    }

    /// A tuple without a counter takes from all of them, and gets the least one if that leaves
    /// nothing in it.
    fn take_from_all(&mut self, message: Message<T>) {
        let taken = message.weight.min(self.heap.least() - self.floor);
        self.floor += taken;
        self.lost += i128::from(taken) * i128::from(self.n + 1);
        let rest = message.weight - taken;
        if rest > 0 {
            self.heap.replace_least(Message { weight: self.floor.saturating_add(rest), ..message });
        }
    }
}

impl<T: Tuple> Compressor<T> for MisraGries<T> {
    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        if let Some(entry) = self.heap.find(message.tuple) {
            self.heap.raise(entry, self.heap.weight(entry).saturating_add(message.weight));
        } else if self.heap.is_full() {
            self.take_from_all(message);
        } else {
            self.heap.add(Message { weight: self.floor.saturating_add(message.weight), ..message });
        }
        None
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        self.values().filter(|message| message.weight > 0).for_each(send);
        self.heap.clear();
        self.floor = 0;
    }

    fn residue(&self) -> i128 {
        self.lost + self.values().map(|message| i128::from(message.weight)).sum::<i128>()
    }

    fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Never too high, too low by at most N / (k + 1).
        #[test]
        fn counts_are_bounded(stream in prop::collection::vec((0u64..40, 1u64..9), 1..300), k in 1u64..12) {
            let mut table = MisraGries::new(TableSize::new(k).unwrap(), 1);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for &(tuple, weight) in &stream {
                table.absorb(Message { tuple, weight });
                *exact.entry(tuple).or_default() += weight;
            }
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            table.drain(&mut |message| {
                counts.insert(message.tuple, message.weight);
            });
            let slack = exact.values().sum::<u64>() / (k + 1);
            for (tuple, exact) in &exact {
                let count = counts.get(tuple).copied().unwrap_or(0);
                prop_assert!(count <= *exact && *exact <= count + slack);
            }
        }
    }
}
