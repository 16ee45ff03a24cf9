//! Function starts that the file itself states, before any instruction is decoded.
//!
//! The union of symbols, unwind entries, linkage table stubs, the entry point, and the functions
//! that start-up and exit call. What decoding adds (targets of direct calls) is not known here.

use crate::address::find_range;
use crate::frame::Frame;
use crate::memory::CodeRegion;
use crate::plt::PltStub;
use crate::symbol::{Binding, Symbol, SymbolKind, SymbolSource};
use crate::{Svma, SvmaRange};
use std::fmt;

/// The start of a function with what is stated about it.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct FunctionSeed {
    /// First instruction.
    pub start: Svma,
    /// Length in bytes: that of the unwind entry, else of a symbol, never beyond the end of its
    /// code region.
    pub size: Option<u64>,
    /// Who states it.
    pub sources: Sources,
}

/// A set of places that state a function start.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Sources(u16);

impl Sources {
    /// `.symtab`.
    pub const SYMTAB: Sources = Sources(1 << 0);
    /// `.dynsym`.
    pub const DYNSYM: Sources = Sources(1 << 1);
    /// `.gnu_debugdata`.
    pub const DEBUG_DATA: Sources = Sources(1 << 2);
    /// A separate debug file.
    pub const DEBUG_FILE: Sources = Sources(1 << 3);
    /// An entry of `.eh_frame`.
    pub const FDE: Sources = Sources(1 << 4);
    /// The entry point of the program.
    pub const ENTRY: Sources = Sources(1 << 5);
    /// The arrays of functions to call at start.
    pub const INIT_ARRAY: Sources = Sources(1 << 6);
    /// The array of functions to call at exit.
    pub const FINI_ARRAY: Sources = Sources(1 << 7);
    /// The old function to call at start.
    pub const INIT: Sources = Sources(1 << 8);
    /// The old function to call at exit.
    pub const FINI: Sources = Sources(1 << 9);
    /// A linkage table stub.
    pub const PLT: Sources = Sources(1 << 10);
    /// A relocation that calls the function to learn an address.
    pub const RESOLVER: Sources = Sources(1 << 11);

    const NAMES: [(Sources, &'static str); 12] = [
        (Sources::SYMTAB, "symtab"),
        (Sources::DYNSYM, "dynsym"),
        (Sources::DEBUG_DATA, "debugdata"),
        (Sources::DEBUG_FILE, "debugfile"),
        (Sources::FDE, "fde"),
        (Sources::ENTRY, "entry"),
        (Sources::INIT_ARRAY, "init_array"),
        (Sources::FINI_ARRAY, "fini_array"),
        (Sources::INIT, "init"),
        (Sources::FINI, "fini"),
        (Sources::PLT, "plt"),
        (Sources::RESOLVER, "resolver"),
    ];

    /// Whether all of `other` are in the set.
    pub const fn contains(self, other: Sources) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn union(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    /// Each member with its name.
    pub fn iter(self) -> impl Iterator<Item = (Sources, &'static str)> {
        Sources::NAMES.into_iter().filter(move |&(source, _)| self.contains(source))
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, name)) in self.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "+" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the image knows about its function starts.
pub(crate) struct Evidence<'a, 'data> {
    pub(crate) code: &'a [CodeRegion<'data>],
    pub(crate) symbols: &'a [Symbol<'data>],
    pub(crate) frames: &'a [Frame],
    /// Sorted by address.
    pub(crate) stubs: &'a [PltStub],
    /// Starts without a length.
    pub(crate) bare: &'a [(Svma, Sources)],
}

/// All function starts in the code, sorted and unique.
pub(crate) fn seeds(evidence: &Evidence<'_, '_>) -> Vec<FunctionSeed> {
    let is_stub = |start: Svma| evidence.stubs.binary_search_by_key(&start, |stub| stub.range.start).is_ok();
    let mut claims: Vec<Claim> = Vec::with_capacity(evidence.frames.len() + evidence.stubs.len());
    let functions = evidence.symbols.iter().filter(|symbol| is_function(symbol, evidence.frames));
    claims.extend(functions.map(|symbol| Claim {
        start: symbol.address,
        size: symbol.size,
        source: source_of(symbol.source),
    }));
    let frames = evidence.frames.iter().filter(|frame| !is_stub(frame.range.start));
    claims.extend(frames.map(|frame| Claim::exact(frame.range, Sources::FDE)));
    claims.extend(evidence.stubs.iter().map(|stub| Claim::exact(stub.range, Sources::PLT)));
    claims.extend(evidence.bare.iter().map(|&(start, source)| Claim { start, size: 0, source }));
    claims.sort_by_key(|claim| claim.start);

    let mut seeds = Vec::with_capacity(claims.len());
    for group in claims.chunk_by(|a, b| a.start == b.start) {
        seeds.extend(merge(group, evidence.code));
    }
    seeds
}

struct Claim {
    start: Svma,
    /// 0 if not known.
    size: u64,
    source: Sources,
}

impl Claim {
    fn exact(range: SvmaRange, source: Sources) -> Claim {
        Claim { start: range.start, size: range.len(), source }
    }

    /// Unwind entries and stubs are made by tools; the size of a symbol may be written by hand.
    fn is_exact(&self) -> bool {
        self.source == Sources::FDE || self.source == Sources::PLT
    }
}

fn merge(claims: &[Claim], code: &[CodeRegion<'_>]) -> Option<FunctionSeed> {
    let start = claims.first()?.start;
    let region = code.get(find_range(code, start, |region| region.range)?)?;
    let exact = claims.iter().find(|claim| claim.is_exact()).map(|claim| claim.size);
    let size = exact.or_else(|| claims.iter().map(|claim| claim.size).max()).filter(|&size| size > 0);
    Some(FunctionSeed {
        start,
        size: size.map(|size| size.min(region.range.end - start)),
        sources: claims.iter().fold(Sources::default(), |all, claim| all.union(claim.source)),
    })
}

/// A typed symbol says so; an untyped one is taken for a function if it is visible to other files
/// and no label inside a frame.
fn is_function(symbol: &Symbol<'_>, frames: &[Frame]) -> bool {
    match symbol.kind {
        SymbolKind::Function | SymbolKind::IndirectFunction => true,
        SymbolKind::Object => false,
        SymbolKind::Untyped => {
            let frame = find_range(frames, symbol.address, |frame| frame.range).and_then(|index| frames.get(index));
            symbol.binding != Binding::Local
                && !is_linker_marker(&symbol.name)
                && frame.is_none_or(|frame| frame.range.start == symbol.address)
        }
    }
}

/// Names that linkers give to the ends of sections.
pub(crate) fn is_linker_marker(name: &str) -> bool {
    matches!(name, "etext" | "_etext" | "__etext" | "edata" | "_edata" | "end" | "_end" | "__executable_start")
        || name.starts_with("__start_")
        || name.starts_with("__stop_")
        || name.starts_with('.')
}

fn source_of(source: SymbolSource) -> Sources {
    match source {
        SymbolSource::Symtab => Sources::SYMTAB,
        SymbolSource::Dynsym => Sources::DYNSYM,
        SymbolSource::DebugData => Sources::DEBUG_DATA,
        SymbolSource::DebugFile => Sources::DEBUG_FILE,
    }
}
