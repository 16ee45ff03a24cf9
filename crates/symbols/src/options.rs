//! Where a symbolizer looks, and where it keeps what it found.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::archived::ArchivedFiles;
use crate::progress::Progress;

/// Longest wait for an answer of a server to begin, and then for each further part. Servers may
/// have to unpack a package first.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Where to look, and where to keep what was found.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for what should outlive the run; nothing is kept without one.
    pub cache: Option<PathBuf>,
    /// Debuginfod servers to ask for debug data that is not on this machine. They need a folder.
    pub servers: Vec<String>,
    /// How long a server may be silent.
    pub silence_timeout: Duration,
    /// Binaries and debug files that go before those where the program ran.
    pub archived: Option<ArchivedFiles>,
    /// Who hears what takes long.
    pub progress: Option<Arc<dyn Progress>>,
}

impl Options {
    /// Returns options to use only what is on this machine.
    pub fn offline(cache: Option<PathBuf>) -> Options {
        Options { cache, servers: Vec::new(), silence_timeout: SILENCE_TIMEOUT, archived: None, progress: None }
    }

    /// Returns options for a profile in a file, which also use what an archive brought along.
    pub fn of_profile(path: &Path, cache: Option<PathBuf>) -> Options {
        Options { archived: ArchivedFiles::beside(path), ..Options::offline(cache) }
    }
}
