//! Source lines and inlined functions, from DWARF.
//!
//! The table owns its sections: compressed ones have to be unpacked anyway, and a table without a
//! lifetime can be kept beside the image it describes. Only the sections that line lookup reads are
//! copied. What compressed sections claim to unpack to is limited to a multiple of the file before
//! anything is allocated.

use crate::elf::Elf;
use crate::name::demangle;
use crate::problem::Problems;
use crate::{Error, Svma};
use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian, Section as _, SectionId};
use object::LittleEndian as LE;
use object::elf;
use object::read::{CompressedData, CompressionFormat};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// All debug sections together may unpack to this many times the file's size.
const MAX_UNPACKING: u64 = 32;

/// Most frames reported for one address; inlining in real programs is a few dozen deep.
const MAX_INLINE_DEPTH: usize = 1 << 10;

type Reader = EndianArcSlice<LittleEndian>;

/// Addresses to source lines.
pub struct LineTable {
    context: Context<Reader>,
}

/// A function, perhaps inlined, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Readable name.
    pub function: Option<String>,
    /// Path of the source file as the compiler recorded it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

impl LineTable {
    /// Reads the sections of an image or debug file, and of the alternate file that it names, if
    /// there is one.
    pub fn new(data: &[u8], alternate: Option<&[u8]>) -> Result<LineTable, Error> {
        let mut dwarf = load(data)?;
        if gimli::Reader::is_empty(dwarf.debug_line.reader()) {
            return Err(Error::NoLines);
        }
        if let Some(alternate) = alternate {
            dwarf.set_sup(load(alternate)?);
        }
        let context = Context::from_dwarf(dwarf).map_err(Error::Dwarf)?;
        Ok(LineTable { context })
    }

    /// The frames at an address, the innermost inlined function first; empty where the compiler
    /// recorded nothing.
    pub fn frames_at(&self, address: Svma) -> Vec<SourceFrame> {
        let mut frames = Vec::new();
        // The lookup computes the address after the one asked for.
        if address == Svma(u64::MAX) {
            return frames;
        }
        let Ok(mut found) = self.context.find_frames(address.0).skip_all_loads() else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref();
            frames.push(SourceFrame {
                function: name.map(|name| demangle(&name)),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).filter(|&line| line > 0),
                column: location.and_then(|location| location.column).filter(|&column| column > 0),
            });
            if frames.len() == MAX_INLINE_DEPTH {
                break;
            }
        }
        frames
    }
}

impl fmt::Debug for LineTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineTable").finish_non_exhaustive()
    }
}

fn load(data: &[u8]) -> Result<Dwarf<Reader>, Error> {
    let elf = Elf::parse(data, &mut Problems::default())?;
    let mut bytes_left = (data.len() as u64).saturating_mul(MAX_UNPACKING);
    Dwarf::load(|id| {
        let bytes = if is_line_section(id.name()) {
            section(&elf, id.name(), &mut bytes_left)?
        } else {
            Cow::Borrowed(&[][..])
        };
        Ok(EndianArcSlice::new(Arc::from(bytes), LittleEndian))
    })
}

/// Whether a section of this name is read for source lines and inlined functions; others need not
/// be unpacked.
#[must_use]
pub fn is_line_section(name: &str) -> bool {
    const USED: [SectionId; 10] = [
        SectionId::DebugAbbrev,
        SectionId::DebugAddr,
        SectionId::DebugAranges,
        SectionId::DebugInfo,
        SectionId::DebugLine,
        SectionId::DebugLineStr,
        SectionId::DebugRanges,
        SectionId::DebugRngLists,
        SectionId::DebugStr,
        SectionId::DebugStrOffsets,
    ];
    USED.iter().any(|id| id.name() == name)
}

/// The unpacked bytes of a section, empty if the file has none.
fn section<'data>(elf: &Elf<'data>, name: &'static str, bytes_left: &mut u64) -> Result<Cow<'data, [u8]>, Error> {
    let Some((header, bytes)) = elf.section_named(name) else { return Ok(Cow::Borrowed(&[])) };
    if !header.sh_flags.get(LE).contains(elf::SHF_COMPRESSED) {
        return Ok(Cow::Borrowed(bytes));
    }
    let damaged = Error::Compressed { section: name };
    let (compression, packed) =
        object::pod::from_bytes::<elf::CompressionHeader64<LE>>(bytes).map_err(|()| damaged.clone())?;
    let format = match compression.ch_type.get(LE) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return Err(damaged),
    };
    let uncompressed_size = compression.ch_size.get(LE);
    *bytes_left = bytes_left.checked_sub(uncompressed_size).ok_or(damaged.clone())?;
    CompressedData { format, data: packed, uncompressed_size }.decompress().map_err(|_| damaged)
}
