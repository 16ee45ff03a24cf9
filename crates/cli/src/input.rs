//! Reads the files a user names, and says in one line why one cannot be read.
//!
//! The kind of file is checked before it is opened: opening a named pipe would wait for a writer
//! that never comes.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

/// The bytes of a program or library. The error names the file, the cause and what to do.
pub fn read_binary(path: &Path) -> Result<Vec<u8>> {
    read(path).with_context(|| path.display().to_string())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let explain = |error: io::Error| explain(path, error);
    let file_type = fs::metadata(path).map_err(explain)?.file_type();
    if let Some(kind) = unreadable_kind(file_type) {
        return Err(anyhow!("{kind}, not a file; give a program or a shared library"));
    }
    fs::read(path).map_err(explain)
}

fn unreadable_kind(file_type: FileType) -> Option<&'static str> {
    match file_type {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a named pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

fn explain(path: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => match in_search_path(path) {
            Some(found) => anyhow!("no such file; did you mean {}?", found.display()),
            None => anyhow!("no such file; check the path"),
        },
        ErrorKind::PermissionDenied => anyhow!("permission denied; run strobe as a user who may read it"),
        ErrorKind::OutOfMemory => anyhow!("larger than the memory; give a program or a shared library"),
        _ => anyhow::Error::new(error).context("cannot be read; check the disk or copy the file"),
    }
}

/// Where a shell would find the program, for users who type a bare name.
fn in_search_path(path: &Path) -> Option<PathBuf> {
    let is_bare_name = path.components().count() == 1;
    let folders = std::env::var_os("PATH").filter(|_| is_bare_name)?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|candidate| candidate.is_file())
}
