//! `strobe archive`: a profile with what is needed to read it elsewhere, as a tar file compressed with zstd.
//!
//! Extracted, it is a folder:
//!
//! * `profile.strobe`, the profile;
//! * `files/<build-id>`, a binary of the profile;
//! * `files/<build-id>.debug`, the separate debug file of a binary, or a file shared by several of those, by its own build-id.
//!
//! Whoever reads a profile looks for its binaries in `files` beside it first ([`binary_of`]). An archive holds nothing else, and nothing
//! else is extracted: names of entries are checked, not trusted.

mod create;
mod extract;
mod scrub;

use std::path::{Path, PathBuf};

use anyhow::Result;
use profile::model::Module;

use crate::tools::props::ArchiveProps;

/// Name of the profile in an archive.
const PROFILE: &str = "profile.strobe";
/// The folder of binaries in an archive.
const FILES: &str = "files";
/// What the names of debug files end in.
const DEBUG_SUFFIX: &str = ".debug";

pub fn run(props: &ArchiveProps) -> Result<()> {
    match props {
        ArchiveProps::Create { profile, archive, scrub } => create::create(profile, archive, *scrub),
        ArchiveProps::Extract { archive, folder } => extract::extract(archive, folder),
    }
}

/// Where to read the file of a module: in the archive that the profile came from, else where it was recorded.
pub fn binary_of(profile: &Path, module: &Module) -> PathBuf {
    let archived = is_build_id(&module.build_id).then(|| beside(profile).join(&module.build_id));
    archived.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(&module.path))
}

/// The folder of archived files of a profile, whether or not it is there.
fn beside(profile: &Path) -> PathBuf {
    profile.parent().unwrap_or(Path::new("")).join(FILES)
}

fn is_build_id(text: &str) -> bool {
    (2..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_archived_binary_goes_before_the_recorded_one() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join(PROFILE);
        let module = |build_id: &str| Module { path: "/bin/x".to_owned(), build_id: build_id.to_owned() };
        fs::create_dir(folder.path().join(FILES)).unwrap();
        fs::write(folder.path().join(FILES).join("abcd"), "").unwrap();
        assert_eq!(binary_of(&profile, &module("abcd")), folder.path().join("files/abcd"));
        for other in ["ef01", "", "../profile.strobe"] {
            assert_eq!(binary_of(&profile, &module(other)), PathBuf::from("/bin/x"), "{other}");
        }
    }
}
