//! What blocks cost.
//!
//! The time of a function, or of one of its contexts, is divided over its blocks in proportion to
//! the time that ticks found in each. Where a recording has no such times, every instruction of a
//! function is taken to cost the same. The totals of functions are not affected.

use profile::Profile;
use profile::model::{BlockId, FunctionId};

use crate::round::{apportion, whole};

/// Blocks of a function below this share of its time are counted to its hottest block where every
/// block makes an entry per context.
const NEGLIGIBLE: f64 = 1.0 / 256.0;

/// What blocks executed and took, grouped by function.
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
    self_ns: f64,
}

impl Costs {
    pub fn new(profile: &Profile) -> Costs {
        let mut by_function = vec![Vec::new(); profile.functions.len()];
        for (index, block) in (0..).zip(&profile.blocks) {
            let n_executed = block.count.value.max(0.0) * f64::from(block.n_insns);
            let self_ns = block.self_ns.value.max(0.0);
            if n_executed > 0.0 || self_ns > 0.0 {
                by_function[block.function.index()].push(BlockCost { block: BlockId(index), n_executed, self_ns });
            }
        }
        Costs { by_function }
    }

    /// The blocks of a function that were seen to run.
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
        let is_timed = blocks.iter().any(|cost| cost.self_ns > 0.0);
        let weight = |cost: &BlockCost| if is_timed { cost.self_ns } else { cost.n_executed };
        let weights: Vec<f64> = blocks.iter().map(weight).collect();
        blocks.iter().map(|cost| cost.block).zip(apportion(ns, &weights)).collect()
    }

    /// Divides a context's time over the blocks of its function that matter. Nothing if the
    /// function has none.
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

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Block, BlockEnd};

    use super::*;

    fn costs(times_ns: [u64; 2]) -> Costs {
        let block = |(n_executed, self_ns): (u64, u64)| Block {
            function: FunctionId(0),
            address: 0,
            size: 4,
            last: 0,
            n_insns: 1,
            end: BlockEnd::Return,
            count: Estimate::exact(n_executed),
            self_ns: Estimate::exact(self_ns),
        };
        let function = profile::model::Function {
            module: profile::model::ModuleId(0),
            address: 0,
            size: 8,
            name: String::new(),
            entries: Estimate::default(),
            self_ns: Estimate::default(),
        };
        let blocks = [9, 1].into_iter().zip(times_ns).map(block).collect();
        Costs::new(&Profile { functions: vec![function], blocks, ..Profile::default() })
    }

    #[test]
    fn time_is_where_ticks_found_it() {
        assert_eq!(costs([20, 80]).divide(FunctionId(0), 1000), [(BlockId(0), 200), (BlockId(1), 800)]);
    }

    #[test]
    fn without_times_instructions_cost_the_same() {
        assert_eq!(costs([0, 0]).divide(FunctionId(0), 1000), [(BlockId(0), 900), (BlockId(1), 100)]);
    }
}
