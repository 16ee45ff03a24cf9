//! The runtime as a file, because the dynamic loader loads only files.
//!
//! It must outlive this process: a program may start others after strobe has gone, and the loader complains about a preloaded file
//! that is missing. So it is kept in the cache under a name made of its contents, and written at most once.

use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::record::translation::{cache_folder, write_atomically};

const RUNTIME: &[u8] = include_bytes!(env!("STROBE_RUNTIME"));

/// Where the runtime is, for `LD_PRELOAD`.
pub fn install() -> Result<PathBuf> {
    let mut hasher = std::hash::DefaultHasher::new();
    RUNTIME.hash(&mut hasher);
    let name = format!("runtime-{:016x}.so", hasher.finish());
    // A colon or a space would end the path in LD_PRELOAD.
    let usable = |folder: &PathBuf| !folder.as_os_str().to_string_lossy().contains([':', ' ', ';']);
    let fallback = std::env::temp_dir().join(format!("strobe-{}", rustix::process::getuid().as_raw()));
    let folder = match cache_folder().filter(usable) {
        Some(folder) => folder,
        None => {
            fs::create_dir_all(&fallback).with_context(|| fallback.display().to_string())?;
            fallback
        }
    };
    let path = folder.join(name);
    if fs::read(&path).ok().as_deref() != Some(RUNTIME) {
        write_atomically(&path, RUNTIME).with_context(|| {
            format!("{}: cannot be written; set XDG_CACHE_HOME to a folder that can", path.display())
        })?;
    }
    Ok(path)
}
