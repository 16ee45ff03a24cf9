//! The path trace: every path that ends, in the order in which paths end.
//!
//! A path that ends appends one word to the buffer of events ([`crate::events`]), which has room
//! for two of them in the place of an event: the key of its function in the upper half, as in the
//! path table, and its number in the lower one. A full buffer goes to the gate, as there, and from
//! there as it is into a ring of words. What events have of counters, words have, too.
//!
//! **Ring.** It lies where the path table would be, which nobody needs then: copies count nothing
//! that the agent cannot count when it reads.
//!
//! **Block log.** With the counted trigger the instrumented version appends a word for each block
//! that it reaches, in the same way: a block record ([`crate::sample`]) in the upper half, and 0
//! in the lower one. [`Mark::BurstEnd`] stands behind the last block of a burst, which the
//! burst has reached but not executed.
//!
//! **Marks.** No function has the key 0. Words with that key are the runtime's own ([`Mark`]): what
//! of the order of words their numbers do not tell.

/// Words of the buffer that a record takes.
pub const RECORD_WORDS: u64 = 1;

/// Offset of the ring in the thread area.
pub const RING: u32 = crate::exact::PATHS;
/// Words in the ring, a power of two: some milliseconds of a program that ends many paths.
pub const N_WORDS: u32 = 1 << 20;

/// What the runtime notes between paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// From here on, words are those of the thread with this id.
    Thread(u32),
    /// A signal handler starts: what follows runs between two instructions of the path that was
    /// under way.
    Handler,
    /// It has returned to where the signal came.
    HandlerEnd,
    /// A burst of the counted trigger has ended; noted by copies.
    BurstEnd,
}

const KIND_SHIFT: u32 = 28;
const PAYLOAD: u32 = (1 << KIND_SHIFT) - 1;

impl Mark {
    /// Returns the word that stands for the mark.
    #[must_use]
    pub const fn word(self) -> u64 {
        let (kind, payload) = match self {
            Mark::Thread(id) => (1, id & PAYLOAD),
            Mark::Handler => (2, 0),
            Mark::HandlerEnd => (3, 0),
            Mark::BurstEnd => (4, 0),
        };
        (kind << KIND_SHIFT | payload) as u64
    }

    /// Returns the mark that a word stands for; `None` if it is a path, or nothing.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Mark> {
        if word >> 32 != 0 {
            return None;
        }
        match word as u32 >> KIND_SHIFT {
            1 => Some(Mark::Thread(word as u32 & PAYLOAD)),
            2 => Some(Mark::Handler),
            3 => Some(Mark::HandlerEnd),
            4 => Some(Mark::BurstEnd),
            _ => None,
        }
    }
}

const _: () = assert!(N_WORDS.is_power_of_two());
const _: () = assert!(RING + N_WORDS * 8 <= crate::exact::CONTEXTS);
const _: () = assert!(matches!(Mark::from_word(Mark::Thread(77).word()), Some(Mark::Thread(77))));
const _: () = assert!(Mark::from_word(1 << 32).is_none() && Mark::from_word(0).is_none());
