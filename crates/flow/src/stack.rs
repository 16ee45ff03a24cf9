//! Stack height by unwind information: is the frame torn down at this point?
//!
//! A jump to another function is a tail call only if the stack pointer is where it was on entry,
//! because only then does the callee return to our caller. Unwind rows state it exactly: the
//! canonical frame address (CFA) is the stack pointer plus 8.

use image::{Cfa, Frame, Image, Svma, UnwindRow};

const DWARF_RSP: u16 = 7;

/// Whether an unwind entry begins like a function, with nothing but the return address on the
/// stack.
pub(crate) fn is_at_entry_height_at_start(image: &Image<'_>, frame: usize) -> bool {
    let start = image.frames().get(frame).map(|frame| frame.range.start);
    start.and_then(|start| StackHeights::new(image, [frame]).at_entry(start)) != Some(false)
}

/// Unwind rows of one or more pieces of a function.
#[derive(Debug, Default)]
pub(crate) struct StackHeights {
    rows: Vec<UnwindRow>,
}

impl StackHeights {
    /// Reads the rows of the unwind entries with these indices. Rows that cannot be read are
    /// missing.
    pub fn new(image: &Image<'_>, frames: impl IntoIterator<Item = usize>) -> StackHeights {
        StackHeights::of_frames(image, frames.into_iter().filter_map(|index| image.frames().get(index)))
    }

    /// Reads the rows of the unwind entries that contain these addresses.
    pub fn around(image: &Image<'_>, addresses: impl IntoIterator<Item = Svma>) -> StackHeights {
        StackHeights::of_frames(image, addresses.into_iter().filter_map(|at| image.frame_at(at)))
    }

    fn of_frames<'a>(image: &Image<'_>, frames: impl Iterator<Item = &'a Frame>) -> StackHeights {
        let mut rows: Vec<UnwindRow> = frames.flat_map(|frame| image.unwind_rows(frame).unwrap_or_default()).collect();
        rows.sort_by_key(|row| row.range.start);
        StackHeights { rows }
    }

    /// Whether the stack pointer is as on entry just before the instruction at `at`, if rows tell.
    pub fn at_entry(&self, at: Svma) -> Option<bool> {
        let index = self.rows.partition_point(|row| row.range.start <= at).checked_sub(1)?;
        let row = self.rows.get(index).filter(|row| row.range.contains(at))?;
        Some(matches!(row.cfa, Cfa::Register { register: DWARF_RSP, offset: 8 }))
    }
}
