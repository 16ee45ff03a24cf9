//! Frames of addresses from DWARF: functions, what was inlined into them, and lines.
//!
//! `addr2line` finds the functions and lines of an address and reads only the units that are asked
//! for. What it does not tell, the line at which a function begins and discriminators, is read from
//! the same entries by [`Entries`].
//!
//! Sections are borrowed from the file where they are not compressed. What compressed ones claim to
//! unpack to is limited to a multiple of the file before anything is allocated. Nothing here fails:
//! what cannot be read is unknown.

use std::borrow::Cow;
use std::sync::Arc;

use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};
use profile::symbols::SourceFrame;
use rustc_hash::FxHashMap;

use crate::entries::{Entries, Slice};

/// All debug sections together may unpack to this many times the file's size.
const MAX_UNPACKING: u64 = 32;

/// Most frames reported for one address; inlining in real programs is a few dozen deep.
const MAX_INLINE_DEPTH: usize = 1 << 10;

/// The debug sections of a file.
#[derive(Debug)]
pub struct DebugSections<'data> {
    own: DwarfSections<Cow<'data, [u8]>>,
    alternate: Option<DwarfSections<Cow<'data, [u8]>>>,
}

impl<'data> DebugSections<'data> {
    /// The sections of `file` and of the file shared between debug files that it names; nothing if
    /// it has no line tables.
    pub fn load(file: &'data [u8], alternate: Option<&'data [u8]>) -> Option<DebugSections<'data>> {
        let own = has_lines(file).then(|| load(file))??;
        Some(DebugSections { own, alternate: alternate.and_then(load) })
    }
}

/// Whether an ELF file has line tables.
pub fn has_lines(file: &[u8]) -> bool {
    let elf = ElfFile64::<object::LittleEndian>::parse(file).ok();
    let lines = elf.as_ref().and_then(|elf| elf.section_by_name(SectionId::DebugLine.name()));
    lines.is_some_and(|lines| lines.size() > 0)
}

fn load(file: &[u8]) -> Option<DwarfSections<Cow<'_, [u8]>>> {
    let elf = ElfFile64::<object::LittleEndian>::parse(file).ok()?;
    let mut bytes_left = (file.len() as u64).saturating_mul(MAX_UNPACKING);
    let section = |id: SectionId| -> Result<Cow<'_, [u8]>, ()> {
        let mut unpack = || {
            let packed = elf.section_by_name(id.name())?.compressed_data().ok()?;
            bytes_left = bytes_left.checked_sub(packed.uncompressed_size)?;
            packed.decompress().ok()
        };
        Ok(if image::is_line_section(id.name()) { unpack().unwrap_or_default() } else { Cow::default() })
    };
    DwarfSections::load(section).ok()
}

/// Answers about addresses, quickest in ascending order.
pub struct DebugInfo<'a> {
    context: Context<Slice<'a>>,
    entries: Entries<'a>,
    readable_names: FxHashMap<String, String>,
}

impl<'a> DebugInfo<'a> {
    pub fn new(sections: &'a DebugSections<'_>) -> Option<DebugInfo<'a>> {
        let borrow = |bytes: &'a Cow<'_, [u8]>| EndianSlice::new(bytes, LittleEndian);
        let dwarf = Arc::new(sections.own.borrow_with_sup(sections.alternate.as_ref(), borrow));
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf)).ok()?;
        Some(DebugInfo { context, entries: Entries::new(dwarf), readable_names: FxHashMap::default() })
    }

    /// The frames at an address, innermost first; empty where the compiler recorded nothing.
    pub fn frames_at(&mut self, address: u64) -> Vec<SourceFrame> {
        let mut frames = Vec::new();
        // The lookup computes the address after the one asked for.
        if address == u64::MAX {
            return frames;
        }
        let Ok(mut found) = self.context.find_frames(address).skip_all_loads() else { return frames };
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads();
        let mut discriminator = unit.map_or(0, |unit| self.entries.line_discriminator(unit, address));
        while frames.len() < MAX_INLINE_DEPTH
            && let Ok(Some(frame)) = found.next()
        {
            let facts = unit.zip(frame.dw_die_offset).map(|(unit, entry)| self.entries.function_facts(unit, entry));
            let facts = facts.unwrap_or_default();
            let linkage_name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let linkage_name = linkage_name.unwrap_or_default().into_owned();
            let location = frame.location.as_ref();
            frames.push(SourceFrame {
                function: readable(&mut self.readable_names, &linkage_name),
                linkage_name,
                file: location.and_then(|location| location.file).unwrap_or_default().to_owned(),
                line: location.and_then(|location| location.line).unwrap_or(0),
                discriminator: std::mem::replace(&mut discriminator, facts.call_discriminator),
                function_line: facts.line,
            });
        }
        frames
    }
}

/// Names recur at thousands of addresses.
fn readable(known: &mut FxHashMap<String, String>, linkage_name: &str) -> String {
    if let Some(name) = known.get(linkage_name) {
        return name.clone();
    }
    let name = image::demangle(linkage_name);
    known.insert(linkage_name.to_owned(), name.clone());
    name
}

impl std::fmt::Debug for DebugInfo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo").finish_non_exhaustive()
    }
}
