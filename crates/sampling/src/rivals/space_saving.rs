//! Space-Saving (Metwally, Agrawal, El Abbadi 2005): a new tuple takes over the counter, and the
//! count, of the least frequent one.
//!
//! Counts add up to the length of the stream, so that nothing is lost; a count is too large by at
//! most the least count of the table.

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::TableSize;
use crate::heap::Heap;

/// `SS`: the `n` most frequent tuples, never too low.
#[derive(Clone, Debug)]
pub struct SpaceSaving<T>(Heap<T>);

impl<T: Tuple> SpaceSaving<T> {
    /// A table of `n` tuples.
    #[must_use]
    pub fn new(n: TableSize, seed: u64) -> SpaceSaving<T> {
        SpaceSaving(Heap::new(n, seed))
    }
}

impl<T: Tuple> Compressor<T> for SpaceSaving<T> {
    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        let SpaceSaving(heap) = self;
        if let Some(entry) = heap.find(message.tuple) {
            heap.raise(entry, heap.weight(entry).saturating_add(message.weight));
        } else if heap.is_full() {
            heap.replace_least(Message { weight: heap.least().saturating_add(message.weight), ..message });
        } else {
            heap.add(message);
        }
        None
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        self.0.iter().for_each(send);
        self.0.clear();
    }

    fn residue(&self) -> i128 {
        self.0.iter().map(|message| i128::from(message.weight)).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// The guarantees of the paper: never too low, too high by at most N / k, and every tuple
        /// above N / k is there.
        #[test]
        fn counts_are_bounded(stream in prop::collection::vec(0u64..40, 1..500), k in 1u64..12) {
            let mut table = SpaceSaving::new(TableSize::new(k).unwrap(), 1);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for &tuple in &stream {
                table.observe(tuple);
                *exact.entry(tuple).or_default() += 1;
            }
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            table.drain(&mut |message| {
                counts.insert(message.tuple, message.weight);
            });
            let slack = stream.len() as u64 / k;
            for (tuple, count) in &counts {
                prop_assert!(exact[tuple] <= *count && *count <= exact[tuple] + slack);
            }
            prop_assert!(exact.iter().all(|(tuple, count)| *count <= slack || counts.contains_key(tuple)));
            prop_assert_eq!(counts.values().sum::<u64>(), stream.len() as u64);
        }
    }
}
