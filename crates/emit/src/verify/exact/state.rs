//! Abstract values of copies that are never left, and what a walk through them has done.

use crate::chunk::Original;

/// What a register or field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Known {
    /// The address of this place in the copy.
    Place(u32),
    Zero,
    One,
    /// The low half of the address of the return address on the stack: where a call has pushed it, or a return has taken it from.
    SlotAddress,
    /// The bits of it that choose the entry of the return table.
    Slot,
    /// The key of a call that has pushed this return address.
    Key(Original),
    /// The key of a return.
    TargetKey,
    /// What an entry of the return table with the right key holds.
    NotedTwin,
    NotedFrame,
    /// Where jumps through tables arrive at the target's twin.
    TableTwin,
    /// The count of this cell, and one more.
    Count(u32),
    NextCount(u32),
    /// The path register, plus or less something.
    Frame(Frame),
    /// The same, sign-extended.
    SignedFrame(Frame),
    /// The key of a function in the path table, the same in the upper half, and with a path in the lower one.
    FunctionKey(u32),
    HighKey(u32),
    PathKey(u32, Frame),
    /// From the hash of that to the offset of an entry of the path table.
    Factor,
    Hash,
    HashBits,
    PathSlot,
    NextPathSlot,
    /// The key of the entry there.
    EntryKey,
    /// The row of a jump through a table, and what its entry with this index holds.
    Row,
    RowAmount(u32),
    RowEnd(u32),
}

/// What flags tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Outcome {
    /// Zero: the entry of the return table is that of the call.
    SameReturn,
    /// Zero: the cell remembers the target.
    Remembered(u32),
    /// Zero: the cell was free and is taken.
    Taken(u32),
    /// Zero: the entry of the path table is that of the path.
    SamePath,
    /// Zero: the entry is free.
    FreeEntry,
    /// Above or equal: no entry may be taken.
    Room,
    /// Zero: the entry was free and is taken.
    TakenEntry,
    /// Not zero: the row says that the path ends.
    RowEnd,
}

/// The path register, in terms of what it was at the start of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Frame {
    /// That, plus something.
    Kept(i32),
    /// That, plus what the row of the jump has at this index.
    PlusRow(u32),
    Is(i32),
    /// What a call has noted.
    Noted,
}

impl Frame {
    pub fn plus(self, amount: i32) -> Option<Frame> {
        match self {
            Frame::Kept(before) => Some(Frame::Kept(before.wrapping_add(amount))),
            Frame::Is(before) => Some(Frame::Is(before.wrapping_add(amount))),
            Frame::PlusRow(_) | Frame::Noted => Some(self).filter(|_| amount == 0),
        }
    }
}

/// A path that has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum End {
    /// In the cell with this number plus the register.
    Cell(i64, Frame),
    /// In the path table, or as one that had no place there: key of the function, and number of the path.
    Table(u32, Frame),
}

/// What has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Done {
    /// Cells that went up, ascending; each may be there twice.
    pub cells: [Option<u32>; 2],
    pub frame: Frame,
    pub end: Option<End>,
}

impl Done {
    pub const NOTHING: Done = Done { cells: [None; 2], frame: Frame::Kept(0), end: None };

    /// A cell goes up; `None` if more do than any way has.
    pub fn count(mut self, cell: u32) -> Option<Done> {
        let free = self.cells.iter().position(Option::is_none)?;
        self.cells[free] = Some(cell);
        if self.cells[1].is_some() {
            self.cells.sort_unstable();
        }
        Some(self)
    }

    /// This and then the cells of another.
    pub fn and_cells_of(self, other: Done) -> Option<Done> {
        other.cells.into_iter().flatten().try_fold(self, Done::count)
    }
}

/// What a call has noted in the return table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in super::super) struct Note {
    pub key: Option<Original>,
    pub twin: Option<u32>,
    pub has_frame: bool,
}

/// An entry of the path table on the way to be counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in super::super) enum PathEntry {
    #[default]
    Unknown,
    /// There is room to take one.
    Room,
    /// There is no room.
    Full,
    /// Taken, but not yet counted as used.
    New,
    /// That of the path.
    Found,
}

/// A cell that is being made to remember a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Claim {
    pub cell: u32,
    pub has_twin: bool,
}

/// What a walk has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Progress {
    pub done: Done,
    pub note: Note,
    /// The return address that has been pushed.
    pub pushed: Option<Original>,
    /// Bytes that a return has taken off the stack.
    pub dropped: Option<u64>,
    /// The key of the return is that of the entry.
    pub is_noted: bool,
    /// The cell remembers the target.
    pub remembered: Option<u32>,
    pub claim: Option<Claim>,
    pub entry: PathEntry,
    /// The stub that counts paths has come back.
    pub is_back: bool,
    /// What the row says about the end of the path, if it was asked.
    pub row_ends: Option<bool>,
    /// How often the target has been found in a cluster.
    pub n_looks: u32,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            done: Done::NOTHING,
            note: Note::default(),
            pushed: None,
            dropped: None,
            is_noted: false,
            remembered: None,
            claim: None,
            entry: PathEntry::Unknown,
            is_back: false,
            row_ends: None,
            n_looks: 0,
        }
    }
}
