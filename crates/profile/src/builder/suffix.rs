//! What a thread did next on the path that a tick found it on.
//!
//! A tick falls into the middle of a path. How the path began is not known, but the burst shows how
//! it goes on. Only the blocks of the interrupted function itself are kept; the functions that it
//! calls on the way are passed over by counting calls and returns. Where that count fails (longjmp,
//! exceptions, the end of the burst) the suffix stays open: what was seen of it is still true.

use super::BlockRef;
use super::code_map::CodeMap;
use crate::model::BlockEnd;

/// Blocks of a suffix that are kept: enough to tell paths apart.
const MAX_BLOCKS: usize = 64;

/// Blocks of a burst that are looked at.
const MAX_STEPS: usize = 4096;

/// The rest of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Suffix {
    /// The block that contains the tick's address, and those that followed it on the path.
    pub blocks: Box<[BlockRef]>,
    pub end: SuffixEnd,
}

/// How a path was seen to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SuffixEnd {
    /// It was not seen.
    Open,
    /// The function was left.
    Exit,
    /// By a back edge to this block.
    Back(BlockRef),
}

impl Suffix {
    /// Follows a burst from its first block, which a tick hit. Returns nothing for a burst without
    /// known code.
    pub fn follow(code: &CodeMap, burst: &[BlockRef]) -> Option<Suffix> {
        let mut at = code.block(*burst.first()?)?;
        let mut blocks = vec![at.number()];
        let mut end = SuffixEnd::Open;
        let mut n_calls = 0_u32;
        let mut return_address = 0;
        let mut before = at;
        for &next in burst.iter().skip(1).take(MAX_STEPS) {
            let Some(next) = code.block(next) else { break };
            let is_call = matches!(before.block.end, BlockEnd::Call | BlockEnd::IndirectCall);
            let is_return = before.block.end == BlockEnd::Return;
            before = next;
            if n_calls > 0 {
                n_calls = n_calls + u32::from(is_call) - u32::from(is_return);
                if n_calls > 0 {
                    continue;
                }
                if next.block.address != return_address || !next.is_beside(&at) {
                    break;
                }
            } else if is_call {
                n_calls = 1;
                return_address = at.block.end_address();
                continue;
            } else if is_return || !next.is_beside(&at) {
                end = SuffixEnd::Exit;
                break;
            }
            if at.is_cut_to(&next) || blocks.contains(&next.number()) {
                end = SuffixEnd::Back(next.number());
                break;
            }
            if blocks.len() == MAX_BLOCKS {
                break;
            }
            blocks.push(next.number());
            at = next;
        }
        Some(Suffix { blocks: blocks.into(), end })
    }

    /// Whether a path that has these blocks from the suffix's first one on, and ends like this,
    /// goes on as the suffix does.
    pub fn fits(&self, rest: &[BlockRef], end: SuffixEnd) -> bool {
        match self.end {
            SuffixEnd::Open => rest.starts_with(&self.blocks),
            own => own == end && rest == &*self.blocks,
        }
    }
}
