//! Relocations: which words of the image the loader fills, and with what.
//!
//! Two sorted lists answer every question by binary search. `relative` holds the words that become
//! an address of this module whatever else is loaded (`RELATIVE` and its packed form `RELR`); a big
//! library has hundreds of thousands, so an entry is two words. `bound` holds the words that depend
//! on a symbol or on a resolver. `RELR` is a bitmap, where 8 bytes can state 63 relocations; a
//! hostile one is stopped at one relocation per word of the file.

use crate::Svma;
use crate::dynamic::Dynamic;
use crate::elf::{Elf, records};
use crate::memory::Memory;
use crate::problem::{ProblemKind, Problems};
use crate::symbol::{SymbolTable, is_defined};
use object::LittleEndian as LE;
use object::elf;

type Rela = elf::Rela64<LE>;

/// The relocations of an image, sorted by the address they fill.
#[derive(Debug, Default)]
pub(crate) struct Relocations<'data> {
    relative: Vec<(Svma, Svma)>,
    bound: Vec<Bound>,
    plt: &'data [Rela],
    symbols: SymbolTable<'data>,
    names: Vec<Option<&'data str>>,
    is_interposable: bool,
}

/// A word whose value is decided when the program is loaded.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Bound {
    pub(crate) at: Svma,
    pub(crate) by: Binder,
}

/// What decides the value of a bound word.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) enum Binder {
    /// The address of a symbol plus `addend`.
    Symbol { index: u32, addend: i64, is_plt_slot: bool },
    /// The result of calling the function at this address.
    Resolver(Svma),
    /// Something that is no code address of this module, such as a thread-local offset.
    Other,
}

impl<'data> Relocations<'data> {
    pub(crate) fn parse(
        elf: &Elf<'data>,
        memory: &Memory<'data>,
        dynamic: Option<&Dynamic>,
        symbols: SymbolTable<'data>,
        is_interposable: bool,
        problems: &mut Problems,
    ) -> Relocations<'data> {
        let mut found = Relocations { symbols, names: symbols.names(), is_interposable, ..Relocations::default() };
        match dynamic {
            Some(dynamic) => found.add_dynamic(memory, dynamic, problems),
            None => found.add_sections(elf, problems),
        }
        found.relative.sort_by_key(|&(at, _)| at);
        found.relative.dedup_by_key(|&mut (at, _)| at);
        found.bound.sort_by_key(|bound| bound.at);
        found.bound.dedup_by_key(|bound| bound.at);
        found
    }

    fn add_dynamic(&mut self, memory: &Memory<'data>, dynamic: &Dynamic, problems: &mut Problems) {
        let mut table = |bytes: Option<&'data [u8]>| {
            bytes.unwrap_or_else(|| {
                problems.add(ProblemKind::RelocationTable);
                &[]
            })
        };
        let rela = table(dynamic.rela.bytes(memory));
        let relr = table(dynamic.relr.bytes(memory));
        self.plt = records(table(dynamic.plt_rela.bytes(memory)));
        self.add_rela(records(rela));
        self.add_rela(self.plt);
        self.add_relr(relr, memory);
    }

    /// A static program has no dynamic section, but its start-up code applies the relocations of
    /// its ifuncs.
    fn add_sections(&mut self, elf: &Elf<'data>, problems: &mut Problems) {
        let is_loaded_rela = |section: &&crate::elf::SectionHeader| {
            section.sh_type.get(LE) == elf::SHT_RELA && section.sh_flags.get(LE).contains(elf::SHF_ALLOC)
        };
        for section in elf.section_headers.iter().filter(is_loaded_rela).take(4) {
            match elf.bytes(section) {
                Some(bytes) => self.add_rela(records(bytes)),
                None => problems.add(ProblemKind::RelocationTable),
            }
        }
    }

    fn add_rela(&mut self, table: &[Rela]) {
        for rela in table {
            let at = Svma(rela.r_offset.get(LE));
            let addend = rela.r_addend.get(LE);
            let index = rela.r_sym(LE, false);
            let value = Svma(addend.cast_unsigned());
            let by = match rela.r_type(LE, false) {
                elf::R_X86_64_RELATIVE => {
                    self.relative.push((at, value));
                    continue;
                }
                elf::R_X86_64_NONE => continue,
                elf::R_X86_64_JUMP_SLOT => Binder::Symbol { index, addend, is_plt_slot: true },
                elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64 => Binder::Symbol { index, addend, is_plt_slot: false },
                elf::R_X86_64_IRELATIVE => Binder::Resolver(value),
                _ => Binder::Other,
            };
            self.bound.push(Bound { at, by });
        }
    }

    /// An even entry is an address to relocate; an odd one is a bitmap of the 63 words that follow
    /// the last one described.
    fn add_relr(&mut self, table: &[u8], memory: &Memory<'_>) {
        let limit =
            memory.segments().iter().map(|segment| segment.file_range.end - segment.file_range.start).sum::<u64>() / 8;
        let mut left = limit;
        let mut next = Svma(0);
        for entry in records::<object::U64<LE>>(table).iter().map(|entry| entry.get(LE)) {
            let bitmap = if entry & 1 == 0 {
                next = Svma(entry);
                1
            } else {
                entry >> 1
            };
            let mut bits = bitmap;
            while bits != 0 && left > 0 {
                let at = next.offset(u64::from(bits.trailing_zeros()) * 8);
                self.relative.extend(memory.word(at).map(|word| (at, Svma(word))));
                bits &= bits - 1;
                left -= 1;
            }
            next = next.offset(if entry & 1 == 0 { 8 } else { 63 * 8 });
        }
    }

    /// Words that become an address of this module, with that address.
    pub(crate) fn relative(&self) -> &[(Svma, Svma)] {
        &self.relative
    }

    pub(crate) fn bound(&self) -> &[Bound] {
        &self.bound
    }

    pub(crate) fn relative_at(&self, at: Svma) -> Option<Svma> {
        let index = self.relative.binary_search_by_key(&at, |&(at, _)| at).ok()?;
        self.relative.get(index).map(|&(_, target)| target)
    }

    pub(crate) fn bound_at(&self, at: Svma) -> Option<Binder> {
        let index = self.bound.binary_search_by_key(&at, |bound| bound.at).ok()?;
        self.bound.get(index).map(|bound| bound.by)
    }

    /// The slot filled by the n-th relocation of the procedure linkage table.
    pub(crate) fn plt_slot(&self, index: u32) -> Option<Svma> {
        self.plt.get(index as usize).map(|rela| Svma(rela.r_offset.get(LE)))
    }

    /// The address in this module that the symbol names, unless it is defined elsewhere or by a
    /// resolver.
    pub(crate) fn definition(&self, by: Binder) -> Option<Svma> {
        let Binder::Symbol { index, addend, .. } = by else { return None };
        let symbol = self.symbols.get(index)?;
        let is_address = is_defined(symbol) && !matches!(symbol.st_type(), elf::STT_GNU_IFUNC | elf::STT_TLS);
        is_address.then(|| Svma(symbol.st_value.get(LE)).offset_signed(addend))
    }

    /// The name of the symbol, if another module may provide it.
    pub(crate) fn import(&self, by: Binder) -> Option<&'data str> {
        let Binder::Symbol { index, .. } = by else { return None };
        let symbol = self.symbols.get(index)?;
        let is_own = is_defined(symbol)
            && (!self.is_interposable
                || symbol.st_bind() == elf::STB_LOCAL
                || symbol.st_visibility() != elf::STV_DEFAULT);
        if is_own { None } else { self.name(by) }
    }

    /// The name of the symbol, wherever it is defined.
    pub(crate) fn name(&self, by: Binder) -> Option<&'data str> {
        let Binder::Symbol { index, .. } = by else { return None };
        let name = *self.names.get(index as usize)?;
        name.filter(|name| !name.is_empty())
    }
}
