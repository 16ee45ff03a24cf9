//! Notes of a file: the one that has its build-id.

use crate::BuildId;
use crate::elf::Elf;
use object::LittleEndian as LE;
use object::elf;

/// Returns the build-id of a file, from its own section or from any note segment.
pub(crate) fn build_id(elf: &Elf<'_>) -> Option<BuildId> {
    let by_section = elf.section_named(".note.gnu.build-id").and_then(|(_, bytes)| find_note(bytes, 4));
    by_section.or_else(|| {
        let notes = elf.program_headers.iter().filter(|header| header.p_type.get(LE) == elf::PT_NOTE);
        notes.take(16).find_map(|header| {
            let start = usize::try_from(header.p_offset.get(LE)).ok()?;
            let len = usize::try_from(header.p_filesz.get(LE)).ok()?;
            let bytes = elf.data.get(start..start.checked_add(len)?)?;
            find_note(bytes, if header.p_align.get(LE) == 8 { 8 } else { 4 })
        })
    })
}

/// A note is three 32-bit words (name length, content length, type), the name and the content, each
/// padded.
fn find_note(mut notes: &[u8], align: usize) -> Option<BuildId> {
    loop {
        let (name_len, rest) = notes.split_first_chunk::<4>()?;
        let (content_len, rest) = rest.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first_chunk::<4>()?;
        let name_len = u32::from_le_bytes(*name_len) as usize;
        let content_len = u32::from_le_bytes(*content_len) as usize;
        let content_at = name_len.checked_next_multiple_of(align.min(4))?;
        let content = rest.get(content_at..)?.get(..content_len)?;
        let is_build_id = elf::NoteType(u32::from_le_bytes(*kind)) == elf::NT_GNU_BUILD_ID;
        if is_build_id && rest.starts_with(elf::ELF_NOTE_GNU) && name_len == 4 {
            return BuildId::new(content);
        }
        notes = rest.get(content_at.checked_add(content_len)?.checked_next_multiple_of(align)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [name.len() as u32, content.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(name);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn build_id_is_found_behind_other_notes() {
        let mut notes = note(b"GNU\0", 1, &[0; 16]);
        notes.extend(note(b"GNU\0", 3, &[0xab, 0xcd, 0xef, 0x01]));
        let found = find_note(&notes, 4).unwrap();
        assert_eq!(found.to_string(), "abcdef01");
        assert_eq!(found.debug_path(), ".build-id/ab/cdef01.debug");
    }

    #[test]
    fn lying_lengths_end_the_search() {
        let mut notes = note(b"GNU\0", 3, &[1, 2, 3, 4]);
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(find_note(&notes, 4), None);
        assert_eq!(find_note(&note(b"GNU\0", 3, &[1]), 4), None);
    }
}
