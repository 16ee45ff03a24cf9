//! Where more symbols are: in a compressed section, or in files beside this one.
//!
//! This crate opens no files. [`DebugLinks`] says which ones to look for; the caller finds them and
//! hands over their bytes.

use crate::elf::{Elf, c_string};
use crate::memory::Memory;
use crate::notes;
use crate::problem::{ProblemKind, Problems};
use crate::symbol::{Symbol, SymbolSource, SymbolTable};
use crate::{BuildId, Error};
use lzma_rust2::XzReader;
use object::elf;
use std::io::Read;

/// `.gnu_debugdata` may unpack to this many times its size; symbol tables shrink to a fifth or so.
const MAX_UNPACKING: u64 = 32;

/// Memory for the dictionary that `xz -9` asks for.
const DICTIONARY_LIMIT_KIB: u32 = 80 * 1024;

const MAX_FILE_NAME_LEN: usize = 4096;

/// Names of files with debugging information.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DebugLinks {
    /// Path below a debug directory such as `/usr/lib/debug`: `.build-id/ab/cdef.debug`.
    pub build_id_path: Option<String>,
    /// The file that `.gnu_debuglink` names.
    pub debug_link: Option<DebugLink>,
    /// The file shared between several debug files that `.gnu_debugaltlink` names; it belongs to
    /// the line table.
    pub alternate: Option<AlternateLink>,
}

/// A debug file by name, looked for beside the image, in `.debug` beside it, and below the debug
/// directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugLink {
    /// File name without folder.
    pub file_name: String,
    /// CRC-32 of the whole file.
    pub crc: u32,
}

/// A supplementary debug file as made by `dwz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlternateLink {
    /// Path, absolute or relative to the file that names it.
    pub path: String,
    /// Build-id it must have.
    pub build_id: BuildId,
}

impl DebugLinks {
    /// The links of any x86-64 ELF file: an image, or a debug file, which may name an alternate in
    /// turn.
    pub fn of_file(data: &[u8]) -> Result<DebugLinks, Error> {
        let elf = Elf::parse(data, &mut Problems::default())?;
        Ok(DebugLinks::new(&elf))
    }

    pub(crate) fn new(elf: &Elf<'_>) -> DebugLinks {
        let section = |name| elf.section_named(name).map(|(_, bytes)| bytes);
        DebugLinks {
            build_id_path: notes::build_id(elf).map(|build_id| build_id.debug_path()),
            debug_link: section(".gnu_debuglink").and_then(debug_link),
            alternate: section(".gnu_debugaltlink").and_then(alternate_link),
        }
    }
}

/// The name, padded to a multiple of four, then the checksum.
fn debug_link(bytes: &[u8]) -> Option<DebugLink> {
    let file_name = c_string(bytes, 0, MAX_FILE_NAME_LEN)?.to_owned();
    let crc_at = (file_name.len() + 1).next_multiple_of(4);
    let crc = u32::from_le_bytes(*bytes.get(crc_at..)?.first_chunk()?);
    Some(DebugLink { file_name, crc })
}

/// The name, then the build-id.
fn alternate_link(bytes: &[u8]) -> Option<AlternateLink> {
    let path = c_string(bytes, 0, MAX_FILE_NAME_LEN)?.to_owned();
    let build_id = BuildId::new(bytes.get(path.len() + 1..)?)?;
    Some(AlternateLink { path, build_id })
}

/// The symbols in `.gnu_debugdata`: a stripped ELF file, compressed with xz, that holds a symbol
/// table and little else.
pub(crate) fn debug_data_symbols(elf: &Elf<'_>, memory: &Memory<'_>, problems: &mut Problems) -> Vec<Symbol<'static>> {
    let Some((_, packed)) = elf.section_named(".gnu_debugdata") else { return Vec::new() };
    let mut inner_problems = Problems::default();
    let unpacked = unpack(packed);
    let table = unpacked.as_deref().and_then(|bytes| symbol_table(bytes, &mut inner_problems).ok().flatten());
    let Some(table) = table else {
        problems.add(ProblemKind::DebugData);
        return Vec::new();
    };
    let symbols = table.named_addresses(SymbolSource::DebugData, memory, problems);
    symbols.into_iter().map(Symbol::into_owned).collect()
}

/// The symbols of a debug file that belongs to `image`.
pub(crate) fn debug_file_symbols<'data>(
    image: &Elf<'_>,
    debug_file: &'data [u8],
    memory: &Memory<'_>,
    problems: &mut Problems,
) -> Result<Vec<Symbol<'data>>, Error> {
    let debug_elf = Elf::parse(debug_file, &mut Problems::default())?;
    let (wanted, found) = (notes::build_id(image), notes::build_id(&debug_elf));
    let belongs = match (&wanted, &found) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => DebugLinks::new(image).debug_link.is_some_and(|link| link.crc == crc32fast::hash(debug_file)),
    };
    if !belongs {
        return Err(Error::DebugFileMismatch { image: wanted, debug: found });
    }
    let table = symbol_table(debug_file, problems)?.unwrap_or_default();
    Ok(table.named_addresses(SymbolSource::DebugFile, memory, problems))
}

fn symbol_table<'data>(data: &'data [u8], problems: &mut Problems) -> Result<Option<SymbolTable<'data>>, Error> {
    let elf = Elf::parse(data, problems)?;
    Ok(SymbolTable::of_section(&elf, elf::SHT_SYMTAB, problems))
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let limit = (packed.len() as u64).saturating_mul(MAX_UNPACKING);
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(packed, true, DICTIONARY_LIMIT_KIB);
    reader.take(limit.saturating_add(1)).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= limit).then_some(unpacked)
}
