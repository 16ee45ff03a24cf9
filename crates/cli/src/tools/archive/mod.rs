//! `strobe archive`: a profile with what is needed to read it elsewhere, as a tar file compressed
//! with zstd.
//!
//! Extracted, it is a folder with `profile.strobe`, the profile, and `files`, which
//! [`ArchivedFiles`] describes: whoever reads a profile looks for its files there first. An archive
//! holds nothing else, and nothing else is extracted: names of entries are checked, not trusted.

mod create;
mod extract;
mod scrub;

use std::path::{Path, PathBuf};

use anyhow::Result;
use profile::model::Module;
use symbols::{ArchivedFiles, BuildIdText};

use crate::tools::props::ArchiveProps;

/// Name of the profile in an archive.
const PROFILE: &str = "profile.strobe";

pub fn run(props: &ArchiveProps) -> Result<()> {
    match props {
        ArchiveProps::Create { profile, archive, scrub } => create::create(profile, archive, *scrub),
        ArchiveProps::Extract { archive, folder } => extract::extract(archive, folder),
    }
}

/// Where to read the file of a module: in the archive that the profile came from, else where it was
/// recorded.
pub fn binary_of(profile: &Path, module: &Module) -> PathBuf {
    let archived = || ArchivedFiles::beside(profile)?.binary(&BuildIdText::new(&module.build_id)?);
    archived().unwrap_or_else(|| PathBuf::from(&module.path))
}

/// Whether files can be named after it.
fn is_build_id(text: &str) -> bool {
    BuildIdText::new(text).is_some_and(|build_id| build_id.as_str() == text)
}
