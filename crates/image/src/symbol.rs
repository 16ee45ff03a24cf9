//! Symbol tables as sorted lists of named addresses.
//!
//! A file may hold up to four tables (`.symtab`, `.dynsym`, the compressed one in `.gnu_debugdata`,
//! and that of a separate debug file); all become one list sorted by address, and among the names
//! of one address by preference, so that the first function name at an address is the one to show.
//! Names borrow the file where they can. Since thousands of hostile symbols can share one long
//! string, the bytes looked at for names are limited to a multiple of the string table.

use crate::Svma;
use crate::elf::{Elf, c_string, records};
use crate::memory::Memory;
use crate::problem::{ProblemKind, Problems};
use object::LittleEndian as LE;
use object::elf;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

pub(crate) type RawSymbol = elf::Sym64<LE>;

/// Longest symbol name that is read; template-heavy C++ stays below.
const MAX_NAME_LEN: usize = 1 << 16;

/// Names may need this many times the bytes of their string table: shared suffixes make the sum
/// larger than the table.
const MAX_NAME_SHARING: usize = 32;

/// A named address inside the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol<'data> {
    /// Mangled name without version.
    pub name: Cow<'data, str>,
    /// Where it is.
    pub address: Svma,
    /// Length in bytes, 0 if not stated.
    pub size: u64,
    /// Who can see it.
    pub binding: Binding,
    /// What it names.
    pub kind: SymbolKind,
    /// Which table states it.
    pub source: SymbolSource,
}

/// Visibility of a symbol to other files.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binding {
    /// Visible everywhere.
    Global,
    /// Visible everywhere, gives way to a global one.
    Weak,
    /// Visible in its own source file.
    Local,
}

/// What a symbol names.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A function that returns the function to use (`ifunc`); the address is that of the resolver.
    IndirectFunction,
    /// Something without a type, often a function in assembly.
    Untyped,
    /// A variable.
    Object,
}

impl SymbolKind {
    /// Whether the symbol itself says that its address is the start of a function.
    pub fn is_function(self) -> bool {
        matches!(self, SymbolKind::Function | SymbolKind::IndirectFunction)
    }
}

/// The table a symbol comes from.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolSource {
    /// `.symtab` of the file.
    Symtab,
    /// `.dynsym` of the file.
    Dynsym,
    /// `.symtab` of the small ELF file in `.gnu_debugdata`.
    DebugData,
    /// `.symtab` of a separate debug file.
    DebugFile,
}

/// A symbol table of the file with its strings.
#[derive(Debug, Copy, Clone, Default)]
pub(crate) struct SymbolTable<'data> {
    pub(crate) symbols: &'data [RawSymbol],
    strings: &'data [u8],
}

impl<'data> SymbolTable<'data> {
    pub(crate) fn new(symbols: &'data [u8], strings: &'data [u8]) -> SymbolTable<'data> {
        SymbolTable { symbols: records(symbols), strings }
    }

    /// The table in the first section of type `kind`, `None` if there is no such section.
    pub(crate) fn of_section(
        elf: &Elf<'data>,
        kind: elf::SectionType,
        problems: &mut Problems,
    ) -> Option<SymbolTable<'data>> {
        let section = elf.section_headers.iter().find(|section| section.sh_type.get(LE) == kind)?;
        let strings = elf.section_at(section.sh_link.get(LE)).and_then(|strings| elf.bytes(strings));
        let table = elf.bytes(section).zip(strings);
        if table.is_none() {
            problems.add(ProblemKind::SymbolTable);
        }
        table.map(|(symbols, strings)| SymbolTable::new(symbols, strings))
    }

    pub(crate) fn get(&self, index: u32) -> Option<&'data RawSymbol> {
        self.symbols.get(index as usize)
    }

    /// The names of all symbols, without versions; `None` for one that cannot be read.
    pub(crate) fn names(&self) -> Vec<Option<&'data str>> {
        let mut bytes_left = self.strings.len().saturating_mul(MAX_NAME_SHARING);
        let name = |symbol: &RawSymbol| {
            let offset = symbol.st_name.get(LE) as usize;
            let name = if bytes_left > 0 { c_string(self.strings, offset, MAX_NAME_LEN) } else { None };
            bytes_left = bytes_left.saturating_sub(name.map_or(MAX_NAME_LEN, str::len));
            name.map(unversioned)
        };
        self.symbols.iter().map(name).collect()
    }

    /// The symbols that name an address of the image.
    pub(crate) fn named_addresses(
        &self,
        source: SymbolSource,
        memory: &Memory<'_>,
        problems: &mut Problems,
    ) -> Vec<Symbol<'data>> {
        let mut found = Vec::new();
        for (raw, name) in self.symbols.iter().zip(self.names()) {
            let Some(kind) = kind_of(raw) else { continue };
            let address = Svma(raw.st_value.get(LE));
            if memory.segment_of(address).is_none() {
                if kind.is_function() {
                    problems.add(ProblemKind::SymbolOutside);
                }
                continue;
            }
            match name {
                Some("") => {}
                Some(name) => found.push(Symbol {
                    name: Cow::Borrowed(name),
                    address,
                    size: raw.st_size.get(LE),
                    binding: binding_of(raw),
                    kind,
                    source,
                }),
                None => problems.add(ProblemKind::SymbolName),
            }
        }
        found
    }
}

impl Symbol<'_> {
    /// The same symbol without a borrow.
    pub(crate) fn into_owned(self) -> Symbol<'static> {
        Symbol { name: Cow::Owned(self.name.into_owned()), ..self }
    }
}

/// Sorts by address; at one address the name to show comes first.
pub(crate) fn sort_by_preference(symbols: &mut [Symbol<'_>]) {
    symbols.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| preference(a, b)));
}

/// Functions first, then names that other files can see, then fewer leading underscores, then
/// global before weak, then shorter, then alphabetic. Underscores come before strength because the
/// C library exports `__write` as global and `write` as weak.
fn preference(a: &Symbol<'_>, b: &Symbol<'_>) -> Ordering {
    let rank = |symbol: &Symbol<'_>| {
        let underscores = symbol.name.bytes().take_while(|&byte| byte == b'_').count();
        let is_mangled = symbol.name.starts_with("_Z") || symbol.name.starts_with("_R");
        let underscores = if is_mangled { 0 } else { underscores };
        let is_local = symbol.binding == Binding::Local;
        (Reverse(symbol.kind.is_function()), is_local, underscores, symbol.binding, symbol.name.len())
    };
    rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)).then_with(|| a.source.cmp(&b.source))
}

/// What a symbol names, if it is defined here and its value is an address.
fn kind_of(raw: &RawSymbol) -> Option<SymbolKind> {
    if !is_defined(raw) {
        return None;
    }
    match raw.st_type() {
        elf::STT_FUNC => Some(SymbolKind::Function),
        elf::STT_GNU_IFUNC => Some(SymbolKind::IndirectFunction),
        elf::STT_NOTYPE => Some(SymbolKind::Untyped),
        elf::STT_OBJECT => Some(SymbolKind::Object),
        _ => None,
    }
}

pub(crate) fn is_defined(raw: &RawSymbol) -> bool {
    !matches!(raw.st_shndx.get(LE), elf::SHN_UNDEF | elf::SHN_ABS | elf::SHN_COMMON)
}

fn binding_of(raw: &RawSymbol) -> Binding {
    match raw.st_bind() {
        elf::STB_LOCAL => Binding::Local,
        elf::STB_WEAK => Binding::Weak,
        _ => Binding::Global,
    }
}

/// `memcpy@@GLIBC_2.14` is `memcpy`: linkers write versions into the names of `.symtab`.
fn unversioned(name: &str) -> &str {
    match name.find('@') {
        Some(at) if at > 0 => name.get(..at).unwrap_or(name),
        _ => name,
    }
}
