//! What jumps through tables leave where arriving does not always do the same: a row for each jump,
//! with an entry for each block that tables lead to.

use flow::graph::BlockId;

/// Bytes of an entry of a row.
pub(super) const ROW_ENTRY_BYTES: u32 = 8;

/// What jumps through tables leave for the blocks that they lead to.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Blocks that tables lead to, ascending: one entry of a row each.
    pub(super) targets: Vec<BlockId>,
    /// Edges of tables by where they come from and lead to, with what is to be added and whether
    /// that ends the path.
    pub(super) amounts: Vec<(BlockId, BlockId, i32, bool)>,
}

impl Rows {
    /// The number of the entry of a block.
    pub fn index_of(&self, to: BlockId) -> Option<u32> {
        self.targets.binary_search(&to).ok().map(|index| index as u32)
    }

    /// The bytes of the row of a jump at the end of a block.
    pub fn bytes(&self, from: BlockId) -> Vec<u8> {
        let entry = |&to: &BlockId| {
            let index = self.amounts.binary_search_by_key(&(from, to), |&(from, to, ..)| (from, to));
            index.map_or((0, false), |index| (self.amounts[index].2, self.amounts[index].3))
        };
        let mut bytes = Vec::with_capacity(self.targets.len() * ROW_ENTRY_BYTES as usize);
        for (amount, is_end) in self.targets.iter().map(entry) {
            bytes.extend(amount.to_le_bytes());
            bytes.extend(u32::from(is_end).to_le_bytes());
        }
        bytes
    }
}
