//! Counts steps from block to block, millions per second.
//!
//! Programs run in loops, so most steps are the same few thousand. A small direct-mapped table takes those; what falls out of it goes to
//! a hash map.

use rustc_hash::FxHashMap;

const N_SLOTS: usize = 1 << 13;

/// Counts of pairs of block records of one process.
#[derive(Debug)]
pub struct EdgeCounter {
    slots: Vec<(u64, u32)>,
    rest: FxHashMap<u64, u64>,
}

impl EdgeCounter {
    pub fn new() -> EdgeCounter {
        EdgeCounter { slots: vec![(0, 0); N_SLOTS], rest: FxHashMap::default() }
    }

    pub fn add(&mut self, records: &[u32]) {
        for pair in records.windows(2) {
            let key = u64::from(pair[0]) << 32 | u64::from(pair[1]);
            let slot = &mut self.slots[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize];
            if slot.0 == key && slot.1 < u32::MAX {
                slot.1 += 1;
                continue;
            }
            if slot.1 > 0 {
                *self.rest.entry(slot.0).or_default() += u64::from(slot.1);
            }
            *slot = (key, 1);
        }
    }

    /// All counts since the last time, as (from, to, n).
    pub fn take(&mut self) -> impl Iterator<Item = (u32, u32, u64)> {
        for slot in &mut self.slots {
            let (key, n) = std::mem::take(slot);
            if n > 0 {
                *self.rest.entry(key).or_default() += u64::from(n);
            }
        }
        std::mem::take(&mut self.rest).into_iter().map(|(key, n)| ((key >> 32) as u32, key as u32, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_counted() {
        let mut counter = EdgeCounter::new();
        let records: Vec<u32> = (0..100_000u32).map(|i| i.wrapping_mul(2_654_435_761) % 300).collect();
        let mut expected: FxHashMap<(u32, u32), u64> = FxHashMap::default();
        for pair in records.windows(2) {
            *expected.entry((pair[0], pair[1])).or_default() += 1;
        }
        counter.add(&records);
        let counted: FxHashMap<(u32, u32), u64> = counter.take().map(|(from, to, n)| ((from, to), n)).collect();
        assert!(counted == expected, "{} instead of {} pairs", counted.len(), expected.len());
        assert_eq!(counter.take().count(), 0);
    }
}
