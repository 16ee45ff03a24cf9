//! The dynamic section: what the loader reads, and therefore what is left of a file without section
//! headers.
//!
//! Every table is found by address through the segments, never through sections, so that a file
//! stripped of its section headers keeps its imports, exports, relocations and initializers. Only
//! the length of the dynamic symbol table is not stated there: it follows from the hash tables.

use crate::elf::{Elf, records};
use crate::memory::Memory;
use crate::{Svma, SvmaRange};
use object::LittleEndian as LE;
use object::elf;

type DynamicEntry = elf::Dyn64<LE>;

/// A table at an address, with its length in bytes.
#[derive(Debug, Copy, Clone, Default)]
pub(crate) struct Table {
    pub(crate) at: Option<Svma>,
    pub(crate) len: u64,
}

impl Table {
    /// The table's bytes, empty if it has none; `None` if they are not all in the image.
    pub(crate) fn bytes<'data>(self, memory: &Memory<'data>) -> Option<&'data [u8]> {
        match self.at {
            Some(at) if self.len > 0 => memory.read(at, usize::try_from(self.len).ok()?),
            _ => Some(&[]),
        }
    }

    /// This table, or the one in `range` if the dynamic section does not name it.
    pub(crate) fn or_range(self, range: Option<SvmaRange>) -> Table {
        match (self.at, range) {
            (None, Some(range)) => Table { at: Some(range.start), len: range.len() },
            _ => self,
        }
    }

    /// Addresses of its 8-byte slots that lie in the image.
    pub(crate) fn slots(self, memory: &Memory<'_>) -> impl Iterator<Item = Svma> + use<> {
        let start = self.at.unwrap_or_default();
        let bytes = self.at.and_then(|at| memory.table(at, self.len)).unwrap_or_default();
        (0..bytes.len() as u64 / 8).map(move |index| start.offset(index * 8))
    }
}

/// The entries of the dynamic section that matter here.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    pub(crate) rela: Table,
    pub(crate) plt_rela: Table,
    pub(crate) relr: Table,
    pub(crate) strings: Table,
    pub(crate) init_array: Table,
    pub(crate) preinit_array: Table,
    pub(crate) fini_array: Table,
    pub(crate) init: Option<Svma>,
    pub(crate) fini: Option<Svma>,
    pub(crate) is_pie: bool,
    /// Definitions in this module win over those of earlier ones.
    pub(crate) is_symbolic: bool,
    pub(crate) has_soname: bool,
    symbols: Option<Svma>,
    sysv_hash: Option<Svma>,
    gnu_hash: Option<Svma>,
}

impl Dynamic {
    /// The dynamic section of the file, `None` if it has none.
    pub(crate) fn parse(elf: &Elf<'_>, memory: &Memory<'_>) -> Option<Dynamic> {
        let header = elf.program_header(elf::PT_DYNAMIC)?;
        let bytes = memory.table(Svma(header.p_vaddr.get(LE)), header.p_memsz.get(LE))?;
        let mut dynamic = Dynamic::default();
        for entry in records::<DynamicEntry>(bytes) {
            let tag = entry.d_tag.get(LE);
            if tag == elf::DT_NULL {
                break;
            }
            dynamic.set(tag, entry.d_val.get(LE));
        }
        Some(dynamic)
    }

    fn set(&mut self, tag: elf::DynamicTag, value: u64) {
        let address = Some(Svma(value));
        match tag {
            elf::DT_RELA => self.rela.at = address,
            elf::DT_RELASZ => self.rela.len = value,
            elf::DT_JMPREL => self.plt_rela.at = address,
            elf::DT_PLTRELSZ => self.plt_rela.len = value,
            elf::DT_RELR => self.relr.at = address,
            elf::DT_RELRSZ => self.relr.len = value,
            elf::DT_SYMTAB => self.symbols = address,
            elf::DT_STRTAB => self.strings.at = address,
            elf::DT_STRSZ => self.strings.len = value,
            elf::DT_HASH => self.sysv_hash = address,
            elf::DT_GNU_HASH => self.gnu_hash = address,
            elf::DT_INIT => self.init = address,
            elf::DT_FINI => self.fini = address,
            elf::DT_INIT_ARRAY => self.init_array.at = address,
            elf::DT_INIT_ARRAYSZ => self.init_array.len = value,
            elf::DT_PREINIT_ARRAY => self.preinit_array.at = address,
            elf::DT_PREINIT_ARRAYSZ => self.preinit_array.len = value,
            elf::DT_FINI_ARRAY => self.fini_array.at = address,
            elf::DT_FINI_ARRAYSZ => self.fini_array.len = value,
            elf::DT_SONAME => self.has_soname = true,
            elf::DT_SYMBOLIC => self.is_symbolic = true,
            elf::DT_FLAGS => self.is_symbolic |= value & elf::DF_SYMBOLIC.0 != 0,
            elf::DT_FLAGS_1 => self.is_pie = value & elf::DF_1_PIE.0 != 0,
            _ => {}
        }
    }

    /// The dynamic symbol table, as far as a hash table says that it goes. A table for lookups by
    /// name does not count symbols that are only imported; if it holds no others, the string table
    /// is taken for the end, which all linkers put right behind.
    pub(crate) fn symbol_bytes<'data>(&self, memory: &Memory<'data>) -> Option<&'data [u8]> {
        let at = self.symbols?;
        let count = self
            .sysv_hash
            .and_then(|hash| sysv_symbol_count(memory, hash))
            .or_else(|| self.gnu_hash.and_then(|hash| gnu_symbol_count(memory, hash)));
        let len = match (count, self.strings.at) {
            (Some(count), _) => count.saturating_mul(size_of::<elf::Sym64<LE>>() as u64),
            (None, Some(strings)) => SvmaRange { start: at, end: strings }.len(),
            (None, None) => 0,
        };
        memory.table(at, len)
    }
}

fn sysv_symbol_count(memory: &Memory<'_>, hash: Svma) -> Option<u64> {
    half_word(memory, hash.offset(4)).map(u64::from)
}

/// The GNU hash table covers the symbols from `first_hashed` on, in chains whose last entry is odd;
/// the highest chain ends the table. `None` if there is no chain.
fn gnu_symbol_count(memory: &Memory<'_>, hash: Svma) -> Option<u64> {
    let bucket_count = half_word(memory, hash)?;
    let first_hashed = half_word(memory, hash.offset(4))?;
    let bloom_words = half_word(memory, hash.offset(8))?;
    let buckets_at = hash.offset(16).offset(u64::from(bloom_words) * 8);
    let chains_at = buckets_at.offset(u64::from(bucket_count) * 4);
    let buckets = memory.table(buckets_at, u64::from(bucket_count) * 4)?;
    let last_chain = words(buckets).max().filter(|&start| start > 0 && start >= first_hashed)?;
    let chain = memory.tail(chains_at.offset(u64::from(last_chain - first_hashed) * 4))?;
    let chain_len = words(chain).position(|word| word & 1 == 1)? as u64 + 1;
    Some(u64::from(last_chain) + chain_len)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    records::<object::U32<LE>>(bytes).iter().map(|word| word.get(LE))
}

fn half_word(memory: &Memory<'_>, at: Svma) -> Option<u32> {
    Some(u32::from_le_bytes(memory.read(at, 4)?.try_into().ok()?))
}
