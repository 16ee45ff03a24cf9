//! The runtime as a file, because the dynamic loader loads only files.
//!
//! It must outlive this process: a program may start others after strobe has gone, and the loader
//! complains about a preloaded file that is missing. So it is kept in the cache under a name made
//! of its contents, and written at most once. It is code that the program runs: it is put only
//! where nobody else can exchange it, and compared byte for byte before each use.

use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use symbols::own_files;

use crate::error::{Error, Result, refused};

const RUNTIME: &[u8] = include_bytes!(env!("STROBE_RUNTIME"));

const PREFIX: &str = "runtime-";
const SUFFIX: &str = ".so";

/// Returns the name of the runtime that this strobe carries.
pub fn name() -> String {
    static HASH: OnceLock<u64> = OnceLock::new();
    let hash = HASH.get_or_init(|| {
        let mut hasher = std::hash::DefaultHasher::new();
        RUNTIME.hash(&mut hasher);
        hasher.finish()
    });
    format!("{PREFIX}{hash:016x}{SUFFIX}")
}

/// Returns whether some strobe's runtime has this name.
pub fn is_name(name: &str) -> bool {
    let hash = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    hash.is_some_and(|hash| hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok())
}

/// Where the runtime is, for `LD_PRELOAD`.
pub fn install() -> Result<PathBuf> {
    let name = name();
    let install_in = |folder: Result<PathBuf>| install_in(&folder?, &name);
    install_in(super::folder_or_why()).or_else(|first| {
        install_in(super::temporary_folder()).map_err(|second| {
            Error::Refused(format!(
                "no safe place for the library that programs load: {first}; {second}; set XDG_CACHE_HOME to a folder that only you can write to"
            ))
        })
    })
}

fn install_in(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    if folder.as_os_str().to_string_lossy().contains([':', ' ', ';']) {
        return refused(format!(
            "{}: a colon, a space or a semicolon would end the path in LD_PRELOAD",
            folder.display()
        ));
    }
    match own_files::read_open(&path) {
        Ok((bytes, file)) if bytes == RUNTIME => own_files::mark_used(&file),
        _ => own_files::write(&path, RUNTIME).map_err(Error::io(path.display()))?,
    }
    Ok(path)
}
