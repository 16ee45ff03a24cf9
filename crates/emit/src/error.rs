//! What can go wrong with a copy.

use std::fmt;

/// Why a copy cannot be placed or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The copy is too far from the module: a displacement does not fit in 32 bits.
    OutOfReach,
    /// A block lies outside the range that block records can express.
    OutsideCluster,
    /// The bytes end too early.
    Truncated,
    /// The bytes are not a copy, or one of another version of the format.
    NotACopy,
    /// The bytes were changed after they were written.
    Checksum,
    /// The bytes contradict themselves.
    Inconsistent,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::OutOfReach => "the copy is more than 2 GiB away from the module",
            Error::OutsideCluster => "a block lies outside the cluster",
            Error::Truncated => "the stored copy ends too early",
            Error::NotACopy => "not a stored copy, or one of another version",
            Error::Checksum => "the stored copy has a wrong checksum",
            Error::Inconsistent => "the stored copy contradicts itself",
        })
    }
}

impl std::error::Error for Error {}
