//! Code as the builder of profiles needs it: blocks by address, and what can follow them. No
//! instruction set is known here.

mod codec;

use crate::error::Error;
use crate::model::BlockEnd;

/// The control flow of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleCode {
    /// Functions by [`CodeBlock::function`].
    pub functions: Vec<CodeFunction>,
    /// Ascending and distinct in address.
    pub blocks: Vec<CodeBlock>,
    /// Loops by [`CodeBlock::innermost_loop`]; enclosing loops come first within a function.
    pub loops: Vec<CodeLoop>,
    /// Edges that end paths, as indices of blocks, ascending.
    pub cuts: Vec<(u32, u32)>,
    /// Instructions of all blocks, one block after the other, for the time that they take; none if
    /// that is not known.
    pub insns: Vec<CodeInsn>,
}

/// What an instruction waits for: numbers of places (registers, flags, words of memory),
/// [`NO_PLACE`] where there are fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeInsn {
    /// Places that must be ready.
    pub inputs: [u8; 4],
    /// Places that are ready afterwards.
    pub outputs: [u8; 3],
    /// Cycles from the inputs to the outputs.
    pub latency: u8,
}

/// The first place that is a word of memory, of which it is known when the same word is stored and
/// loaded again.
pub const FIRST_WORD: u8 = 40;

/// The part of a load's latency that is for reading memory.
pub const LOAD_CYCLES: u8 = 4;

/// Not a place.
pub const NO_PLACE: u8 = u8::MAX;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFunction {
    /// First address.
    pub address: u64,
    /// Bytes of its main part.
    pub size: u64,
    /// Whether it is a stub of the linkage table: a way to another function, and no calling context
    /// of its own.
    pub is_stub: bool,
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// Offset of the last instruction.
    pub last: u32,
    /// Instructions.
    pub n_insns: u32,
    /// Index of the function.
    pub function: u32,
    /// How it ends.
    pub end: BlockEnd,
    /// Where its branch or jump leads if that is fixed; 0 otherwise.
    pub target: u64,
    /// Index of the innermost loop around it; [`NO_LOOP`] outside loops.
    pub innermost_loop: u32,
    /// Whether control can enter the function here: its entry, or a landing pad.
    pub is_entry: bool,
}

/// Stands for no loop.
pub const NO_LOOP: u32 = u32::MAX;

/// A loop of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLoop {
    /// Index of its header block.
    pub header: u32,
    /// Index of the loop around it, or [`NO_LOOP`].
    pub parent: u32,
}

impl ModuleCode {
    /// Index of the block that starts at an address.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<u32> {
        let index = self.blocks.binary_search_by_key(&address, |block| block.address).ok()?;
        u32::try_from(index).ok()
    }

    /// Index of the block whose bytes include an address.
    #[must_use]
    pub fn block_containing(&self, address: u64) -> Option<u32> {
        let index = self.blocks.partition_point(|block| block.address <= address).checked_sub(1)?;
        let block = self.blocks.get(index)?;
        if address < block.end_address() { u32::try_from(index).ok() } else { None }
    }

    /// Whether paths end on the way from one block to another.
    #[must_use]
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        self.cuts.binary_search(&(from, to)).is_ok()
    }

    /// Whether the indices are in range and the orders are as the fields promise.
    pub fn check(&self) -> Result<(), Error> {
        let (n_functions, n_blocks, n_loops) = (self.functions.len(), self.blocks.len(), self.loops.len());
        let in_range = |index: u32, len: usize| (index as usize) < len;
        let in_loops = |index: u32, len: usize| index == NO_LOOP || in_range(index, len);
        if u32::try_from(n_blocks.max(n_loops).max(n_functions)).is_err() {
            return Err(Error::BadCode("more parts than 32-bit indices"));
        }
        if !self.blocks.windows(2).all(|pair| matches!(pair, [a, b] if a.address < b.address)) {
            return Err(Error::BadCode("blocks out of order"));
        }
        for block in &self.blocks {
            if !in_range(block.function, n_functions) || !in_loops(block.innermost_loop, n_loops) {
                return Err(Error::BadCode("a block of no function or loop"));
            }
            if block.last > block.size || block.address.checked_add(u64::from(block.size)).is_none() {
                return Err(Error::BadCode("a block beyond its end"));
            }
        }
        for (index, each) in self.loops.iter().enumerate() {
            if !in_range(each.header, n_blocks) || (each.parent != NO_LOOP && !in_range(each.parent, index)) {
                return Err(Error::BadCode("a loop without header, or before its parent"));
            }
        }
        if !self.cuts.iter().all(|&(from, to)| in_range(from, n_blocks) && in_range(to, n_blocks)) {
            return Err(Error::BadCode("a cut between no blocks"));
        }
        let n_insns: u64 = self.blocks.iter().map(|block| u64::from(block.n_insns)).sum();
        if !self.insns.is_empty() && n_insns != self.insns.len() as u64 {
            return Err(Error::BadCode("instructions of no block"));
        }
        if !self.cuts.is_sorted() {
            return Err(Error::BadCode("cuts out of order"));
        }
        Ok(())
    }
}

impl CodeBlock {
    /// The address behind the block.
    #[must_use]
    pub fn end_address(&self) -> u64 {
        self.address.saturating_add(u64::from(self.size))
    }
}
