//! What can go wrong with a profile file.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

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
        cause: io::Error,
    },
    /// The file exists and is something else; it is left alone.
    #[error("{}: exists and is not a strobe profile; choose another name with -o, or remove it", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read, for example because it is not there.
    #[error("{}: cannot be read: {cause}; give a file that `strobe record` has written", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
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
    /// The file is a profile, but not what was written.
    #[error("{}: damaged ({what}); restore it from a copy, or record again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        what: String,
    },
    /// Someone else has held the file for too long.
    #[error("{}: in use by another program; try again when that is done", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a path trace that this strobe can read.
    #[error("{}: {what}", path.display())]
    PathTrace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
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

impl Error {
    /// What a failure of SQLite means. A profile lacks no table and no column, and its values have
    /// the types of their columns.
    pub(crate) fn database(path: &Path, cause: rusqlite::Error) -> Error {
        let path = path.to_owned();
        match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) | None => {
                Error::Damaged { path, what: cause.to_string() }
            }
            Some(_) => Error::Database { path, cause },
        }
    }
}
