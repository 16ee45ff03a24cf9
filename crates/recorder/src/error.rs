//! What can go wrong with a recording.

use std::fmt::Display;
use std::io;

/// Failure to make a recording, or a part of one.
///
/// What merely cannot be recorded is no error: it runs natively, and a [`crate::Warning`] or the
/// facts of the run say why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recorded process cannot be dealt with.
    #[error(transparent)]
    Attach(#[from] attach::Error),
    /// The profile file cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Counts contradict the control flow that they belong to.
    #[error(transparent)]
    Profile(#[from] profile::Error),
    /// A file is not a program or library that strobe understands.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The head of a file cannot be read.
    #[error(transparent)]
    Elf(#[from] object::Error),
    /// The system refuses something.
    #[error("{what}: {cause}")]
    Io {
        /// The thing or the attempt.
        what: String,
        /// What the system says.
        cause: io::Error,
    },
    /// What was asked for cannot be done; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
}

/// The result of something that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a function that adds what was attempted to an error of the system.
    pub(crate) fn io(what: impl Display) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Io { what: what.to_string(), cause }
    }
}

/// Returns an error for what cannot be done.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Error {
        Error::Io { what: "the system".to_owned(), cause }
    }
}
