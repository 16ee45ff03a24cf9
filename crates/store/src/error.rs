//! What can go wrong with a profile file.

use std::path::PathBuf;

/// Failure of an operation on a profile file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be created or opened for writing.
    #[error("{}: cannot be written: {cause}; choose another place with -o", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The file exists and is something else; it is left alone.
    #[error("{}: exists and is not a strobe profile; choose another name with -o, or remove it", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{}: not a strobe profile; give a file that `strobe record` has written", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of strobe.
    #[error("{}: version {version} of the profile format, this strobe reads version {}; use the strobe that recorded it", path.display(), crate::SCHEMA_VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i32,
    },
    /// SQLite failed, for example because the disk is full.
    #[error("{}: {cause}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: rusqlite::Error,
    },
}
