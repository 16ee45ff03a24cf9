//! Which strobe has made a file of the cache, and whether that strobe is still there.
//!
//! What one build of strobe has translated is of no use to another. Every file has the build in its
//! name, and beside them lies a note for each build that says on which machine and in which file it
//! is. A build is gone if this machine has something else there. Of builds on other machines, which
//! may share the folder, and in containers, which have a name of their own, nothing is known: their
//! files stay until they are the ones that were used longest ago.

use std::fmt;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use symbols::own_files;

/// Name of a note behind the version.
pub(super) const NOTE: &str = ".strobe";
const OWN_FILE: &str = "/proc/self/exe";

/// One build of strobe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Returns the build that is running.
    pub fn own() -> Version {
        static OWN: OnceLock<Version> = OnceLock::new();
        *OWN.get_or_init(|| Version::of(Path::new(OWN_FILE)).unwrap_or_else(Version::untold))
    }

    /// Returns the version of a build that cannot be told from others: it is another one each time.
    fn untold() -> Version {
        let mut hasher = std::hash::DefaultHasher::new();
        (SystemTime::now(), std::process::id()).hash(&mut hasher);
        Version(hasher.finish())
    }

    /// Returns the build in a file: its build-id, or else its time of change. Images of containers
    /// keep no fractions of seconds.
    pub(super) fn of(path: &Path) -> Option<Version> {
        let metadata = fs::metadata(path).ok()?;
        let mut hasher = std::hash::DefaultHasher::new();
        metadata.len().hash(&mut hasher);
        match symbols::build_id_of(path).ok().flatten() {
            Some(build_id) => build_id.as_str().hash(&mut hasher),
            None => (metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher),
        }
        Some(Version(hasher.finish()))
    }

    /// Parses what [`Version`] displays.
    pub(super) fn parse(text: &str) -> Option<Version> {
        let is_version = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u64::from_str_radix(text, 16).ok().filter(|_| is_version).map(Version)
    }

    /// Leaves a note on where this build is, unless there is one. Without it, others take what this
    /// build makes for remains.
    pub fn sign(folder: &Path) {
        let own = Version::own();
        let Some(note) = Note::own() else { return };
        if Note::read(folder, own).as_ref() != Some(&note) {
            let _ = own_files::write(&own.note(folder), &note.to_bytes());
        }
    }

    /// Returns whether what this build has made is of no use any more.
    pub(super) fn is_gone(self, folder: &Path) -> bool {
        if self == Version::own() {
            return false;
        }
        let Some(note) = Note::read(folder, self) else { return true };
        note.machine == machine() && Version::of(&note.file) != Some(self)
    }

    fn note(self, folder: &Path) -> PathBuf {
        folder.join(format!("{self}{NOTE}"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a build is.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    machine: Vec<u8>,
    file: PathBuf,
}

impl Note {
    /// Returns nothing if the file of the running build has been replaced or removed.
    fn own() -> Option<Note> {
        let file = fs::read_link(OWN_FILE).ok()?;
        (Version::of(&file)? == Version::own()).then(|| Note { machine: machine(), file })
    }

    fn read(folder: &Path, version: Version) -> Option<Note> {
        let bytes = own_files::read(&version.note(folder)).ok()?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let file = PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[end + 1..]));
        Some(Note { machine: bytes[..end].to_vec(), file })
    }

    fn to_bytes(&self) -> Vec<u8> {
        [&self.machine, &b"\0"[..], self.file.as_os_str().as_bytes()].concat()
    }
}

/// Returns the name of this machine; nothing if it has none to tell.
pub(super) fn machine() -> Vec<u8> {
    fs::read("/proc/sys/kernel/hostname").unwrap_or_default().trim_ascii().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_gone_when_its_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let strobe = folder.path().join("strobe");
        fs::copy(OWN_FILE, &strobe).unwrap();
        let version = Version::own();
        Version::sign(folder.path());
        assert!(!version.is_gone(folder.path()));

        // Another length is another build.
        let mut bytes = fs::read(&strobe).unwrap();
        bytes.push(0);
        fs::write(&strobe, bytes).unwrap();
        let other = Version::of(&strobe).unwrap();
        assert_ne!(other, version);
        assert!(other.is_gone(folder.path()), "no note");
        let here = Note { machine: machine(), file: strobe.clone() };
        own_files::write(&other.note(folder.path()), &here.to_bytes()).unwrap();
        assert!(!other.is_gone(folder.path()));
        fs::remove_file(&strobe).unwrap();
        assert!(other.is_gone(folder.path()));
        let elsewhere = Note { machine: b"another machine".to_vec(), file: strobe };
        own_files::write(&other.note(folder.path()), &elsewhere.to_bytes()).unwrap();
        assert!(!other.is_gone(folder.path()));
    }

    #[test]
    fn versions_are_read_as_they_are_written() {
        let version = Version(0x0123_4567_89ab_cdef);
        assert_eq!(Version::parse(&version.to_string()), Some(version));
        for bad in ["", "0123", "0123456789abcdeg", "+123456789abcdef", "0123456789ABCDEF"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
