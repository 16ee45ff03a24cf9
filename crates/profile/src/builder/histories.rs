//! Outcomes of conditional branches by the outcomes before them.

use rustc_hash::FxHashMap;

use super::BlockRef;
use crate::model::HISTORY_BITS;

const N_HISTORIES: usize = 1 << HISTORY_BITS;

/// Counts per branch: a row of not taken and taken for every history. A row is there for branches
/// that bursts have met.
#[derive(Debug, Default)]
pub(super) struct Histories {
    rows: Vec<[[u64; 2]; N_HISTORIES]>,
    blocks: Vec<BlockRef>,
    by_block: FxHashMap<BlockRef, BranchRow>,
}

/// A branch in [`Histories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BranchRow(u32);

impl BranchRow {
    /// Of a block that does not end in a conditional branch.
    pub const NONE: BranchRow = BranchRow(u32::MAX);

    pub fn number(self) -> u32 {
        self.0
    }
}

/// The latest outcomes of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcomes {
    bits: usize,
    n_seen: u32,
}

impl Histories {
    pub fn row(&mut self, block: BlockRef) -> BranchRow {
        let next = BranchRow(self.blocks.len() as u32);
        let row = *self.by_block.entry(block).or_insert(next);
        if row == next {
            self.blocks.push(block);
            self.rows.push([[0; 2]; N_HISTORIES]);
        }
        row
    }

    /// Counts an outcome, if enough others came before it in the burst.
    #[inline]
    pub fn note(&mut self, row: BranchRow, outcomes: &mut Outcomes, is_taken: bool) {
        if outcomes.n_seen >= HISTORY_BITS {
            if let Some(counts) = self.rows.get_mut(row.0 as usize) {
                counts[outcomes.bits % N_HISTORIES][usize::from(is_taken)] += 1;
            }
        } else {
            outcomes.n_seen += 1;
        }
        outcomes.bits = (outcomes.bits << 1 | usize::from(is_taken)) % N_HISTORIES;
    }

    /// All branches and histories that were counted: block, history, times not taken and taken.
    pub fn iter(&self) -> impl Iterator<Item = (BlockRef, u8, [u64; 2])> {
        self.blocks.iter().zip(&self.rows).flat_map(|(&block, counts)| {
            let seen = counts.iter().zip(0u8..).filter(|(counts, _)| **counts != [0, 0]);
            seen.map(move |(&counts, history)| (block, history, counts))
        })
    }
}
