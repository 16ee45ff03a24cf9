//! Damaged ELF files, each a pure function of (base files, seed, index).
//!
//! Half of the strategies know the format: they write boundary values into the fields of headers
//! and of the tables that the parsers trust most (dynamic section, relocations, symbols, unwind and
//! exception tables, debug data, notes). The other half do not: truncation, bit flips, random
//! bytes, splices between files, and files that are random from start to end.

use std::fmt;
use std::ops::Range;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection};

/// A well-formed file to damage, with the places of its structures.
#[derive(Debug)]
pub struct Base {
    bytes: Vec<u8>,
    program_headers: Range<usize>,
    section_headers: Range<usize>,
    /// File ranges of the sections that are tables.
    tables: Vec<Range<usize>>,
    /// File ranges of executable sections.
    code: Vec<Range<usize>>,
}

/// Names, or beginnings of names, of the sections whose content is structure.
const TABLES: [&str; 15] = [
    ".dynamic",
    ".rela",
    ".relr",
    ".dynsym",
    ".symtab",
    ".dynstr",
    ".eh_frame",
    ".gcc_except_table",
    ".note",
    ".gnu_debug",
    ".debug_",
    ".init_array",
    ".fini_array",
    ".plt",
    ".rodata",
];

impl Base {
    /// Finds the structures of `bytes`, which must be a sound ELF64 file.
    pub fn new(bytes: Vec<u8>) -> Result<Base, object::Error> {
        let file = ElfFile64::<Endianness>::parse(bytes.as_slice())?;
        let (header, endian) = (file.elf_header(), file.endian());
        let clip = |start: u64, len: u64| {
            let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
            start..usize::try_from(len).map_or(bytes.len(), |len| start.saturating_add(len).min(bytes.len()))
        };
        let entries = |offset: u64, n: u16, size: u16| clip(offset, u64::from(n) * u64::from(size));
        let program_headers = entries(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian));
        let section_headers = entries(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian));
        let (mut tables, mut code) = (Vec::new(), Vec::new());
        for section in file.sections() {
            let Some((start, len)) = section.file_range() else { continue };
            let name = section.name().unwrap_or_default();
            if len != 0 && TABLES.iter().any(|table| name.starts_with(table)) {
                tables.push(clip(start, len));
            }
            if len != 0 && section.kind() == object::SectionKind::Text {
                code.push(clip(start, len));
            }
        }
        Ok(Base { program_headers, section_headers, tables, code, bytes })
    }
}

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// Cut off the end.
    Truncate,
    /// Flip single bits anywhere.
    FlipBits,
    /// Overwrite a stretch with random bytes, or with one byte.
    Overwrite,
    /// Set a field of the file header.
    FileHeader,
    /// Set a field of a program header.
    ProgramHeader,
    /// Set a field of a section header.
    SectionHeader,
    /// Set fields of tables inside sections.
    Table,
    /// Change instructions.
    Code,
    /// Copy a stretch of another file over this one.
    Splice,
    /// Random bytes from start to end, behind a plausible file header or not.
    Random,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 10] = [
        Strategy::Truncate,
        Strategy::FlipBits,
        Strategy::Overwrite,
        Strategy::FileHeader,
        Strategy::ProgramHeader,
        Strategy::SectionHeader,
        Strategy::Table,
        Strategy::Code,
        Strategy::Splice,
        Strategy::Random,
    ];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Strategy::Truncate => "truncate",
            Strategy::FlipBits => "flip-bits",
            Strategy::Overwrite => "overwrite",
            Strategy::FileHeader => "file-header",
            Strategy::ProgramHeader => "program-header",
            Strategy::SectionHeader => "section-header",
            Strategy::Table => "table",
            Strategy::Code => "code",
            Strategy::Splice => "splice",
            Strategy::Random => "random",
        })
    }
}

/// The input with this seed and index. The first strategy rotates with the index; up to three more
/// are stacked on it.
#[must_use]
pub fn input(bases: &[Base], seed: u64, index: u64) -> (Strategy, Vec<u8>) {
    let mut rng = Rng::new(seed, index);
    let first = Strategy::ALL[(index % Strategy::ALL.len() as u64) as usize];
    let base = &bases[rng.below(bases.len())];
    let mut bytes = base.bytes.clone();
    apply(first, base, bases, &mut bytes, &mut rng);
    if first != Strategy::Random {
        for _ in 0..rng.below(4) {
            let another = Strategy::ALL[rng.below(Strategy::ALL.len() - 1)];
            apply(another, base, bases, &mut bytes, &mut rng);
        }
    }
    (first, bytes)
}

fn apply(strategy: Strategy, base: &Base, bases: &[Base], bytes: &mut Vec<u8>, rng: &mut Rng) {
    const FILE_HEADER: Range<usize> = 0..64;
    match strategy {
        Strategy::Truncate => bytes.truncate(rng.below(bytes.len() + 1)),
        Strategy::FlipBits => {
            for _ in 0..=rng.below(32) {
                if let Some(byte) = rng.pick_mut(bytes) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
        Strategy::Overwrite => {
            let stretch = rng.stretch(bytes.len(), 256);
            let constant = [0x00, 0xff, 0x80][rng.below(3)];
            let random = rng.below(2) == 0;
            for byte in &mut bytes[stretch] {
                *byte = if random { rng.next() as u8 } else { constant };
            }
        }
        Strategy::FileHeader => set_field(bytes, FILE_HEADER, 2, rng),
        Strategy::ProgramHeader => set_field(bytes, base.program_headers.clone(), 4, rng),
        Strategy::SectionHeader => set_field(bytes, base.section_headers.clone(), 4, rng),
        Strategy::Table => {
            for _ in 0..=rng.below(8) {
                if let Some(table) = rng.pick(&base.tables) {
                    set_field(bytes, table.clone(), 1, rng);
                }
            }
        }
        Strategy::Code => {
            for _ in 0..=rng.below(64) {
                if let Some(code) = rng.pick(&base.code)
                    && let Some(byte) = bytes.get_mut(code.start + rng.below(code.len()))
                {
                    *byte = rng.opcode();
                }
            }
        }
        Strategy::Splice => {
            let other = &bases[rng.below(bases.len())].bytes;
            let from = &other[rng.stretch(other.len(), 16 * 1024)];
            let at = rng.below(bytes.len() + 1);
            let len = from.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&from[..len]);
        }
        Strategy::Random => {
            let len = rng.below(8192);
            let header_len = [0, 4, 24, 64][rng.below(4)];
            let mut random: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
            let kept = header_len.min(len).min(bytes.len());
            random[..kept].copy_from_slice(&bytes[..kept]);
            *bytes = random;
        }
    }
}

/// Writes a boundary value, or a value near the old one, into a field of the structure at `place`.
fn set_field(bytes: &mut [u8], place: Range<usize>, alignment: usize, rng: &mut Rng) {
    let width = [1, 2, 4, 8][rng.below(4)];
    let slots = place.len() / alignment;
    if slots == 0 {
        return;
    }
    let at = place.start + rng.below(slots) * alignment;
    let file_len = bytes.len() as u64;
    let Some(field) = bytes.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(field);
    let value = rng.boundary_value(u64::from_le_bytes(old), file_len);
    field.copy_from_slice(&value.to_le_bytes()[..width]);
}

/// SplitMix64: small, fast, and the same on every machine for ever.
struct Rng(u64);

impl Rng {
    fn new(seed: u64, index: u64) -> Rng {
        let mut rng = Rng(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32));
        rng.next();
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % (n.max(1) as u64)) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    fn pick_mut<'a, T>(&mut self, from: &'a mut [T]) -> Option<&'a mut T> {
        let index = self.below(from.len());
        from.get_mut(index)
    }

    fn stretch(&mut self, len: usize, longest: usize) -> Range<usize> {
        let start = self.below(len);
        start..(start + self.below(longest + 1)).min(len)
    }

    fn boundary_value(&mut self, old: u64, file_len: u64) -> u64 {
        match self.below(16) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::MAX - self.next() % 4096,
            4 => i64::MAX as u64,
            5 => 1 << 63,
            6 => u64::from(u32::MAX),
            7 => 1 << 31,
            8 => file_len,
            9 => file_len.wrapping_sub(1),
            10 => self.next() % file_len.max(1),
            11 => old.wrapping_add(1 + self.next() % 64),
            12 => old.wrapping_sub(1 + self.next() % 64),
            13 => old.wrapping_neg(),
            14 => old.wrapping_mul(2),
            _ => self.next(),
        }
    }

    /// A byte of code: often a jump, call, return, prefix or table-jump opcode.
    fn opcode(&mut self) -> u8 {
        const FLOW: [u8; 16] =
            [0xeb, 0xe9, 0xe8, 0x74, 0x75, 0x0f, 0xff, 0xc3, 0xf2, 0xf3, 0x3e, 0x66, 0x48, 0xe2, 0xcc, 0x90];
        if self.below(2) == 0 { FLOW[self.below(FLOW.len())] } else { self.next() as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bases() -> Vec<Base> {
        let program = std::fs::read("/bin/true").expect("/bin/true is part of every Debian system");
        vec![Base::new(program).expect("/bin/true is a sound ELF file")]
    }

    #[test]
    fn an_input_depends_on_seed_and_index_alone() {
        let bases = bases();
        for index in 0..40 {
            assert_eq!(input(&bases, 1, index), input(&bases, 1, index));
            assert_ne!(input(&bases, 1, index), input(&bases, 2, index), "{index}");
        }
    }

    #[test]
    fn every_strategy_damages_what_it_names() {
        let bases = bases();
        let base = &bases[0];
        assert!(!base.tables.is_empty() && !base.code.is_empty());
        for strategy in Strategy::ALL {
            // A field that starts in the last bytes of a table may reach seven bytes beyond it.
            let in_table = |table: &Range<usize>, at| (table.start..table.end + 7).contains(&at);
            let may_change = |at| match strategy {
                Strategy::FileHeader => at < 64 + 7,
                Strategy::ProgramHeader => in_table(&base.program_headers, at),
                Strategy::SectionHeader => in_table(&base.section_headers, at),
                Strategy::Table => base.tables.iter().any(|table| in_table(table, at)),
                Strategy::Code => base.code.iter().any(|code| code.contains(&at)),
                _ => true,
            };
            let mut changed = 0;
            for index in 0..50 {
                let mut bytes = base.bytes.clone();
                apply(strategy, base, &bases, &mut bytes, &mut Rng::new(3, index));
                let differing = bytes.iter().zip(&base.bytes).enumerate().filter(|(_, (new, old))| new != old);
                for (at, _) in differing {
                    changed += 1;
                    assert!(may_change(at), "{strategy} changed {at:#x}");
                }
                changed += base.bytes.len().abs_diff(bytes.len());
            }
            assert_ne!(changed, 0, "{strategy}");
        }
    }
}
