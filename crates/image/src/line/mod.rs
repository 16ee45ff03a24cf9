//! Source lines, inlined functions and discriminators, from DWARF.
//!
//! `addr2line` finds the functions and lines of an address and reads only the units that are asked
//! for. What it does not say, the line at which a function begins and discriminators, is read from
//! the same entries by [`Entries`].
//!
//! Only the sections that line lookup reads are loaded; they are borrowed from the file where they
//! are not compressed. What compressed sections claim to unpack to is limited to a multiple of the
//! file before anything is allocated.

mod entries;

use self::entries::{Entries, Slice};
use crate::elf::Elf;
use crate::name::demangle;
use crate::problem::Problems;
use crate::{Error, Svma};
use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::LittleEndian as LE;
use object::elf;
use object::read::{CompressedData, CompressionFormat};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// All debug sections together may unpack to this many times the file's size.
const MAX_UNPACKING: u64 = 32;

/// Most frames reported for one address; inlining in real programs is a few dozen deep.
const MAX_INLINE_DEPTH: usize = 1 << 10;

/// The debug sections of a file.
#[derive(Debug)]
pub struct LineSections<'data> {
    own: DwarfSections<Cow<'data, [u8]>>,
    alternate: Option<DwarfSections<Cow<'data, [u8]>>>,
}

/// Addresses to source lines, quickest in ascending order.
pub struct LineTable<'a> {
    context: Context<Slice<'a>>,
    entries: RefCell<Entries<'a>>,
    /// Demangled names: names recur at thousands of addresses.
    readable_names: RefCell<FxHashMap<String, String>>,
}

/// A function, perhaps inlined, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Readable name.
    pub function: Option<String>,
    /// Name as the linker knows it.
    pub linkage_name: Option<String>,
    /// Path of the source file as the compiler recorded it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// Discriminator, which tells apart the blocks of one line; 0 if there is none.
    pub discriminator: u32,
    /// Line at which the function begins, from 1.
    pub function_line: Option<u32>,
}

impl<'data> LineSections<'data> {
    /// Reads the sections of an image or debug file, and of the alternate file that it names, if
    /// there is one.
    ///
    /// # Errors
    /// If the file has no line table, or a section cannot be unpacked.
    pub fn read(data: &'data [u8], alternate: Option<&'data [u8]>) -> Result<LineSections<'data>, Error> {
        let own = load(data)?;
        if !LineSections::are_in(data) {
            return Err(Error::NoLines);
        }
        Ok(LineSections { own, alternate: alternate.map(load).transpose()? })
    }

    /// Returns whether a file has line tables, without reading them.
    #[must_use]
    pub fn are_in(data: &[u8]) -> bool {
        Elf::parse(data, &mut Problems::default())
            .is_ok_and(|elf| find(&elf, SectionId::DebugLine.name()).is_some_and(|found| !found.bytes.is_empty()))
    }

    /// Returns the table that the sections have.
    ///
    /// # Errors
    /// If the debugging information is malformed.
    pub fn table(&self) -> Result<LineTable<'_>, Error> {
        let dwarf =
            Arc::new(self.own.borrow_with_sup(self.alternate.as_ref(), |bytes| EndianSlice::new(bytes, LittleEndian)));
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf)).map_err(Error::Dwarf)?;
        Ok(LineTable { context, entries: RefCell::new(Entries::new(dwarf)), readable_names: RefCell::default() })
    }
}

impl LineTable<'_> {
    /// Returns the frames at an address, the innermost inlined function first; none where the
    /// compiler recorded nothing.
    #[must_use]
    pub fn frames_at(&self, Svma(address): Svma) -> Vec<SourceFrame> {
        let mut frames = Vec::new();
        // The lookup computes the address after the one asked for.
        if address == u64::MAX {
            return frames;
        }
        let Ok(mut found) = self.context.find_frames(address).skip_all_loads() else { return frames };
        let mut entries = self.entries.borrow_mut();
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads();
        let mut discriminator = unit.map_or(0, |unit| entries.line_discriminator(unit, address));
        while frames.len() < MAX_INLINE_DEPTH
            && let Ok(Some(frame)) = found.next()
        {
            let facts = unit.zip(frame.dw_die_offset).map(|(unit, entry)| entries.function_facts(unit, entry));
            let facts = facts.unwrap_or_default();
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref();
            frames.push(SourceFrame {
                function: name.as_deref().map(|name| self.readable(name)),
                linkage_name: name.map(Cow::into_owned),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).filter(|&line| line > 0),
                column: location.and_then(|location| location.column).filter(|&column| column > 0),
                // The line of a caller is that of the call that was inlined.
                discriminator: std::mem::replace(&mut discriminator, facts.call_discriminator),
                function_line: Some(facts.line).filter(|&line| line > 0),
            });
        }
        frames
    }

    fn readable(&self, linkage_name: &str) -> String {
        let mut known = self.readable_names.borrow_mut();
        if let Some(name) = known.get(linkage_name) {
            return name.clone();
        }
        let name = demangle(linkage_name);
        known.insert(linkage_name.to_owned(), name.clone());
        name
    }
}

impl fmt::Debug for LineTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineTable").finish_non_exhaustive()
    }
}

fn load(data: &[u8]) -> Result<DwarfSections<Cow<'_, [u8]>>, Error> {
    let elf = Elf::parse(data, &mut Problems::default())?;
    let mut bytes_left = (data.len() as u64).saturating_mul(MAX_UNPACKING);
    DwarfSections::load(|id| {
        let found = is_line_section(id.name()).then(|| find(&elf, id.name())).flatten();
        found.map_or(Ok(Cow::default()), |found| found.unpacked(id.name(), &mut bytes_left))
    })
}

/// Whether a section of this name is read for source lines and inlined functions; others need not
/// be unpacked.
fn is_line_section(name: &str) -> bool {
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

/// A section as it lies in the file.
struct Found<'data> {
    bytes: &'data [u8],
    packing: Packing,
}

enum Packing {
    None,
    /// By the header of the format.
    Header,
    /// As GNU tools packed sections before the format had a header; the name begins with `.z`.
    Gnu,
}

fn find<'data>(elf: &Elf<'data>, name: &str) -> Option<Found<'data>> {
    let Some((header, bytes)) = elf.section_named(name) else {
        let (_, bytes) = elf.section_named(&name.replacen(".debug_", ".zdebug_", 1))?;
        return Some(Found { bytes, packing: Packing::Gnu });
    };
    let is_packed = header.sh_flags.get(LE).contains(elf::SHF_COMPRESSED);
    Some(Found { bytes, packing: if is_packed { Packing::Header } else { Packing::None } })
}

impl<'data> Found<'data> {
    fn unpacked(self, section: &'static str, bytes_left: &mut u64) -> Result<Cow<'data, [u8]>, Error> {
        let damaged = Error::Compressed { section };
        let (format, data, uncompressed_size) = match self.packing {
            Packing::None => return Ok(Cow::Borrowed(self.bytes)),
            Packing::Header => {
                let (header, data) = object::pod::from_bytes::<elf::CompressionHeader64<LE>>(self.bytes)
                    .map_err(|()| damaged.clone())?;
                let format = match header.ch_type.get(LE) {
                    elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
                    elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
                    _ => return Err(damaged),
                };
                (format, data, header.ch_size.get(LE))
            }
            Packing::Gnu => {
                let rest = self.bytes.strip_prefix(b"ZLIB").ok_or(damaged.clone())?;
                let (size, data) = rest.split_first_chunk().ok_or(damaged.clone())?;
                (CompressionFormat::Zlib, data, u64::from_be_bytes(*size))
            }
        };
        *bytes_left = bytes_left.checked_sub(uncompressed_size).ok_or(damaged.clone())?;
        CompressedData { format, data, uncompressed_size }.decompress().map_err(|_| damaged)
    }
}
