//! Count-Min (Cormode, Muthukrishnan 2005) with conservative update, and a heap of the tuples with
//! the greatest estimates.
//!
//! Each row has a counter for every hash value; the least counter of a tuple is its estimate, never
//! too low. A conservative update raises only counters below the new estimate, which costs nothing
//! and makes the estimates better.

use alloc::boxed::Box;
use alloc::vec;

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::{Error, TableSize};
use crate::hash::{FastHash, TableHash};
use crate::heap::Heap;

/// Sizes of a [`CountMin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountMinShape {
    rows: u32,
    width: TableSize,
    heap: TableSize,
}

impl CountMinShape {
    /// 1 to 16 rows of `width` counters, and a heap of `heap` tuples.
    pub fn new(rows: u64, width: TableSize, heap: TableSize) -> Result<CountMinShape, Error> {
        let rows = u32::try_from(rows).ok().filter(|rows| (1..=16).contains(rows)).ok_or(Error::Rows(rows))?;
        Ok(CountMinShape { rows, width, heap })
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Counters of each row.
    #[must_use]
    pub fn width(&self) -> TableSize {
        self.width
    }

    /// Tuples in the heap.
    #[must_use]
    pub fn heap(&self) -> TableSize {
        self.heap
    }
}

/// `CM`: the tuples with the greatest estimates.
#[derive(Clone, Debug)]
pub struct CountMin<T> {
    hashes: Box<[FastHash]>,
    /// Row after row; a counter stays at its largest value.
    counters: Box<[u32]>,
    heap: Heap<T>,
    balance: i128,
}

impl<T: Tuple> CountMin<T> {
    /// An empty sketch.
    #[must_use]
    pub fn new(shape: CountMinShape, seed: u64) -> CountMin<T> {
        let mut seeds = fastrand::Rng::with_seed(seed);
        CountMin {
            hashes: (0..shape.rows).map(|_| FastHash::new(shape.width, seeds.u64(..))).collect(),
            counters: vec![0; shape.rows as usize * shape.width.entries()].into_boxed_slice(),
            heap: Heap::new(shape.heap, seeds.u64(..)),
            balance: 0,
        }
    }

    /// Adds to the counters of a tuple; its new estimate.
    #[inline]
    fn count(&mut self, Message { tuple, weight }: Message<T>) -> u64 {
        let key = tuple.key();
        let width = self.counters.len() / self.hashes.len();
        let cells = |(row, hash): (usize, &FastHash)| row * width + hash.index(key);
        let least = self.hashes.iter().enumerate().map(cells).map(|cell| self.counters[cell]).min().unwrap_or(0);
        let estimate = least.saturating_add(u32::try_from(weight).unwrap_or(u32::MAX));
        for cell in self.hashes.iter().enumerate().map(cells) {
            self.counters[cell] = self.counters[cell].max(estimate);
        }
        u64::from(estimate)
    }
}

impl<T: Tuple> Compressor<T> for CountMin<T> {
    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        self.balance += i128::from(message.weight);
        let estimate = Message { weight: self.count(message), ..message };
        if let Some(entry) = self.heap.find(message.tuple) {
            self.heap.raise(entry, estimate.weight);
        } else if !self.heap.is_full() {
            self.heap.add(estimate);
        } else if estimate.weight > self.heap.least() {
            self.heap.replace_least(estimate);
        }
        None
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        for message in self.heap.iter() {
            self.balance -= i128::from(message.weight);
            send(message);
        }
        self.heap.clear();
        self.counters.fill(0);
    }

    fn residue(&self) -> i128 {
        self.balance
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.counters) + self.heap.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn estimates_are_never_too_low(stream in prop::collection::vec((0u64..40, 1u64..9), 1..300)) {
            let size = |n| TableSize::new(n).unwrap();
            let mut sketch = CountMin::new(CountMinShape::new(3, size(16), size(8)).unwrap(), 5);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for &(tuple, weight) in &stream {
                sketch.absorb(Message { tuple, weight });
                *exact.entry(tuple).or_default() += weight;
            }
            let mut n_sent = 0;
            sketch.drain(&mut |message| {
                assert!(message.weight >= exact[&message.tuple]);
                n_sent += 1;
            });
            prop_assert_eq!(n_sent, exact.len().min(8));
        }
    }
}
