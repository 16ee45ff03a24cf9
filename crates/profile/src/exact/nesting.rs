//! The loops around a block.

use crate::code::{ModuleCode, NO_LOOP};

/// The loops around a block, innermost first, and their headers.
pub(super) fn around(code: &ModuleCode, block: u32) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
    let innermost = code.blocks.get(block as usize).map_or(NO_LOOP, |block| block.innermost_loop);
    let with_header = |index: u32| Some((index, code.loops.get(index as usize)?.header));
    std::iter::successors(with_header(innermost), move |&(index, _)| {
        // Enclosing loops come first; `ModuleCode::check` has seen to it.
        with_header(code.loops.get(index as usize)?.parent)
    })
}

/// Whether an edge leads to the header of a loop from outside.
pub(super) fn enters(code: &ModuleCode, from: u32, to: u32) -> bool {
    around(code, to).any(|(index, header)| header == to && !around(code, from).any(|(other, _)| other == index))
}
