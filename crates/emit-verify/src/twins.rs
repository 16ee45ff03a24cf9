//! From a block's instructions to their twins, by the stretches that the copy lists.

use emit::{Original, Stretch};

use super::index::Index;

/// The twins of a block's instructions, in order.
pub(super) struct Twins<'a> {
    index: &'a Index<'a>,
    stretch: usize,
    lengths: usize,
    /// Instructions of the stretch before the next one, and their bytes.
    n_before: u32,
    offset: u32,
}

impl<'a> Twins<'a> {
    pub fn new(index: &'a Index<'a>, stretch: u32, lengths: u32) -> Twins<'a> {
        Twins { index, stretch: stretch as usize, lengths: lengths as usize, n_before: 0, offset: 0 }
    }

    /// Goes to the next stretch if this one is at its end.
    fn turn(&mut self) -> Option<&'a Stretch> {
        let stretches = self.index.copy.stretches();
        if self.n_before == stretches.get(self.stretch)?.n_insns {
            self.stretch += 1;
            (self.n_before, self.offset) = (0, 0);
            return stretches.get(self.stretch).filter(|stretch| !stretch.is_leader);
        }
        stretches.get(self.stretch)
    }

    /// Where the twin of the next instruction is.
    pub fn peek(&mut self) -> Option<u32> {
        let offset = self.offset;
        let stretch = self.turn()?;
        Some(stretch.copy + if self.n_before == 0 { 0 } else { offset })
    }

    /// The twin of the next instruction, which must be this one.
    pub fn next(&mut self, original: Original, len: usize) -> Option<u32> {
        let stretch = self.turn()?;
        let len_listed = usize::from(*self.index.copy.lengths().get(self.lengths)?);
        let is_this = stretch.original.0 + self.offset == original.0 && len_listed == len;
        let twin = stretch.copy + self.offset;
        self.n_before += 1;
        self.offset += len as u32;
        self.lengths += 1;
        is_this.then_some(twin)
    }

    pub fn is_at_end(&self) -> bool {
        let stretches = self.index.copy.stretches();
        let is_used = stretches.get(self.stretch).is_some_and(|stretch| stretch.n_insns == self.n_before);
        is_used && stretches.get(self.stretch + 1).is_none_or(|next| next.is_leader)
    }
}
