//! Frames: what `.eh_frame` says about each stretch of code.
//!
//! The table is found by its section or, without section headers, through `PT_GNU_EH_FRAME`. It is
//! walked entry by entry here, and only the insides of an entry are left to gimli, so that one bad
//! entry costs that entry and not the rest. An entry may only refer to a common entry met earlier
//! in the walk; that is what the format demands, and it keeps the cost linear.
//!
//! Frames are disjoint and sorted. An unwinder takes the last entry that starts at or before an
//! address, so of two entries with one start the first is kept, and an entry that runs into the
//! next is cut there.

use crate::address::find_range;
use crate::elf::Elf;
use crate::memory::{CodeRegion, Memory};
use crate::problem::{ProblemKind, Problems};
use crate::relocation::Relocations;
use crate::{Svma, SvmaRange};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, LittleEndian, UnwindSection};
use object::LittleEndian as LE;
use object::elf;

pub(crate) type Reader<'data> = EndianSlice<'data, LittleEndian>;
type CommonEntry<'data> = gimli::CommonInformationEntry<Reader<'data>>;
type FrameEntry<'data> = gimli::FrameDescriptionEntry<Reader<'data>>;

/// A stretch of code with one unwind description: a function, a part of one, or a whole linkage
/// table.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The code described.
    pub range: SvmaRange,
    /// Address of its exception table.
    pub lsda: Option<Svma>,
    /// Whether exceptions passing through call a personality routine.
    pub has_personality: bool,
    /// Whether it is the trampoline that a signal handler returns to.
    pub is_signal_trampoline: bool,
    entry_offset: usize,
}

/// The frames of an image over the bytes of its unwind table.
#[derive(Debug, Default)]
pub(crate) struct FrameTable<'data> {
    section: &'data [u8],
    bases: BaseAddresses,
    frames: Vec<Frame>,
}

impl<'data> FrameTable<'data> {
    pub(crate) fn parse(
        elf: &Elf<'data>,
        memory: &Memory<'data>,
        code: &[CodeRegion<'data>],
        relocations: &Relocations<'data>,
        problems: &mut Problems,
    ) -> FrameTable<'data> {
        let Some((at, section)) = by_section(elf).or_else(|| by_segment(elf, memory)) else {
            return FrameTable::default();
        };
        let text = code.iter().find(|region| region.name == ".text").or(code.first());
        let mut bases = BaseAddresses::default().set_eh_frame(at.0);
        if let Some(text) = text {
            bases = bases.set_text(text.range.start.0);
        }
        let mut table = FrameTable { section, bases, frames: Vec::new() };
        let pointer_at = |slot| relocations.relative_at(slot).or_else(|| memory.word(slot).map(Svma));
        table.walk(at, code, pointer_at, problems);
        table.frames.sort_by_key(|frame| (frame.range.start, frame.entry_offset));
        table.make_disjoint(problems);
        table
    }

    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(crate) fn at(&self, address: Svma) -> Option<&Frame> {
        self.frames.get(find_range(&self.frames, address, |frame| frame.range)?)
    }

    pub(crate) fn bases(&self) -> &BaseAddresses {
        &self.bases
    }

    pub(crate) fn eh_frame(&self) -> EhFrame<Reader<'data>> {
        EhFrame::new(self.section, LittleEndian)
    }

    /// The full entry of a frame.
    pub(crate) fn entry(&self, frame: &Frame) -> Result<FrameEntry<'data>, gimli::Error> {
        let section = self.eh_frame();
        section.fde_from_offset(&self.bases, EhFrameOffset(frame.entry_offset), EhFrame::cie_from_offset)
    }

    fn walk(
        &mut self,
        at: Svma,
        code: &[CodeRegion<'_>],
        pointer_at: impl Fn(Svma) -> Option<Svma>,
        problems: &mut Problems,
    ) {
        let section = self.eh_frame();
        let mut common: Vec<(usize, CommonEntry<'data>)> = Vec::new();
        let mut offset = 0;
        while offset < self.section.len() {
            let (is_common, next) = match entry_extent(self.section, offset) {
                Extent::Entry { is_common, next } => (is_common, next),
                Extent::Terminator => break,
                Extent::CutOff => {
                    problems.add(ProblemKind::FrameTable);
                    break;
                }
            };
            if is_common {
                match section.cie_from_offset(&self.bases, EhFrameOffset(offset)) {
                    Ok(entry) => common.push((offset, entry)),
                    Err(_) => problems.add(ProblemKind::FrameInvalid),
                }
            } else {
                let entry = section.fde_from_offset(&self.bases, EhFrameOffset(offset), |_, _, wanted| {
                    let found = common.binary_search_by_key(&wanted.0, |&(offset, _)| offset);
                    let entry = found.ok().and_then(|index| common.get(index));
                    entry.map(|(_, entry)| entry.clone()).ok_or(gimli::Error::NotCieId(wanted.0 as u64))
                });
                match entry.map(|entry| self.frame(&entry, at, code, &pointer_at)) {
                    Ok(Some(frame)) => self.frames.push(frame),
                    Ok(None) => problems.add(ProblemKind::FrameOutside),
                    Err(_) => problems.add(ProblemKind::FrameInvalid),
                }
            }
            offset = next;
        }
    }

    fn frame(
        &self,
        entry: &FrameEntry<'_>,
        at: Svma,
        code: &[CodeRegion<'_>],
        pointer_at: impl Fn(Svma) -> Option<Svma>,
    ) -> Option<Frame> {
        let start = Svma(entry.initial_address());
        let region = code.get(find_range(code, start, |region| region.range)?)?;
        let end = SvmaRange::at(start, entry.len())?.end.min(region.range.end);
        let table = SvmaRange::at(at, self.section.len() as u64)?;
        let lsda = match entry.lsda() {
            Some(gimli::Pointer::Direct(address)) => Some(Svma(address)),
            Some(gimli::Pointer::Indirect(slot)) => pointer_at(Svma(slot)),
            None => None,
        };
        let range = SvmaRange { start, end };
        (!range.is_empty()).then_some(Frame {
            range,
            // A null pointer in a position-relative encoding looks like a pointer to itself.
            lsda: lsda.filter(|&lsda| lsda != Svma(0) && !table.contains(lsda)),
            has_personality: entry.personality().is_some(),
            is_signal_trampoline: entry.is_signal_trampoline(),
            entry_offset: entry.offset(),
        })
    }

    fn make_disjoint(&mut self, problems: &mut Problems) {
        self.frames.dedup_by(|later, earlier| {
            let is_duplicate = later.range.start == earlier.range.start;
            if is_duplicate {
                problems.add(ProblemKind::FrameDuplicate);
            } else if earlier.range.end > later.range.start {
                earlier.range.end = later.range.start;
                problems.add(ProblemKind::FrameOverlap);
            }
            is_duplicate
        });
    }
}

enum Extent {
    Entry { is_common: bool, next: usize },
    Terminator,
    CutOff,
}

/// Length and kind of the entry at `offset`: a 32-bit length, or an escape and a 64-bit one, then
/// an id that is 0 in common entries.
fn entry_extent(section: &[u8], offset: usize) -> Extent {
    let read = || {
        let (len, rest) = section.get(offset..)?.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        if len == 0 {
            return Some(Extent::Terminator);
        }
        let (len, rest) = if len == u32::MAX {
            let (len, rest) = rest.split_first_chunk::<8>()?;
            (usize::try_from(u64::from_le_bytes(*len)).ok()?, rest)
        } else {
            (len as usize, rest)
        };
        let body = rest.get(..len)?;
        let (id, _) = body.split_first_chunk::<4>()?;
        Some(Extent::Entry { is_common: *id == [0; 4], next: section.len() - rest.len() + len })
    };
    read().unwrap_or(Extent::CutOff)
}

fn by_section<'data>(elf: &Elf<'data>) -> Option<(Svma, &'data [u8])> {
    let (header, bytes) = elf.section_named(".eh_frame")?;
    Some((Svma(header.sh_addr.get(LE)), bytes))
}

fn by_segment<'data>(elf: &Elf<'data>, memory: &Memory<'data>) -> Option<(Svma, &'data [u8])> {
    let header = elf.program_header(elf::PT_GNU_EH_FRAME)?;
    let at = Svma(header.p_vaddr.get(LE));
    let bytes = memory.table(at, header.p_memsz.get(LE))?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(at.0);
    let parsed = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
    let at = Svma(parsed.eh_frame_ptr().direct().ok()?);
    Some((at, memory.tail(at)?))
}
