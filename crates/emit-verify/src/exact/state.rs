//! Abstract values of copies that are never left, and what a walk through them has done.

use emit::Original;
use wire::sample::EndReason;

/// What a register or field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The address of this place in the copy.
    Place(u32),
    Zero,
    One,
    /// The low half of the stack pointer, and the bits of it that choose the entry of the frames.
    StackAddress,
    FrameSlot,
    /// What an entry of the frames with the right key holds.
    LeftFrame,
    /// From a return address to which entry of the return table is its; the entry, and what it says
    /// about the distance.
    ReturnAddress,
    HighReturn,
    ReturnBits,
    ReturnIndex,
    ReturnEntry,
    ReturnDistance,
    /// From the target of a return to where it leads: the offset of the byte before in the cluster,
    /// the entry of the map, its upper bits, the entry known to be a landing, and what it says.
    LastByteOffset(usize),
    LandingEntry(usize),
    EntryCopy(usize),
    EntryKind(usize),
    FoundLanding(usize),
    LandingOffset(usize),
    Landing,
    /// From that to a new entry of the return table.
    LandingDistance,
    HighDistance,
    ReturnTag,
    NewReturnEntry,
    /// Where jumps through tables arrive at the target's twin.
    TableTwin,
    /// The count of this cell, and one more.
    Count(u32),
    NextCount(u32),
    /// The path register, plus or less something.
    Frame(Frame),
    /// The same, sign-extended.
    SignedFrame(Frame),
    /// The key of a function in the upper half, and with a path in the lower one.
    HighKey(u32),
    PathKey(u32, Frame),
    /// The same with the thread's context in place of the function.
    HighContext,
    ContextPathKey(Frame),
    /// The key of an indirect call in the upper half, and the target's lower half in the other.
    CalleeKey(u32),
    /// From the hash of that to the offset of an entry of the path table.
    Factor,
    PathHash,
    FrontPathSlot,
    PathSlot,
    NextPathSlot,
    /// The key of the entry there.
    EntryKey,
    /// The thread's context, and the same as part of the key of a function's entry.
    Context(Context),
    ContextKey(u32, Context),
    /// From the hash of that to the place of an entry.
    ContextHash,
    FrontContextPlace,
    ContextPlace,
    NextContextPlace,
    /// What the entry of the function says, what that of the present context says, and what an
    /// entry of the frames does.
    EnteredContext(u32),
    ParentContext,
    LeftContext,
    /// The upper half of the time stamp counter, all of it, what it was when cycles were charged
    /// last, and the difference.
    HighTime,
    Now,
    Charged,
    Elapsed,
    /// Cycles on the present path, and when it would have started that has taken what an entry of
    /// the frames says.
    PathTime,
    PathStart,
    /// What an entry of the frames has of the metric, and the same below 0.
    LeftMetric,
    LessLeftMetric,
    /// How many path ends are passed over between two samples.
    EndsBetween,
    /// The last tick that sampled the path, and how its sum of squares grows; the same if it is not
    /// the present one; what the sum grows by; and then for the next sample.
    LastSample,
    OldSample,
    Growth,
    NextGrowth,
    /// The row of a jump through a table, and what its entry with this index holds.
    Row,
    RowAmount(u32),
    RowEnd(u32),
    /// The checks that the other version runs for, and whether one is added for a check that is
    /// made again.
    NextChecks {
        again: bool,
    },
}

/// What flags tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Zero: the entry of the return table is that of the return address.
    SameReturn,
    /// Zero: the entry of the frames is that of the stack pointer.
    SameFrame,
    /// Zero: and of the call that has returned.
    OwnFrame,
    /// Below: the last byte of the call is in the cluster.
    LastByteSpan(usize),
    /// Zero: the entry of the map is that of a landing.
    HasLanding(usize),
    /// Zero: the cell remembers the target.
    Remembered(u32),
    /// Not zero: the cell remembers another target.
    InUse,
    /// Zero: the cell was free and is taken.
    Taken(u32),
    /// Zero: the entry of the path table is that of the path.
    SamePath(End),
    /// Zero: the entry is free.
    FreeEntry,
    /// Above or equal: no entry may be taken.
    Room,
    /// Zero: the entry was free and is taken.
    TakenEntry,
    /// Not zero: the row says that the path ends.
    RowEnd,
    /// Zero: the entry of the table of contexts is that of the function with this key.
    SameContext(u32),
    /// Zero: there is no entry of the key.
    NoContext,
    /// Zero: the metric's counter is as it was when the path started.
    SameMetric,
    /// Not zero: a sample is wanted.
    Wanted,
    /// Above or equal: not of this path yet.
    Skipped,
    /// Above or equal: of this one.
    Sampled,
    /// Above or equal: the present tick has sampled the path before.
    SameTick,
    /// Carry: the upper half of the sum of squares is to go up.
    SquaresCarry,
    /// Zero: this was the last check of the version.
    LastCheck,
}

/// The path register, in terms of what it was at the start of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// That, plus something.
    Kept(i32),
    /// That, plus what the row of the jump has at this index.
    PlusRow(u32),
    Is(i32),
    /// Another function's, after a call.
    Foreign,
}

impl Frame {
    pub fn plus(self, amount: i32) -> Option<Frame> {
        match self {
            Frame::Kept(before) => Some(Frame::Kept(before.wrapping_add(amount))),
            Frame::Is(before) => Some(Frame::Is(before.wrapping_add(amount))),
            Frame::PlusRow(_) | Frame::Foreign => Some(self).filter(|_| amount == 0),
        }
    }
}

/// The thread's context, in terms of what it was at the start of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Kept,
    /// That of the function with this key, called from there.
    Child(u32),
    /// The one around it.
    Parent,
    /// What frames say, or the root.
    Retaken,
    /// Another function's, after a call.
    Foreign,
}

/// Since when the present path runs, in terms of what it was at the start of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Kept,
    /// A path has started.
    Started,
    /// Another function's, after a call.
    Foreign,
}

/// The search for an entry of the table of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum ContextSearch {
    #[default]
    Looking,
    /// Of the function with this key.
    Found(u32),
    /// There is none.
    Missing,
    /// Found, and the call is counted.
    Counted(u32),
}

/// A path that has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In the cell with this number plus the register.
    Cell(i64, Frame),
    /// In the path table, or as one that had no place there, or in the trace: key of the function,
    /// and number of the path.
    Table(u32, Frame),
    /// The same by the thread's context.
    OfContext(Frame),
    /// No path, but the target of the indirect call with this key.
    Callee(u32),
    /// Not counted, because no sample is wanted of it.
    Passed,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Cells that went up, ascending; each may be there twice.
    pub cells: [Option<u32>; 2],
    pub frame: Frame,
    pub end: Option<End>,
    /// The key of the indirect call that has counted its target.
    pub callee: Option<u32>,
    pub context: Context,
    /// Cycles were charged to the context before it changed.
    pub is_charged: bool,
    pub clock: Clock,
    /// The cycles of the path that was counted were added to its own.
    pub is_timed: bool,
    /// The path was counted because a sample was wanted of it.
    pub is_sampled: bool,
    /// The block whose record is in the log.
    pub recorded: Option<u32>,
    /// The checks of the version went down by one.
    pub is_checked: bool,
}

impl Done {
    pub const NOTHING: Done = Done {
        cells: [None; 2],
        frame: Frame::Kept(0),
        end: None,
        callee: None,
        context: Context::Kept,
        is_charged: false,
        clock: Clock::Kept,
        is_timed: false,
        is_sampled: false,
        recorded: None,
        is_checked: false,
    };

    /// Whether this is what is expected, or the same with a path passed over of which samples are
    /// taken.
    pub fn fulfils(self, expected: Done) -> bool {
        let is_passed = self.end == Some(End::Passed) && !self.is_sampled;
        let may_pass = expected.is_sampled && expected.end.is_some();
        let as_if_counted = Done { end: expected.end, is_sampled: true, ..self };
        self == expected || is_passed && may_pass && as_if_counted == expected
    }

    /// A cell goes up; `None` if more do than any way has.
    pub fn count(mut self, cell: u32) -> Option<Done> {
        let free = self.cells.iter().position(Option::is_none)?;
        self.cells[free] = Some(cell);
        if self.cells[1].is_some() {
            self.cells.sort_unstable();
        }
        Some(self)
    }
}

/// What a call has left in the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Left {
    pub has_path: bool,
    pub has_context: bool,
    pub has_metric: bool,
    /// The site of the call.
    pub site: Option<u32>,
    pub has_key: bool,
}

/// An entry of the path table on the way to be counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum PathEntry {
    #[default]
    Unknown,
    /// There is room to take one.
    Room,
    /// There is no room.
    Full,
    /// Taken, but not yet counted as used.
    New,
    /// That of the path.
    Found(End),
}

/// How far a path end is to being sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Sampling {
    #[default]
    Unknown,
    /// A sample is wanted,
    Wanted,
    /// of this path end,
    Due,
    /// the next ones are to be passed over,
    Rewound,
    /// but there was none left.
    Overdrawn,
    /// This path end is taken,
    Taken,
    /// its sum of squares has grown, but for the carry,
    Growing,
    /// has grown,
    Grown,
    /// and is ready for the next sample.
    Ready,
}

/// How far a thread is to going on in the other version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Switch {
    #[default]
    No,
    /// The checks went down by one, and it has not been looked whether any are left.
    Unlooked,
    /// None are left.
    Due,
    /// The other version has its checks. The thread goes on at this block, whose check counts again
    /// if they are one more.
    Counted { to: Original, again: bool },
    /// The thread is in the other version,
    Turned { to: Original, again: bool },
    /// and the mark for the end of a burst is in the log.
    Marked { to: Original, again: bool },
}

/// A cell that is being made to remember a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub cell: u32,
    pub has_twin: bool,
}

/// A record on its way into the buffer of a trace or log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Its place is known.
    pub has_place: bool,
    pub path: Option<Frame>,
    /// The upper half: the key of a function, or the record of a block.
    pub upper: Option<u32>,
    /// The lower half, if it is a constant.
    pub lower: Option<u32>,
    /// The next one goes behind it.
    pub is_in: bool,
}

/// What a walk has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub done: Done,
    pub left: Left,
    /// Where the call returns to in the copy that has just been made, and has left that on the
    /// stack.
    pub called: Option<u32>,
    /// Whether the stack pointer has moved.
    pub has_moved: bool,
    /// The key of the entry in hand, of the return table or of the frames, is the right one.
    pub is_same: bool,
    /// And its site that of the call that has returned.
    pub is_own: bool,
    /// At the landing of a call: its site.
    pub landing_site: Option<u32>,
    /// The counter has been noted for the next time.
    pub has_noted_time: bool,
    /// The same, as the start of the next path, with the start of the one before in `rdx`.
    pub has_noted_start: bool,
    /// The cycles of the path that ends are kept for when its entry has been found, and have been
    /// added there.
    pub has_ended_metric: bool,
    pub has_added_cycles: bool,
    /// Cells of paths of the function, if others behind them count misses.
    pub n_path_cells: Option<u32>,
    /// The key is that of another one.
    pub is_other: bool,
    pub search: ContextSearch,
    /// The return address on the stack has been replaced by that of its copy, and this many bytes
    /// will be taken off.
    pub returning: Option<u64>,
    /// The cell remembers the target.
    pub remembered: Option<u32>,
    pub claim: Option<Claim>,
    pub entry: PathEntry,
    pub sampling: Sampling,
    pub record: Record,
    pub switch: Switch,
    /// Why the copy is left once the gate has come back that has emptied the buffer.
    pub why_again: Option<EndReason>,
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
            left: Left::default(),
            called: None,
            has_moved: false,
            is_same: false,
            is_own: false,
            landing_site: None,
            has_noted_time: false,
            has_noted_start: false,
            has_ended_metric: false,
            has_added_cycles: false,
            n_path_cells: None,
            is_other: false,
            search: ContextSearch::Looking,
            returning: None,
            remembered: None,
            claim: None,
            entry: PathEntry::Unknown,
            sampling: Sampling::Unknown,
            record: Record::default(),
            switch: Switch::No,
            why_again: None,
            is_back: false,
            row_ends: None,
            n_looks: 0,
        }
    }
}
