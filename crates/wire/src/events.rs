//! Events: values that probes note about single executions of instructions.
//!
//! An event is a *site*, a [`Kind`] and a value: the instruction, and what it loaded, or where it
//! went. A probe appends it to the buffer of its thread, which is filled from the front and
//! addressed from its end: [`crate::thread::Events::next`] goes up to 0 in steps of
//! [`EVENT_WORDS`], so that whoever makes it 0 has filled the buffer, and no limit needs to be
//! loaded. Then the thread goes to the gate, which takes the buffer through a compressor, or as it
//! is, into a ring that the agent reads.
//!
//! **Bursts.** A burst ends when the buffer is full. The next tick of the thread takes what is in
//! it, as it is, to the ring; the buffer is larger, and there is no compressor.
//!
//! **Site.** As a block record: the cluster and the instruction's address in it
//! ([`crate::sample::RECORD_ADDRESS_BITS`]). 0 is no site.
//!
//! **Ring.** One writer, the thread, and one reader, the agent. `sent` and `read` count up; their
//! difference is what lies in the ring. When a process has ended, what is left in ring and buffer
//! is still there.
//!
//! **Compressor.** Its user has [`compressor_use`] set. Normally that is the thread, for as long as
//! it empties its buffer. A thread that ends the process closes the compressors of all others, and
//! sends what they hold: from then on events go as they are.
//!
//! **Signals.** A handler that interrupts a probe finds an empty buffer, and leaves one; then the
//! probe goes on with the place that it had, and what it had written there. What has been taken
//! from the buffer is cleared, so that nothing is taken twice, and so is the place of the
//! interrupted probe: every place ahead is empty, and a probe need not write what is 0. Of a
//! handler that does not return, only the event of the interrupted probe is lost.

/// An event in the buffer, or a message in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What was loaded, or another value that the kind tells.
    pub value: u64,
    /// The instruction; 0: no event.
    pub site: u32,
    /// The kind, in the upper [`KIND_BITS`], and how many events a message stands for; 0 in the
    /// buffer.
    pub tag: u32,
}

impl Event {
    /// Returns a message that stands for so many events like this one, at most [`MAX_WEIGHT`].
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Event {
        Event { tag: self.tag & !MAX_WEIGHT | weight & MAX_WEIGHT, ..self }
    }

    /// Returns site and kind as one number, which is not 0.
    #[must_use]
    pub fn place(self) -> u64 {
        u64::from(self.tag & !MAX_WEIGHT) << 32 | u64::from(self.site)
    }

    /// Returns how many events a message stands for.
    #[must_use]
    pub fn weight(self) -> u32 {
        self.tag & MAX_WEIGHT
    }

    /// Returns the kind of the value; `None` if nobody knows.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_number(self.tag >> WEIGHT_BITS)
    }
}

/// Slots of the table of places whose values are known well enough, so that their events are thrown
/// away. The agent only adds to it.
///
/// A place is a site and a kind. It lies at its own index or soon behind it, less than
/// [`KNOWN_PLACES_REACH`] further; a 0 before that says that it is not there.
pub const N_KNOWN_PLACES: usize = 1 << 14;
/// Slots in which a place can lie.
pub const KNOWN_PLACES_REACH: usize = 8;

/// Returns the slots in which a place can lie, in the order of the search.
pub fn known_place_slots(place: u64) -> impl Iterator<Item = usize> {
    let first = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - N_KNOWN_PLACES.trailing_zeros());
    (0..KNOWN_PLACES_REACH).map(move |further| (first as usize + further) % N_KNOWN_PLACES)
}

/// The kind of a noted value: what the value of an event is. This is the list of all that can be
/// noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What the instruction has loaded.
    Load,
    /// The address of its memory operand.
    Address,
    /// Where an indirect call goes.
    CallTarget,
    /// Where an indirect jump goes.
    JumpTarget,
    /// The table that a call takes its target from.
    MethodTable,
    /// Where a conditional jump goes on: its target, or what is behind it.
    BranchTarget,
    /// The function starts here; what it has got in this register for arguments, of
    /// [`N_ARGUMENTS`].
    Argument(u8),
}

/// Registers for arguments.
pub const N_ARGUMENTS: u8 = 6;
const FIRST_ARGUMENT: u32 = 8;

impl Kind {
    /// Returns the kind's number in an event.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Kind::Load => 0,
            Kind::Address => 1,
            Kind::CallTarget => 2,
            Kind::JumpTarget => 3,
            Kind::MethodTable => 4,
            Kind::BranchTarget => 5,
            Kind::Argument(index) => FIRST_ARGUMENT + index as u32,
        }
    }

    /// Returns the kind with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Kind> {
        const LAST_ARGUMENT: u32 = FIRST_ARGUMENT + N_ARGUMENTS as u32 - 1;
        Some(match number {
            0 => Kind::Load,
            1 => Kind::Address,
            2 => Kind::CallTarget,
            3 => Kind::JumpTarget,
            4 => Kind::MethodTable,
            5 => Kind::BranchTarget,
            FIRST_ARGUMENT..=LAST_ARGUMENT => Kind::Argument((number - FIRST_ARGUMENT) as u8),
            _ => return None,
        })
    }

    /// Returns the tag of an event in the buffer.
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.number() << WEIGHT_BITS
    }
}

/// A set of kinds of noted values; arguments are in it all or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub const NONE: Kinds = Kinds(0);
    /// Values that instructions load.
    pub const LOADS: Kinds = Kinds::of(Kind::Load);
    /// Arguments that functions get.
    pub const ARGUMENTS: Kinds = Kinds::of(Kind::Argument(0));
    /// Addresses of memory operands.
    pub const ADDRESSES: Kinds = Kinds::of(Kind::Address);
    /// Where indirect calls go.
    pub const CALL_TARGETS: Kinds = Kinds::of(Kind::CallTarget);
    /// Where indirect jumps go.
    pub const JUMP_TARGETS: Kinds = Kinds::of(Kind::JumpTarget);
    /// Tables that calls take their targets from.
    pub const METHOD_TABLES: Kinds = Kinds::of(Kind::MethodTable);
    /// Where conditional jumps go on.
    pub const BRANCH_TARGETS: Kinds = Kinds::of(Kind::BranchTarget);
    /// All kinds.
    pub const ALL: Kinds = Kinds((1 << 7) - 1);

    /// Returns the set of this one kind; of an argument, the set of all arguments.
    #[must_use]
    pub const fn of(kind: Kind) -> Kinds {
        Kinds(match kind {
            Kind::Load => 1,
            Kind::Argument(_) => 1 << 1,
            Kind::Address => 1 << 2,
            Kind::CallTarget => 1 << 3,
            Kind::JumpTarget => 1 << 4,
            Kind::MethodTable => 1 << 5,
            Kind::BranchTarget => 1 << 6,
        })
    }

    /// Returns whether all of these kinds are in the set.
    #[must_use]
    pub const fn has(self, others: Kinds) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set as a number.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Returns the set that this number stands for, if it stands for one.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Kinds> {
        if bits <= Kinds::ALL.0 as u32 { Some(Kinds(bits as u8)) } else { None }
    }
}

impl core::ops::BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, others: Kinds) -> Kinds {
        Kinds(self.0 | others.0)
    }
}

/// Bits of a tag that are the kind.
pub const KIND_BITS: u32 = 4;
const WEIGHT_BITS: u32 = u32::BITS - KIND_BITS;
/// The most events that one message stands for.
pub const MAX_WEIGHT: u32 = (1 << WEIGHT_BITS) - 1;

/// What copies fill the buffer with: [`crate::control::Events::filling`].
pub mod filling {
    /// Nothing.
    pub const NOTHING: u32 = 0;
    /// Events.
    pub const EVENTS: u32 = 1;
    /// Words of the path trace or of the block log ([`crate::path_trace`]).
    pub const WORDS: u32 = 2;
}

/// Who uses the compressor, the buffer and the end of the ring of a thread:
/// [`crate::thread::Events::compressor_use`].
pub mod compressor_use {
    /// Nobody.
    pub const FREE: u64 = 0;
    /// The thread.
    pub const OWNER: u64 = 1;
    /// The thread that ends the process.
    pub const CLOSING: u64 = 2;
    /// Nobody uses the compressor any more.
    pub const CLOSED: u64 = 3;
}

/// Words of an event.
pub const EVENT_WORDS: u64 = (size_of::<Event>() / 8) as u64;
/// Offset of the site in an event.
pub const SITE: u32 = core::mem::offset_of!(Event, site) as u32;
/// Offset of the tag in an event.
pub const TAG: u32 = core::mem::offset_of!(Event, tag) as u32;

/// Offset of the buffer in the thread area.
pub const EVENTS: u32 = 5 << 20;
/// Events in a buffer: small enough to stay in the cache until they are compressed.
pub const N_EVENTS: u32 = 4096;
/// Offset of the end of the buffer in the thread area.
pub const EVENTS_END: u32 = EVENTS + N_EVENTS * size_of::<Event>() as u32;
/// [`crate::thread::Events::next`] of an empty buffer.
pub const EMPTY: u64 = (N_EVENTS as u64 * EVENT_WORDS).wrapping_neg();

/// Events in the buffer of a burst, which is not emptied before the burst has ended. It ends where
/// the other does, and starts where the stream of samples ends.
pub const N_BURST_EVENTS: u32 = 1 << 16;
/// [`crate::thread::Events::next`] of an empty buffer of a burst.
pub const BURST_EMPTY: u64 = (N_BURST_EVENTS as u64 * EVENT_WORDS).wrapping_neg();

/// Offset of the ring in the thread area.
pub const RING: u32 = 6 << 20;
/// Messages in a ring, a power of two.
pub const N_MESSAGES: u32 = 1 << 16;

/// Offset of the compressor's memory in the thread area.
pub const COMPRESSOR: u32 = 9 << 20;
/// Bytes of the compressor's memory.
pub const COMPRESSOR_BYTES: u32 = 7 << 20;

/// Longest expression of a compressor, in bytes.
pub const MAX_EXPRESSION: usize = 128;

const _: () = assert!(EVENTS_END <= RING);
const _: () = assert!(
    (EVENTS_END - N_BURST_EVENTS * size_of::<Event>() as u32) as u64
        >= crate::thread::FIRST_SEGMENT + crate::thread::N_SEGMENTS as u64 * crate::thread::SEGMENT_BYTES
);
const _: () = assert!((RING + N_MESSAGES * size_of::<Event>() as u32) as u64 <= crate::thread::AREA_BYTES);
const _: () = assert!(RING + N_MESSAGES * size_of::<Event>() as u32 <= crate::exact::CACHE);
const _: () = assert!(COMPRESSOR >= crate::exact::CACHE + crate::exact::CACHE_BYTES);
const _: () = assert!(COMPRESSOR + COMPRESSOR_BYTES <= crate::exact::FRAMES);
