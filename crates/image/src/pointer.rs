//! Pointers stored in the image.
//!
//! In a position-independent image every stored address has a relocation, so that the relocations
//! are all pointers there are. An image at fixed addresses has none, and any word may be one: all
//! aligned words of its data are looked at, except in tables whose words are known to mean
//! something else.

use crate::Svma;
use crate::elf::records;
use crate::image::{Image, ImageKind};
use crate::relocation::Binder;
use object::LittleEndian as LE;

impl Image<'_> {
    /// The pointer stored at `at` once the image is loaded, as an address of this module. `None`
    /// where no pointer is known to be: in a position-independent image every pointer has a
    /// relocation. In an image at fixed addresses it is the word itself.
    pub fn pointer_at(&self, at: Svma) -> Option<Svma> {
        if let Some(target) = self.relocations.relative_at(at) {
            return Some(target);
        }
        match self.relocations.bound_at(at) {
            Some(by) => self.relocations.definition(by),
            None if self.kind() == ImageKind::Executable => self.memory.word(at).map(Svma),
            None => None,
        }
    }

    /// Every word in data that points to code, as (location, target), sorted by location. Exact in
    /// a position-independent image; in one at fixed addresses every aligned word that looks like a
    /// code address counts.
    pub fn code_pointers(&self) -> Vec<(Svma, Svma)> {
        let relative = self.relocations.relative().iter().copied();
        let bound = self.relocations.bound().iter().filter(|bound| !is_plt_slot(bound.by));
        let bound = bound.filter_map(|bound| Some((bound.at, self.relocations.definition(bound.by)?)));
        let mut pointers: Vec<(Svma, Svma)> = relative.chain(bound).collect();
        if self.kind() == ImageKind::Executable {
            scan_words(self, &mut pointers);
        }
        pointers.retain(|&(_, target)| self.is_code(target));
        pointers.sort_unstable();
        pointers.dedup_by_key(|&mut (at, _)| at);
        pointers
    }
}

fn is_plt_slot(by: Binder) -> bool {
    matches!(by, Binder::Symbol { is_plt_slot: true, .. })
}

fn scan_words(image: &Image<'_>, pointers: &mut Vec<(Svma, Svma)>) {
    let (Some(first), Some(last)) = (image.code.first(), image.code.last()) else { return };
    let span = first.range.start.0..last.range.end.0;
    let mut scan = |start: Svma, bytes: &[u8]| {
        let misaligned = (start.0.wrapping_neg() & 7) as usize;
        let words = records::<object::U64<LE>>(bytes.get(misaligned..).unwrap_or_default());
        for (index, word) in words.iter().enumerate() {
            let value = word.get(LE);
            let at = start.offset((misaligned + index * 8) as u64);
            if span.contains(&value) && image.is_code(Svma(value)) && image.relocations.bound_at(at).is_none() {
                pointers.push((at, Svma(value)));
            }
        }
    };
    if image.sections.is_empty() {
        for segment in image.segments().iter().filter(|segment| !segment.permissions.execute) {
            scan(segment.range.start, image.memory.segment_bytes(segment));
        }
        return;
    }
    let is_data = |section: &&crate::Section<'_>| {
        section.is_allocated && !section.is_executable && section.is_program_data && !is_table(section.name)
    };
    // Sections may claim the same bytes again and again; what lies before `end` has been looked at.
    let mut sections: Vec<_> = image.sections.iter().filter(is_data).map(|section| section.range).collect();
    sections.sort();
    let mut end = Svma(0);
    for range in sections {
        let start = range.start.max(end);
        if start < range.end {
            scan(start, image.memory.table(start, range.end - start).unwrap_or_default());
            end = range.end;
        }
    }
}

/// Sections whose words are no pointers although some look like it.
fn is_table(name: &str) -> bool {
    [".eh_frame", ".gcc_except_table", ".note", ".interp", ".stapsdt"].iter().any(|prefix| name.starts_with(prefix))
}
