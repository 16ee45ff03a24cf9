//! What can go wrong with debuginfod servers.

use std::io;
use std::path::PathBuf;

/// Why a debug file did not come from a debuginfod server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder for downloads cannot be made.
    #[error("debuginfod: {}: {cause}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The server cannot be reached, or its answer breaks off or stops.
    #[error("debuginfod: {server}: {cause}")]
    Server {
        /// Its URL.
        server: String,
        /// What the client says.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server answers neither with a file nor that it has none.
    #[error("debuginfod: {server}: answers with status {status}")]
    Refused {
        /// Its URL.
        server: String,
        /// The status of HTTP.
        status: u16,
    },
    /// The server sends a file of another build, or no program at all.
    #[error("debuginfod: {server}: sends something that is not the debug file of this build")]
    OtherBuild {
        /// Its URL.
        server: String,
    },
    /// The server sends more than any debug file has.
    #[error("debuginfod: {server}: sends more than {limit_gib} GiB")]
    TooLarge {
        /// Its URL.
        server: String,
        /// How much is accepted.
        limit_gib: u64,
    },
    /// This strobe was built without the feature `debuginfod`.
    #[error("debuginfod: this strobe was built without it; build it with the feature `debuginfod`")]
    NotBuilt,
}
