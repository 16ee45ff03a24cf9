//! The image as it lies in memory: loadable segments, the code in them, and reading by address.
//!
//! What the loader maps is the truth; section headers only say where code starts and ends inside
//! it. Segments and code regions are kept sorted and disjoint, so that an address belongs to at
//! most one and is found by binary search. A segment that overlaps an earlier one is left out, and
//! so is one that maps file bytes again and again: together the segments stay within a small
//! multiple of the file's size, whatever the headers claim.

use crate::address::find_range;
use crate::elf::{Elf, ProgramHeader, Section};
use crate::problem::{ProblemKind, Problems};
use crate::{Svma, SvmaRange};
use object::LittleEndian as LE;
use object::elf;
use std::ops::Range;

/// Mapped bytes may be this many times the file's length.
const MAX_ALIASING: u64 = 4;

/// A loadable segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Addresses it occupies in memory.
    pub range: SvmaRange,
    /// Bytes of the file at its start; the rest of `range` is zero.
    pub file_range: Range<u64>,
    /// What the program may do there.
    pub permissions: Permissions,
}

/// Access rights of a segment.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

/// A stretch of executable bytes.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct CodeRegion<'data> {
    /// Name of the section, or empty when the file has no section headers.
    pub name: &'data str,
    /// Addresses of the bytes.
    pub range: SvmaRange,
    /// The bytes, as many as `range` is long.
    pub bytes: &'data [u8],
}

/// The loadable segments over the file's bytes.
#[derive(Debug)]
pub(crate) struct Memory<'data> {
    data: &'data [u8],
    segments: Vec<Segment>,
}

impl<'data> Memory<'data> {
    pub(crate) fn new(elf: &Elf<'data>, problems: &mut Problems) -> Memory<'data> {
        let file_len = elf.data.len() as u64;
        let loads = elf.program_headers.iter().filter(|header| header.p_type.get(LE) == elf::PT_LOAD);
        let mut segments: Vec<Segment> = loads.filter_map(|header| segment(header, file_len, problems)).collect();
        segments.sort_by_key(|segment| segment.range.start);
        let mut end = Svma(0);
        let mut mapped_bytes = 0u64;
        segments.retain(|segment| {
            let file_bytes = segment.file_range.end - segment.file_range.start;
            let fits = segment.range.start >= end
                && mapped_bytes.saturating_add(file_bytes) <= file_len.saturating_mul(MAX_ALIASING);
            if fits {
                end = segment.range.end;
                mapped_bytes = mapped_bytes.saturating_add(file_bytes);
            } else {
                problems.add(ProblemKind::SegmentInvalid);
            }
            fits
        });
        Memory { data: elf.data, segments }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn segment_of(&self, at: Svma) -> Option<&Segment> {
        self.segments.get(find_range(&self.segments, at, |segment| segment.range)?)
    }

    /// The file-backed bytes from `at` to the end of its segment.
    pub(crate) fn tail(&self, at: Svma) -> Option<&'data [u8]> {
        let segment = self.segment_of(at)?;
        let start = segment.file_range.start.checked_add(at - segment.range.start)?;
        self.data.get(usize::try_from(start).ok()?..usize::try_from(segment.file_range.end).ok()?)
    }

    pub(crate) fn read(&self, at: Svma, len: usize) -> Option<&'data [u8]> {
        self.tail(at)?.get(..len)
    }

    pub(crate) fn word(&self, at: Svma) -> Option<u64> {
        Some(u64::from_le_bytes(self.read(at, 8)?.try_into().ok()?))
    }

    /// The table of `len` bytes at `at`, cut to what is there.
    pub(crate) fn table(&self, at: Svma, len: u64) -> Option<&'data [u8]> {
        let tail = self.tail(at)?;
        Some(usize::try_from(len).ok().and_then(|len| tail.get(..len)).unwrap_or(tail))
    }

    /// The file-backed bytes of one segment.
    pub(crate) fn segment_bytes(&self, segment: &Segment) -> &'data [u8] {
        self.tail(segment.range.start).unwrap_or_default()
    }
}

fn segment(header: &ProgramHeader, file_len: u64, problems: &mut Problems) -> Option<Segment> {
    let mem_len = header.p_memsz.get(LE);
    if mem_len == 0 {
        return None;
    }
    let Some(range) = SvmaRange::at(Svma(header.p_vaddr.get(LE)), mem_len) else {
        problems.add(ProblemKind::SegmentInvalid);
        return None;
    };
    let wanted = header.p_filesz.get(LE).min(mem_len);
    let start = header.p_offset.get(LE).min(file_len);
    let end = start.saturating_add(wanted).min(file_len);
    if end - start < wanted {
        problems.add(ProblemKind::SegmentTruncated);
    }
    let flags = header.p_flags.get(LE);
    let permissions = Permissions {
        read: flags.contains(elf::PF_R),
        write: flags.contains(elf::PF_W),
        execute: flags.contains(elf::PF_X),
    };
    Some(Segment { range, file_range: start..end, permissions })
}

/// Executable sections, or executable segments when there are none.
pub(crate) fn code_regions<'data>(
    memory: &Memory<'data>,
    sections: &[Section<'data>],
    problems: &mut Problems,
) -> Vec<CodeRegion<'data>> {
    let mut regions = section_regions(memory, sections, problems);
    if regions.is_empty() {
        regions = segment_regions(memory);
    }
    regions
}

fn section_regions<'data>(
    memory: &Memory<'data>,
    sections: &[Section<'data>],
    problems: &mut Problems,
) -> Vec<CodeRegion<'data>> {
    let mut regions = Vec::new();
    for section in sections.iter().filter(|section| {
        section.is_allocated && section.is_executable && section.is_program_data && !section.range.is_empty()
    }) {
        let is_mapped = memory.segment_of(section.range.start).is_some_and(|segment| segment.permissions.execute);
        let bytes = usize::try_from(section.range.len()).ok().and_then(|len| memory.read(section.range.start, len));
        match bytes.filter(|_| is_mapped) {
            Some(bytes) => regions.push(CodeRegion { name: section.name, range: section.range, bytes }),
            None => problems.add(ProblemKind::CodeSection),
        }
    }
    regions.sort_by_key(|region| region.range.start);
    let mut end = Svma(0);
    regions.retain(|region| {
        let is_disjoint = region.range.start >= end;
        if is_disjoint {
            end = region.range.end;
        } else {
            problems.add(ProblemKind::CodeSection);
        }
        is_disjoint
    });
    regions
}

fn segment_regions<'data>(memory: &Memory<'data>) -> Vec<CodeRegion<'data>> {
    let executable = memory.segments().iter().filter(|segment| segment.permissions.execute);
    executable
        .filter_map(|segment| {
            let bytes = memory.segment_bytes(segment);
            let range = SvmaRange::at(segment.range.start, bytes.len() as u64)?;
            (!range.is_empty()).then_some(CodeRegion { name: "", range, bytes })
        })
        .collect()
}
