//! What the symbolizer is busy with, for callers whose users wait.

use std::fmt;

/// A listener to what takes long.
pub trait Progress: fmt::Debug + Send + Sync {
    /// Hears what is done now. [`Step::Done`] is the last step of each look-up.
    fn step(&self, step: Step<'_>);
}

/// Something that can take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'a> {
    /// Files on this machine are read.
    Reading,
    /// A debug file is downloaded.
    Downloading {
        /// URL of the server.
        server: &'a str,
        /// The build that the file belongs to, in hexadecimal.
        build_id: &'a str,
        /// Bytes that have arrived.
        received: u64,
        /// Bytes that the server has promised.
        length: Option<u64>,
    },
    /// Nothing more.
    Done,
}
