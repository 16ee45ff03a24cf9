//! What can be wrong with the bytes and tables that this crate is given.

use std::fmt;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no stored [`crate::ModuleCode`].
    NotCode,
    /// A stored [`crate::ModuleCode`] of another version of the format.
    CodeVersion(u32),
    /// The bytes of a stored [`crate::ModuleCode`] do not have the length that their header
    /// promises.
    CodeLength {
        /// As the header has it.
        expected: u64,
        /// As it is.
        actual: u64,
    },
    /// A [`crate::ModuleCode`] that contradicts itself.
    BadCode(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotCode => write!(f, "not the control flow of a module"),
            Error::CodeVersion(version) => write!(f, "control flow stored in format {version}, which is not known"),
            Error::CodeLength { expected, actual } => {
                write!(f, "control flow of {actual} bytes that should have {expected}")
            }
            Error::BadCode(what) => write!(f, "control flow with {what}"),
        }
    }
}

impl std::error::Error for Error {}
