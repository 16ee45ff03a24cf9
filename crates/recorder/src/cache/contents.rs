//! What is in the cache, by the names of the files:
//!
//! ```text
//! cc1-VERSION-SETTINGS.copy    a copy of a module
//! cc1-VERSION-SETTINGS.code    its control flow
//! VERSION.strobe               the note of a build of strobe ([`super::version`])
//! runtime-CONTENT.so           the library that programs load ([`super::runtime_file`])
//! symbols/BUILD.symbols        names and lines ([`symbols`])
//! debuginfod/BUILD.debug       debug files from servers ([`symbols`])
//! .PID.TIME.NAME.tmp           a file that is being written
//! ```
//!
//! Only plain files of the user count; everything else is left alone.

use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::version::{NOTE, Version};
use super::{own_user, runtime_file};

/// Characters of a module's name that are kept: file names have at most 255 bytes.
const MAX_NAME: usize = 64;

/// A file in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub kind: Kind,
    /// What it is about: the name of a module, or a build-id.
    pub subject: String,
    /// Its size.
    pub bytes: u64,
    /// When it was used last.
    pub used: SystemTime,
    /// Whose it is.
    pub maker: Maker,
    /// The build that is in its name.
    pub(super) version: Option<Version>,
}

/// What is in a file of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A copy of a module.
    Copy,
    /// The control flow of a module.
    ControlFlow,
    /// Names and source lines.
    Names,
    /// A debug file from a server.
    DebugFile,
    /// The library that programs load.
    Runtime,
    /// The note of a build of strobe.
    Note,
    /// Something that is being written, or was when a process ended.
    Unfinished,
}

/// Which strobe has made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Maker {
    /// Any strobe can use it.
    Any,
    /// The one that is running.
    This,
    /// Another one.
    Other,
    /// One that is not there any more.
    Gone,
}

impl Kind {
    /// Returns whether the limit of the cache is about such files.
    #[must_use]
    pub fn is_limited(self) -> bool {
        matches!(self, Kind::Copy | Kind::ControlFlow | Kind::Names)
    }
}

/// Returns the name of a file about a module.
pub(crate) fn name(module: &Path, settings: u64, kind: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() && c != '/' { c } else { '_' };
    let module = module.file_name().unwrap_or_default().to_string_lossy();
    let module: String = module.chars().take(MAX_NAME).map(plain).collect();
    format!("{module}-{}-{settings:016x}.{kind}", Version::own())
}

/// What has files in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Base,
    Symbols,
    Debuginfod,
}

/// Returns the files that the limit is about, and what goes with them.
pub(super) fn limited(folder: &Path) -> Vec<Entry> {
    entries(folder, &[Place::Base, Place::Symbols])
}

/// Returns all files of the cache.
#[must_use]
pub fn all(folder: &Path) -> Vec<Entry> {
    entries(folder, &[Place::Base, Place::Symbols, Place::Debuginfod])
}

fn entries(folder: &Path, places: &[Place]) -> Vec<Entry> {
    let mut makers = HashMap::new();
    let mut entries = Vec::new();
    for &place in places {
        let below = match place {
            Place::Base => folder.to_owned(),
            Place::Symbols => folder.join("symbols"),
            Place::Debuginfod => folder.join("debuginfod"),
        };
        let Ok(found) = fs::read_dir(below) else { continue };
        entries.extend(found.flatten().filter_map(|file| entry(&file, place, folder, &mut makers)));
    }
    entries
}

fn entry(file: &DirEntry, place: Place, folder: &Path, makers: &mut HashMap<Version, Maker>) -> Option<Entry> {
    let name = file.file_name();
    let Named { kind, subject, version } = named(name.to_str()?, place)?;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.uid() == own_user())?;
    let maker = match (kind, version) {
        (Kind::Copy | Kind::ControlFlow | Kind::Note, None) => Maker::Gone,
        (_, None) => Maker::Any,
        (_, Some(version)) => *makers.entry(version).or_insert_with(|| maker(version, folder)),
    };
    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Entry { path: file.path(), kind, subject: subject.to_owned(), bytes: metadata.len(), used, maker, version })
}

fn maker(version: Version, folder: &Path) -> Maker {
    match version {
        version if version == Version::own() => Maker::This,
        version if version.is_gone(folder) => Maker::Gone,
        _ => Maker::Other,
    }
}

/// What the name of a file says.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    kind: Kind,
    subject: &'a str,
    version: Option<Version>,
}

fn named(name: &str, place: Place) -> Option<Named<'_>> {
    let plain = |kind, subject| Some(Named { kind, subject, version: None });
    if let Some(subject) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")) {
        return plain(Kind::Unfinished, subject);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    match (place, extension) {
        (Place::Base, "copy") => Some(of_module(Kind::Copy, stem)),
        (Place::Base, "code") => Some(of_module(Kind::ControlFlow, stem)),
        (Place::Base, "so") if runtime_file::is_name(name) => plain(Kind::Runtime, name),
        (Place::Base, _) => {
            let version = name.strip_suffix(NOTE)?;
            Some(Named { kind: Kind::Note, subject: version, version: Version::parse(version) })
        }
        (Place::Symbols, "symbols") => plain(Kind::Names, stem),
        (Place::Debuginfod, "debug") => plain(Kind::DebugFile, stem),
        (Place::Debuginfod, "partial") => plain(Kind::Unfinished, stem),
        _ => None,
    }
}

/// A name without a version is one that no strobe of today gives.
fn of_module(kind: Kind, stem: &str) -> Named<'_> {
    let parts = stem.rsplit_once('-').and_then(|(rest, _)| rest.rsplit_once('-'));
    match parts.and_then(|(module, version)| Some((module, Version::parse(version)?))) {
        Some((subject, version)) => Named { kind, subject, version: Some(version) },
        None => Named { kind, subject: stem, version: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_in_a_file() {
        let own = Some(Version::own());
        for (path, module) in [
            ("/usr/bin/gzip", "gzip"),
            ("/usr/lib/libstdc++.so.6.0.30", "libstdc++.so.6.0.30"),
            ("/opt/with-dashes-1", "with-dashes-1"),
            ("/opt/two words\n", "two_words_"),
            ("[vdso]", "[vdso]"),
        ] {
            let copy = name(Path::new(path), 7, "copy");
            let expected = Named { kind: Kind::Copy, subject: module, version: own };
            assert_eq!(named(&copy, Place::Base), Some(expected), "{copy}");
        }
        assert!(name(Path::new(&"x".repeat(255)), 7, "code").len() < 128);
        for (name, place, kind, subject) in [
            ("cc1-0123456789abcdef.copy", Place::Base, Kind::Copy, "cc1-0123456789abcdef"),
            (".7.9.x.copy.tmp", Place::Base, Kind::Unfinished, "7.9.x.copy"),
            ("abcd.symbols", Place::Symbols, Kind::Names, "abcd"),
            ("abcd.debug", Place::Debuginfod, Kind::DebugFile, "abcd"),
            ("abcd.12.partial", Place::Debuginfod, Kind::Unfinished, "abcd.12"),
        ] {
            assert_eq!(named(name, place), Some(Named { kind, subject, version: None }), "{name}");
        }
        for foreign in ["README", "x.so", "notes.txt", "abcd.debug", "abcd.symbols"] {
            assert_eq!(named(foreign, Place::Base), None, "{foreign}");
        }
    }

    #[test]
    fn only_plain_files_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |settings| folder.path().join(name(Path::new("x"), settings, "copy"));
        fs::create_dir(at(1)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at(2)).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at(3), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        fs::write(at(4), b"1234").unwrap();
        let found: Vec<_> =
            all(folder.path()).into_iter().map(|entry| (entry.path, entry.bytes, entry.maker)).collect();
        assert_eq!(found, [(at(4), 4, Maker::This)]);
    }
}
