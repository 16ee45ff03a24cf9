//! Files that an archive brought along with a profile, by build-id.
//!
//! They lie in a folder `files` beside the profile: `files/<build-id>` is a binary,
//! `files/<build-id>.debug` the separate debug file of one, or a file shared by several of those,
//! by its own build-id. A file counts only if it has the build-id that it is filed under.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build_id::build_id_of;
use crate::cache::BuildIdText;
use crate::debug_files::DebugFile;

/// The folder of files, as archives name it.
pub const FOLDER: &str = "files";
/// What the names of debug files end in.
pub const DEBUG_SUFFIX: &str = ".debug";

/// A folder of archived files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFiles(PathBuf);

impl ArchivedFiles {
    /// Those of a profile; nothing if it did not come from an archive.
    pub fn beside(profile: &Path) -> Option<ArchivedFiles> {
        let folder = profile.parent().unwrap_or(Path::new("")).join(FOLDER);
        folder.is_dir().then_some(ArchivedFiles(folder))
    }

    /// Where the binary of a build is.
    pub fn binary(&self, build_id: &BuildIdText) -> Option<PathBuf> {
        self.checked(build_id, "")
    }

    /// Where the debug file of a build is.
    pub fn debug_path(&self, build_id: &BuildIdText) -> Option<PathBuf> {
        self.checked(build_id, DEBUG_SUFFIX)
    }

    /// Returns the debug file of a build, read.
    pub fn debug_file(&self, build_id: &BuildIdText) -> Option<DebugFile> {
        let path = self.debug_path(build_id)?;
        Some(DebugFile { bytes: fs::read(&path).ok()?, path })
    }

    fn checked(&self, build_id: &BuildIdText, suffix: &str) -> Option<PathBuf> {
        let path = self.0.join(format!("{}{suffix}", build_id.as_str()));
        let found = build_id_of(&path).ok().flatten();
        (found.as_ref() == Some(build_id)).then_some(path)
    }
}
