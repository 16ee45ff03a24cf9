//! Whether every cycle of a function contains a check.

use flow::FunctionFlow;
use flow::cfg::EdgeKind;
use flow::graph::BlockId;

use super::Fault;

/// A way from block to block in the copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub from: BlockId,
    pub to: BlockId,
    pub is_checked: bool,
}

/// Ways of one function.
#[derive(Debug, Default)]
pub(super) struct Ways {
    pub direct: Vec<Way>,
    /// By block: whether its probe checks. So does that of a block that is copied with another
    /// function.
    pub block_checks: Vec<bool>,
}

/// Takes away what contains a check; the rest must have an order in which all ways lead forward.
pub(super) fn check(function: &FunctionFlow, ways: &Ways) -> Result<(), Fault> {
    let cfg = &function.cfg;
    let by_address = cfg.graph.edges().iter().zip(&cfg.edges).filter_map(|(edge, facts)| {
        let is_by_address = matches!(facts.kind, EdgeKind::JumpTable | EdgeKind::Call);
        edge.to.filter(|_| is_by_address).map(|to| Way { from: edge.from, to, is_checked: false })
    });
    let is_unchecked = |way: &Way| !way.is_checked && !ways.block_checks[way.to.index()];
    let mut unchecked: Vec<(BlockId, BlockId)> =
        ways.direct.iter().copied().chain(by_address).filter(is_unchecked).map(|way| (way.from, way.to)).collect();
    unchecked.sort_unstable();
    let mut n_into = vec![0u32; cfg.blocks.len()];
    unchecked.iter().for_each(|(_, to)| n_into[to.index()] += 1);
    let mut ready: Vec<BlockId> = cfg.graph.blocks().filter(|block| n_into[block.index()] == 0).collect();
    let mut n_ordered = 0;
    while let Some(block) = ready.pop() {
        n_ordered += 1;
        let first = unchecked.partition_point(|&(from, _)| from < block);
        for &(_, to) in unchecked[first..].iter().take_while(|&&(from, _)| from == block) {
            n_into[to.index()] -= 1;
            if n_into[to.index()] == 0 {
                ready.push(to);
            }
        }
    }
    if n_ordered == cfg.blocks.len() { Ok(()) } else { Err(Fault::Cycle) }
}
