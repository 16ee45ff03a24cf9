//! Addresses for which the agent has no copy, so that it is not asked again and again.
//!
//! A small table, in which a new address may take the place of an older one: to forget costs one
//! question more. What must not happen is that an address stays here when other code comes to lie
//! there; so whatever is unmapped is forgotten.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const N_SLOTS: usize = 1024;

/// The table. Address 0 is an empty slot.
pub struct Uncopied {
    slots: [AtomicU64; N_SLOTS],
    /// All addresses are between these two.
    lowest: AtomicU64,
    highest: AtomicU64,
}

impl Uncopied {
    pub const fn new() -> Uncopied {
        Uncopied {
            slots: [const { AtomicU64::new(0) }; N_SLOTS],
            lowest: AtomicU64::new(u64::MAX),
            highest: AtomicU64::new(0),
        }
    }

    pub fn contains(&self, address: u64) -> bool {
        self.slot(address).load(Relaxed) == address
    }

    pub fn insert(&self, address: u64) {
        self.lowest.fetch_min(address, Relaxed);
        self.highest.fetch_max(address, Relaxed);
        self.slot(address).store(address, Relaxed);
    }

    /// Forgets the addresses from `start` up to `end`.
    pub fn forget(&self, start: u64, end: u64) {
        if self.highest.load(Relaxed) < start || self.lowest.load(Relaxed) >= end {
            return;
        }
        for slot in &self.slots {
            let address = slot.load(Relaxed);
            if (start..end).contains(&address) {
                let _ = slot.compare_exchange(address, 0, Relaxed, Relaxed);
            }
        }
    }

    fn slot(&self, address: u64) -> &AtomicU64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let bits = N_SLOTS.ilog2();
        &self.slots[(address.wrapping_mul(GOLDEN) >> (64 - bits)) as usize]
    }
}
