//! What can be wrong with a composition, and the two numbers that are checked.

use alloc::string::String;
use core::fmt;
use core::num::NonZeroU32;

/// Largest rate: one message for 2^31 occurrences.
pub const MAX_RATE: u32 = 1 << 31;

/// Most entries of a table, and of all tables of an expression together.
pub const MAX_ENTRIES: u32 = 1 << 26;

/// Why a composition is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A rate of 0 would never send.
    ZeroRate,
    /// A rate above [`MAX_RATE`].
    RateTooLarge(u64),
    /// A table without entries.
    NoEntries,
    /// More than [`MAX_ENTRIES`], counted over all tables of an expression.
    TooManyEntries(u64),
    /// The paper's hash folds to whole bits, so that the number of strata or sets must be a power
    /// of two.
    NotAPowerOfTwo(u32),
    /// Tags have 1 to 8 bits.
    TagBits(u64),
    /// Tag tables have 1 to 8 ways.
    Ways(u64),
    /// The number of entries is not a multiple of the ways.
    UnevenWays {
        /// Entries of the table.
        entries: u32,
        /// Entries of each set.
        ways: u32,
    },
    /// The hits at which an entry may be evicted must be 1 to the rate, because at the rate it is
    /// sent anyway.
    EvictThreshold(u64),
    /// The misses at which an entry is replaced must be 1 to 65535.
    ReplaceThreshold(u64),
    /// Count-Min has 1 to 16 rows.
    Rows(u64),
    /// More than 8 splitters inside each other.
    TooDeep,
    /// A number that does not fit in 64 bits.
    NumberTooLarge,
    /// An expression without a component.
    Empty,
    /// Memory is not accessed in pieces of this size.
    AccessBytes(u64),
    /// A range of addresses that ends before it starts.
    EmptyRange,
    /// Something else is expected here.
    Expected(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::ZeroRate => write!(f, "a rate of 0 would never send; the least is 1"),
            Error::RateTooLarge(rate) => write!(f, "a rate of {rate} is too large; the largest is {MAX_RATE}"),
            Error::NoEntries => write!(f, "a table needs at least 1 entry"),
            Error::TooManyEntries(n) => write!(f, "{n} entries in all are too many; the most is {MAX_ENTRIES}"),
            Error::NotAPowerOfTwo(n) => {
                write!(f, "the paper's hash needs a power of two, not {n}; the fast hash takes any number")
            }
            Error::TagBits(n) => write!(f, "a tag has 1 to 8 bits, not {n}"),
            Error::Ways(n) => write!(f, "a set has 1 to 8 ways, not {n}"),
            Error::UnevenWays { entries, ways } => write!(f, "{entries} entries do not divide into sets of {ways}"),
            Error::EvictThreshold(n) => write!(f, "evict={n} is not between 1 and the rate"),
            Error::ReplaceThreshold(n) => write!(f, "replace={n} is not between 1 and 65535"),
            Error::Rows(n) => write!(f, "Count-Min has 1 to 16 rows, not {n}"),
            Error::TooDeep => write!(f, "more than 8 components inside each other"),
            Error::NumberTooLarge => write!(f, "the number is too large"),
            Error::Empty => write!(f, "there is no component; an example is `H[P256]2048 A16`"),
            Error::AccessBytes(n) => {
                write!(f, "no instruction accesses {n} bytes at once; give 1, 2, 4, 8, 16, 32 or 64")
            }
            Error::EmptyRange => write!(f, "nothing is before the end of this range; ranges are START..END"),
            Error::Expected(what) => write!(f, "expected {what}"),
        }
    }
}

impl core::error::Error for Error {}

/// A text that is no expression, and where it stops being one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(crate) text: String,
    pub(crate) column: usize,
    pub(crate) error: Error,
}

impl ParseError {
    /// What is wrong.
    #[must_use]
    pub fn error(&self) -> Error {
        self.error
    }

    /// The character that is wrong, counted from 0.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}\n  {:>width$}", self.error, self.text, '^', width = self.column + 1)
    }
}

impl core::error::Error for ParseError {}

/// One message stands for this many occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU32);

impl Rate {
    /// A rate of 1 to [`MAX_RATE`].
    pub fn new(rate: u64) -> Result<Rate, Error> {
        let small = u32::try_from(rate).ok().filter(|&rate| rate <= MAX_RATE).ok_or(Error::RateTooLarge(rate))?;
        NonZeroU32::new(small).map(Rate).ok_or(Error::ZeroRate)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// The number of entries of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableSize(NonZeroU32);

impl TableSize {
    /// A size of 1 to [`MAX_ENTRIES`].
    pub fn new(entries: u64) -> Result<TableSize, Error> {
        let fits = u32::try_from(entries).ok().filter(|&n| n <= MAX_ENTRIES);
        NonZeroU32::new(fits.ok_or(Error::TooManyEntries(entries))?).map(TableSize).ok_or(Error::NoEntries)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// The number, to count with.
    #[must_use]
    pub fn entries(self) -> usize {
        self.get() as usize
    }
}
