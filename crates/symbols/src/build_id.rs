//! Which build a file is.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Object as _, ReadCache};

use crate::cache::BuildIdText;

/// Returns the build-id of an ELF file, without reading all of it.
///
/// # Errors
/// If it cannot be read, or is no such file.
pub fn build_id_of(path: &Path) -> io::Result<Option<BuildIdText>> {
    // Opening a named pipe would wait for a writer that never comes.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let cache = ReadCache::new(File::open(path)?);
    let no_program = |_| io::Error::other("not a program or library for x86-64");
    let elf = ElfFile64::<object::LittleEndian, _>::parse(&cache).map_err(no_program)?;
    Ok(elf.build_id().map_err(no_program)?.map(BuildIdText::from_bytes))
}
