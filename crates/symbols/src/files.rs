//! The files of a module: whether the one that ran is still there, and where its debug data is.
//!
//! The binary at a module's path may be gone, or be another build by now. It counts only if its
//! build-id is the one in the profile; reading that takes a few pages of the file. Debug data is
//! taken from the binary, else from a separate debug file of the archive that the profile came
//! with, else from one on this machine, else from a debuginfod server if the user asks for that.
//! All of it can be there without the binary.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use image::{DebugLink, DebugLinks, Image, LineSections};

use crate::archived::ArchivedFiles;
use crate::build_id::build_id_of;
use crate::cache::BuildIdText;
use crate::debug_files::{self, DebugFile};
use crate::debuginfod::Debuginfod;
use crate::error::Error;
use crate::table::Origin;

/// What became of a module's file since it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// There, with source lines.
    Ok,
    /// There, but nothing has source lines for it.
    NoDebugInfo,
    /// Gone.
    Missing,
    /// There, but not to be read as a program.
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// Another build is in its place.
    BuildIdMismatch {
        /// The build-id in the profile.
        expected: String,
        /// The build-id of the file.
        found: Option<String>,
    },
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ok => write!(f, "has debug data"),
            Status::NoDebugInfo => write!(f, "no debug data found, so no source lines; install it or try --debuginfod"),
            Status::Missing => write!(f, "the file is gone; names are those known from before"),
            Status::Unreadable { reason } => write!(f, "{reason}; names are those known from before"),
            Status::BuildIdMismatch { expected, found } => {
                let found = found.as_deref().unwrap_or("none");
                write!(
                    f,
                    "rebuilt since the recording (build-id {found}, recorded {expected}); names are those known from before"
                )
            }
        }
    }
}

/// The state of the file at `path`, short of its debug data.
pub fn status_of(path: &Path, recorded: Option<&BuildIdText>) -> Status {
    match build_id_of(path) {
        Ok(found) if recorded.is_none_or(|recorded| found.as_ref() == Some(recorded)) => Status::Ok,
        Ok(found) => Status::BuildIdMismatch {
            expected: recorded.map(|recorded| recorded.as_str().to_owned()).unwrap_or_default(),
            found: found.map(|found| found.as_str().to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Status::Missing,
        Err(error) => Status::Unreadable { reason: error.to_string() },
    }
}

/// Where debug files may be besides the usual folders.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub archived: Option<&'a ArchivedFiles>,
    pub debuginfod: Option<&'a Debuginfod>,
}

/// The bytes that names and lines are read from.
#[derive(Debug, Default)]
pub struct ModuleFiles {
    binary: Option<Vec<u8>>,
    debug: Option<DebugFile>,
    alternate: Option<DebugFile>,
    debug_link: String,
}

impl ModuleFiles {
    /// Reads what there is of a module. The binary is read only if it is `usable`, that is, the one
    /// that ran.
    pub fn read(
        path: &Path,
        build_id: Option<&BuildIdText>,
        usable: bool,
        places: Places<'_>,
        faults: &mut Vec<Error>,
    ) -> ModuleFiles {
        let binary = usable.then(|| fs::read(path).ok()).flatten();
        let links = match &binary {
            Some(bytes) => DebugLinks::of_file(bytes).unwrap_or_default(),
            None => DebugLinks { build_id_path: build_id.map(BuildIdText::debug_path), ..DebugLinks::default() },
        };
        let own_lines = binary.as_deref().is_some_and(LineSections::are_in);
        let mut fetch = |build_id: &BuildIdText| {
            let (fetched, new_faults) = places.debuginfod?.fetch(build_id);
            faults.extend(new_faults);
            let path = fetched?;
            Some(DebugFile { bytes: fs::read(&path).ok()?, path })
        };
        let archived = |build_id: &BuildIdText| places.archived?.debug_file(build_id);
        let debug = match own_lines {
            true => None,
            false => {
                build_id.and_then(archived).or_else(|| debug_files::find(path, &links)).or_else(|| fetch(build_id?))
            }
        };
        let (naming_file, link) = match &debug {
            Some(file) => (file.path.clone(), DebugLinks::of_file(&file.bytes).ok().and_then(|links| links.alternate)),
            None => (path.to_path_buf(), links.alternate),
        };
        let alternate = link.and_then(|link| {
            let build_id = BuildIdText::from_bytes(link.build_id.as_bytes());
            let local = archived(&build_id).or_else(|| debug_files::find_alternate(&naming_file, &link));
            local.or_else(|| fetch(&build_id))
        });
        let debug_link = links.debug_link.map(|link| link.file_name).unwrap_or_default();
        ModuleFiles { binary, debug, alternate, debug_link }
    }

    /// The symbols of the binary and of its debug file, of whichever there is.
    pub fn image(&self) -> Option<Image<'_>> {
        let debug = self.debug.as_ref().map(|file| file.bytes.as_slice());
        let Some(binary) = &self.binary else { return Image::parse(debug?).ok() };
        let with_debug_file = debug.and_then(|debug| Image::parse(binary).ok()?.with_debug_file(debug).ok());
        with_debug_file.or_else(|| Image::parse(binary).ok())
    }

    /// The line tables of the debug file, or else of the binary; without the alternate file if that
    /// cannot be read.
    pub fn lines(&self) -> Option<LineSections<'_>> {
        let alternate = self.alternate.as_ref().map(|file| file.bytes.as_slice());
        let read = |data| LineSections::read(data, alternate).or_else(|_| LineSections::read(data, None)).ok();
        let debug = self.debug.as_ref().and_then(|file| read(&file.bytes));
        debug.or_else(|| read(self.binary.as_deref()?))
    }

    pub fn origin(&self, has_lines: bool) -> Origin {
        let debug_file = self.debug.as_ref().map(|file| file.path.to_string_lossy().into_owned()).unwrap_or_default();
        Origin { has_lines, debug_link: self.debug_link.clone(), debug_file }
    }
}

/// Whether there is now a debug file for answers that were given without one.
pub fn has_new_debug_file(
    path: &Path,
    build_id: Option<&BuildIdText>,
    archived: Option<&ArchivedFiles>,
    origin: &Origin,
) -> bool {
    let debug_link = Some(&origin.debug_link).filter(|name| !name.is_empty());
    let links = DebugLinks {
        build_id_path: build_id.map(BuildIdText::debug_path),
        debug_link: debug_link.map(|name| DebugLink { file_name: name.clone(), crc: 0 }),
        alternate: None,
    };
    let in_archive = archived.zip(build_id).and_then(|(archived, build_id)| archived.debug_path(build_id));
    let found = in_archive.or_else(|| debug_files::find(path, &links).map(|file| file.path));
    found.is_some_and(|path| path.to_string_lossy() != origin.debug_file)
}
