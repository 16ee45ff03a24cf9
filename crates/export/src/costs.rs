//! What blocks cost.
//!
//! A profile has counts by block, but CPU time by function. The time of a function is divided over its blocks in proportion to the
//! instructions that they executed: every instruction of one function is taken to cost the same. A cache miss is thus spread over the
//! function in which it happens; the totals of functions are not affected.

use profile::Profile;
use profile::model::{BlockId, FunctionId};

use crate::round::{apportion, whole};

/// Blocks of a function below this share of its time are counted to its hottest block where every block makes an entry per context.
const NEGLIGIBLE: f64 = 1.0 / 256.0;

/// Instructions executed by block, grouped by function.
#[derive(Debug)]
pub(crate) struct Costs {
    by_function: Vec<Vec<BlockCost>>,
}

/// Of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCost {
    pub block: BlockId,
    /// Instructions executed.
    pub n_executed: f64,
}

impl Costs {
    pub fn new(profile: &Profile) -> Costs {
        let mut by_function = vec![Vec::new(); profile.functions.len()];
        for (index, block) in (0..).zip(&profile.blocks) {
            let n_executed = block.count.value.max(0.0) * f64::from(block.n_insns);
            if n_executed > 0.0 {
                by_function[block.function.index()].push(BlockCost { block: BlockId(index), n_executed });
            }
        }
        Costs { by_function }
    }

    /// The blocks of a function that executed instructions.
    pub fn blocks(&self, function: FunctionId) -> &[BlockCost] {
        &self.by_function[function.index()]
    }

    /// Instructions that a function executed.
    pub fn executed(&self, function: FunctionId) -> f64 {
        self.blocks(function).iter().map(|cost| cost.n_executed).sum()
    }

    /// Divides `ns` over all blocks of a function. Nothing if it has none.
    pub fn divide(&self, function: FunctionId, ns: u64) -> Vec<(BlockId, u64)> {
        let blocks = self.blocks(function);
        let weights: Vec<f64> = blocks.iter().map(|cost| cost.n_executed).collect();
        blocks.iter().map(|cost| cost.block).zip(apportion(ns, &weights)).collect()
    }

    /// Divides a context's time over the blocks of its function that matter. Nothing if the function has none.
    pub fn divide_roughly(&self, function: FunctionId, ns: u64) -> Vec<(BlockId, u64)> {
        let threshold = whole(ns as f64 * NEGLIGIBLE);
        let mut shares = self.divide(function, ns);
        let Some(hottest) = shares.iter().max_by_key(|share| share.1).map(|share| share.0) else { return shares };
        shares.retain(|&(block, share)| block == hottest || threshold <= share);
        let kept: u64 = shares.iter().map(|share| share.1).sum();
        for share in shares.iter_mut().filter(|share| share.0 == hottest) {
            share.1 += ns - kept;
        }
        shares
    }
}
