//! Whether a program can be profiled, judged by its file alone.
//!
//! The runtime gets into a process through the dynamic linker. A file that has none, or for which
//! the dynamic linker must ignore the environment, runs unprofiled, and the user wants to know why
//! before he waits for a result.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use image::head::{self, Identity};

/// Bytes of the first line of a script that count; the kernel reads no more.
const SCRIPT_LINE_BYTES: usize = 256;
const MAX_INTERPRETER_BYTES: u64 = 4096;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// What will happen when a file is started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launchability {
    /// A dynamically linked x86-64 program: it can be profiled.
    Dynamic {
        /// Its dynamic linker.
        linker: PathBuf,
    },
    /// A script; what can be profiled is its interpreter.
    Script {
        /// The interpreter.
        interpreter: PathBuf,
        /// What will come of that.
        then: Box<Launchability>,
    },
    /// A program without a dynamic linker.
    Static,
    /// A 32-bit program.
    Bits32,
    /// A program for another machine, or an ELF file that is no program.
    Foreign {
        /// Its ELF machine number.
        machine: u16,
    },
    /// It gets the rights of another user, so that the dynamic linker ignores the environment.
    Privileged,
    /// Neither ELF nor a script.
    UnknownFormat,
    /// The file may not be executed.
    NotExecutable,
    /// There is no such file.
    Missing,
    /// The file cannot be read, so nothing is known.
    Unreadable,
}

impl Launchability {
    /// Returns whether the process that is started can be profiled.
    #[must_use]
    pub fn is_profilable(&self) -> bool {
        match self {
            Launchability::Dynamic { .. } => true,
            Launchability::Script { then, .. } => then.is_profilable(),
            _ => false,
        }
    }
}

/// Looks at the headers of a file.
#[must_use]
pub fn probe_binary(path: &Path) -> Launchability {
    probe(path, true)
}

fn probe(path: &Path, may_be_script: bool) -> Launchability {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Launchability::Missing,
        Err(_) => return Launchability::Unreadable,
    };
    if !metadata.is_file() || rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_err() {
        return Launchability::NotExecutable;
    }
    let Ok(file) = open(path) else { return Launchability::Unreadable };
    let found = identify(&file).map(|identity| match identity {
        Identity::Other if may_be_script => script(&file),
        Identity::Other => Launchability::UnknownFormat,
        Identity::Bits32 => Launchability::Bits32,
        Identity::Foreign { machine } => Launchability::Foreign { machine },
        Identity::Native(_) if is_privileged(path, &metadata) => Launchability::Privileged,
        Identity::Native(segments) => match segments.interpreter {
            Some(range) => Launchability::Dynamic { linker: linker(&file, range.start, range.end) },
            None => Launchability::Static,
        },
    });
    found.unwrap_or(Launchability::Unreadable)
}

/// Opens a file without waiting, should it have become a pipe meanwhile.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Reads the head of a file: what kind it is, and its segments.
///
/// # Errors
/// When the file cannot be read.
pub fn identify(file: &File) -> io::Result<Identity> {
    head::identify(&mut |buffer, at| read_up_to(file, buffer, at))
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn read_up_to(file: &File, buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match file.read_at(&mut buffer[n..], at) {
            Ok(0) => break,
            Ok(more) => (n, at) = (n + more, at.saturating_add(more as u64)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An offset past what the system can express.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

fn script(file: &File) -> Launchability {
    let mut start = [0; SCRIPT_LINE_BYTES];
    let Ok(n) = read_up_to(file, &mut start, 0) else { return Launchability::Unreadable };
    let Some(line) = start[..n].strip_prefix(b"#!") else { return Launchability::UnknownFormat };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let interpreter = PathBuf::from(std::ffi::OsStr::from_bytes(name));
    let then = Box::new(probe(&interpreter, false));
    Launchability::Script { interpreter, then }
}

fn linker(file: &File, start: u64, end: u64) -> PathBuf {
    let len = end.saturating_sub(start).min(MAX_INTERPRETER_BYTES);
    let mut bytes = vec![0; len as usize];
    let n = read_up_to(file, &mut bytes, start).unwrap_or(0);
    let path = bytes[..n].split(|&byte| byte == 0).next().unwrap_or_default();
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}

/// Returns whether executing the file changes user, group or capabilities.
fn is_privileged(path: &Path, metadata: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let changes_user = metadata.mode() & SETUID != 0 && metadata.uid() != user;
    let changes_group = metadata.mode() & SETGID != 0 && metadata.gid() != group;
    let mut value = [0u8; 64];
    let has_capabilities = user != 0 && rustix::fs::getxattr(path, "security.capability", &mut value).is_ok();
    changes_user || changes_group || has_capabilities
}
