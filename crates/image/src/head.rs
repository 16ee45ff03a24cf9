//! The head of an ELF file: what kind it is, and what its segments are.
//!
//! Enough to tell whether a program can be recorded at all, and to tell from a mapping where the
//! rest of its module is, without the whole file. The caller reads it.

use std::io;
use std::ops::Range;

/// Size of a page.
const PAGE: u64 = 4096;
/// Most program headers that are looked at.
const MAX_HEADERS: u16 = 256;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PF_X: u32 = 1;

const EM_X86_64: u16 = 62;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// What the start of a file says.
#[derive(Debug, PartialEq, Eq)]
pub enum Identity {
    /// Not ELF.
    Other,
    /// ELF of 32 bits.
    Bits32,
    /// ELF of 64 bits, but for another machine, or not something to execute.
    Foreign {
        /// Its ELF machine number.
        machine: u16,
    },
    /// A program or shared object for x86-64.
    Native(Segments),
}

/// The segments of a program or shared object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// The parts of the file that are mapped.
    pub loads: Vec<Load>,
    /// Where the path of the dynamic linker is in the file.
    pub interpreter: Option<Range<u64>>,
}

/// A part of the file that is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Where it is in the file.
    pub offset: u64,
    /// Its address, as stated in the file.
    pub address: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// It has code.
    pub is_executable: bool,
}

impl Segments {
    /// Returns the first address of the image, as stated in the file, rounded down to a page.
    #[must_use]
    pub fn image_base(&self) -> u64 {
        self.loads.iter().map(|load| page_down(load.address)).min().unwrap_or(0)
    }

    /// Returns the end of the image, as stated in the file, rounded up to a page.
    #[must_use]
    pub fn image_end(&self) -> u64 {
        let end = |load: &Load| load.address.saturating_add(load.memory_bytes).checked_next_multiple_of(PAGE);
        self.loads.iter().filter_map(end).max().unwrap_or(0)
    }
}

impl Load {
    /// Returns how far the image has been moved, if this segment is what is mapped at `start` from
    /// offset `offset`.
    #[must_use]
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let first = page_down(self.offset);
        let last = self.offset.checked_add(self.file_bytes)?;
        let into = offset.checked_sub(first).filter(|_| offset < last)?;
        Some(start.wrapping_sub(page_down(self.address).wrapping_add(into)))
    }
}

/// Fills a buffer with what is at an offset of a file. Returns the number of bytes, which is less
/// than the buffer has only where the file ends.
pub type Read<'a> = dyn FnMut(&mut [u8], u64) -> io::Result<usize> + 'a;

/// Returns what the head of a file says.
///
/// # Errors
/// When the file cannot be read.
pub fn identify(read: &mut Read<'_>) -> io::Result<Identity> {
    let mut header = [0; HEADER_BYTES];
    let n = read(&mut header, 0)?;
    let header = &header[..n];
    if !header.starts_with(b"\x7fELF") {
        return Ok(Identity::Other);
    }
    if header.get(4) == Some(&1) {
        return Ok(Identity::Bits32);
    }
    let machine = u16_at(header, 18).unwrap_or(0);
    let kind = u16_at(header, 16).unwrap_or(0);
    let is_little_endian = header.get(5) == Some(&1);
    if machine != EM_X86_64 || !is_little_endian || !matches!(kind, ET_EXEC | ET_DYN) {
        return Ok(Identity::Foreign { machine });
    }
    Ok(segments(read, header)?.map_or(Identity::Other, Identity::Native))
}

fn segments(read: &mut Read<'_>, header: &[u8]) -> io::Result<Option<Segments>> {
    let (Some(at), Some(each), Some(n)) = (u64_at(header, 32), u16_at(header, 54), u16_at(header, 56)) else {
        return Ok(None);
    };
    if each != PROGRAM_HEADER_BYTES || n > MAX_HEADERS {
        return Ok(None);
    }
    let mut table = vec![0; usize::from(each) * usize::from(n)];
    let n_read = read(&mut table, at)?;
    if n_read < table.len() {
        return Ok(None);
    }
    let mut segments = Segments::default();
    for entry in table.chunks_exact(usize::from(each)) {
        add(&mut segments, entry);
    }
    Ok(Some(segments))
}

fn add(segments: &mut Segments, entry: &[u8]) -> Option<()> {
    let kind = u32_at(entry, 0)?;
    let load = Load {
        is_executable: u32_at(entry, 4)? & PF_X != 0,
        offset: u64_at(entry, 8)?,
        address: u64_at(entry, 16)?,
        file_bytes: u64_at(entry, 32)?,
        memory_bytes: u64_at(entry, 40)?,
    };
    match kind {
        PT_LOAD => segments.loads.push(load),
        PT_INTERP => segments.interpreter = Some(load.offset..load.offset.checked_add(load.file_bytes)?),
        _ => {}
    }
    Some(())
}

fn page_down(address: u64) -> u64 {
    address / PAGE * PAGE
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..)?.first_chunk().copied()
}

fn u16_at(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_le_bytes)
}

fn u32_at(from: &[u8], at: usize) -> Option<u32> {
    bytes(from, at).map(u32::from_le_bytes)
}

fn u64_at(from: &[u8], at: usize) -> Option<u64> {
    bytes(from, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identify_bytes(bytes: &[u8]) -> Identity {
        let mut read = |buffer: &mut [u8], at: u64| {
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let n = rest.len().min(buffer.len());
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        };
        identify(&mut read).unwrap()
    }

    #[test]
    fn this_test_program() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let Identity::Native(segments) = identify_bytes(&bytes) else { panic!("the test program is not ELF") };
        assert!(segments.interpreter.is_some());
        assert!(segments.loads.iter().any(|load| load.is_executable));
        assert!(segments.image_base() < segments.image_end());
    }

    #[test]
    fn bias_of_a_segment_that_shares_a_page_with_the_one_before() {
        let text = Load { offset: 0x560, address: 0x1560, file_bytes: 0x200, memory_bytes: 0x200, is_executable: true };
        assert_eq!(text.bias(0x5555_0000_1000, 0), Some(0x5555_0000_0000));
        assert_eq!(text.bias(0x5555_0000_1000, 0x1000), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [b"\x7fELF\x02\x01", &tail[..]].concat();
            if let Identity::Native(segments) = identify_bytes(&bytes) {
                std::hint::black_box(segments.image_end());
                for load in &segments.loads {
                    let bias = load.bias(0x1000, 0x1000);
                    prop_assert!(bias.is_none_or(|bias| bias.is_multiple_of(0x1000)));
                }
            }
        }
    }
}
