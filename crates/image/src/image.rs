//! The image: everything a file states about its code, in one value.
//!
//! [`Image::parse`] runs the readers of the other modules in the order of their needs: headers,
//! memory, dynamic section, relocations, linkage stubs, frames, symbols; then
//! [`Image::index_names`] merges symbols and frames into functions. Adding a debug file repeats
//! only that last step. Everything is computed once; all queries are searches in sorted lists.

use crate::debug::{debug_data_symbols, debug_file_symbols};
use crate::dynamic::Dynamic;
use crate::elf::Elf;
use crate::frame::FrameTable;
use crate::function::{Evidence, seeds};
use crate::memory::{Memory, code_regions};
use crate::notes;
use crate::plt::find_stubs;
use crate::problem::Problems;
use crate::relocation::{Binder, Relocations};
use crate::symbol::{SymbolTable, sort_by_preference};
use crate::{
    BuildId, CallSite, CodeRegion, DebugLinks, Error, Frame, FunctionSeed, PltStub, Problem, Section, Segment, Sources,
    Svma, Symbol, SymbolSource, UnwindRow, lsda, unwind,
};
use object::LittleEndian as LE;
use object::elf;

/// A program or shared library as its file describes it.
#[derive(Debug)]
pub struct Image<'data> {
    pub(crate) elf: Elf<'data>,
    pub(crate) memory: Memory<'data>,
    pub(crate) sections: Vec<Section<'data>>,
    pub(crate) code: Vec<CodeRegion<'data>>,
    pub(crate) relocations: Relocations<'data>,
    pub(crate) symbols: Vec<Symbol<'data>>,
    pub(crate) stubs: Vec<PltStub>,
    dynamic: Dynamic,
    kind: ImageKind,
    build_id: Option<BuildId>,
    frames: FrameTable<'data>,
    functions: Vec<FunctionSeed>,
    exported: Vec<Svma>,
    problems: Problems,
}

/// How a file is meant to be loaded.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// A program at fixed addresses.
    Executable,
    /// A program that can be loaded anywhere.
    PositionIndependentExecutable,
    /// A library.
    SharedObject,
}

impl<'data> Image<'data> {
    /// Reads a file. Fails only if it is no x86-64 program or shared library; what is damaged
    /// inside is left out and counted in [`Image::problems`].
    pub fn parse(data: &'data [u8]) -> Result<Image<'data>, Error> {
        let mut problems = Problems::default();
        let elf = Elf::parse(data, &mut problems)?;
        let memory = Memory::new(&elf, &mut problems);
        let sections: Vec<Section<'data>> = elf.sections().map(|(name, header)| Section::new(name, header)).collect();
        let code = code_regions(&memory, &sections, &mut problems);
        let dynamic = Dynamic::parse(&elf, &memory);
        let kind = kind_of(&elf, dynamic.as_ref());
        let dynamic_symbols = dynamic_symbols(&elf, &memory, dynamic.as_ref(), &mut problems);
        let is_interposable =
            kind == ImageKind::SharedObject && dynamic.as_ref().is_some_and(|dynamic| !dynamic.is_symbolic);
        let relocations =
            Relocations::parse(&elf, &memory, dynamic.as_ref(), dynamic_symbols, is_interposable, &mut problems);
        let stubs = find_stubs(&code, &sections, &relocations);
        let frames = FrameTable::parse(&elf, &memory, &code, &relocations, &mut problems);
        let symtab = SymbolTable::of_section(&elf, elf::SHT_SYMTAB, &mut problems).unwrap_or_default();
        let mut symbols = symtab.named_addresses(SymbolSource::Symtab, &memory, &mut problems);
        symbols.extend(dynamic_symbols.named_addresses(SymbolSource::Dynsym, &memory, &mut problems));
        symbols.extend(debug_data_symbols(&elf, &memory, &mut problems));
        let mut image = Image {
            build_id: notes::build_id(&elf),
            dynamic: dynamic.unwrap_or_default(),
            elf,
            memory,
            sections,
            code,
            relocations,
            symbols,
            stubs,
            kind,
            frames,
            functions: Vec::new(),
            exported: Vec::new(),
            problems,
        };
        image.index_names();
        Ok(image)
    }

    /// Adds the symbols of a separate debug file, which must have the image's build-id or the
    /// checksum of its `.gnu_debuglink`.
    pub fn with_debug_file(mut self, data: &'data [u8]) -> Result<Image<'data>, Error> {
        let symbols = debug_file_symbols(&self.elf, data, &self.memory, &mut self.problems)?;
        self.symbols.extend(symbols);
        self.index_names();
        Ok(self)
    }

    /// How the file is meant to be loaded.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// Whether it is a program that runs without a dynamic loader.
    pub fn is_static(&self) -> bool {
        self.kind != ImageKind::SharedObject && self.elf.program_header(elf::PT_INTERP).is_none()
    }

    /// The name of this build.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Files that may hold more symbols and lines.
    pub fn debug_links(&self) -> DebugLinks {
        DebugLinks::new(&self.elf)
    }

    /// First instruction of the program.
    pub fn entry(&self) -> Option<Svma> {
        Some(Svma(self.elf.header.e_entry.get(LE))).filter(|&entry| entry != Svma(0))
    }

    /// Loadable segments, sorted and disjoint.
    pub fn segments(&self) -> &[Segment] {
        self.memory.segments()
    }

    /// Sections in file order; none if the file has lost its section headers.
    pub fn sections(&self) -> &[Section<'data>] {
        &self.sections
    }

    /// Executable sections, or executable segments in a file without sections; sorted and disjoint.
    pub fn code_regions(&self) -> &[CodeRegion<'data>] {
        &self.code
    }

    /// Bytes of the file that are loaded at `at`; `None` unless all `len` lie in one segment and in
    /// the file.
    pub fn read(&self, at: Svma, len: usize) -> Option<&'data [u8]> {
        self.memory.read(at, len)
    }

    /// The name of the symbol that the loader binds the slot to, if another module may provide it.
    /// Unversioned and mangled.
    pub fn import_at(&self, slot: Svma) -> Option<&'data str> {
        self.relocations.import(self.relocations.bound_at(slot)?)
    }

    /// The address that the loader binds the slot to, if this module defines the symbol (another
    /// may still take precedence, see [`Image::import_at`]). A slot whose value is computed by a
    /// resolver has no known target.
    pub fn slot_target(&self, slot: Svma) -> Option<Svma> {
        self.relocations.definition(self.relocations.bound_at(slot)?)
    }

    /// Stubs of the linkage tables, sorted by address.
    pub fn plt_stubs(&self) -> &[PltStub] {
        &self.stubs
    }

    /// Named addresses, sorted by address, the name to show first; the same name may come from
    /// several tables.
    pub fn symbols(&self) -> &[Symbol<'data>] {
        &self.symbols
    }

    /// Addresses of the functions that other modules can call by name, sorted.
    pub fn exported(&self) -> &[Svma] {
        &self.exported
    }

    /// Function starts stated by the file, sorted and unique.
    pub fn functions(&self) -> &[FunctionSeed] {
        &self.functions
    }

    /// Unwind entries, sorted and disjoint.
    pub fn frames(&self) -> &[Frame] {
        self.frames.frames()
    }

    /// The unwind entry that covers an address.
    pub fn frame_at(&self, at: Svma) -> Option<&Frame> {
        self.frames.at(at)
    }

    /// How to unwind from each stretch of a frame of this image.
    pub fn unwind_rows(&self, frame: &Frame) -> Result<Vec<UnwindRow>, Error> {
        unwind::rows(&self.frames, frame)
    }

    /// The exception table of a frame of this image; empty if it has none.
    pub fn call_sites(&self, frame: &Frame) -> Result<Vec<CallSite>, Error> {
        lsda::call_sites(&self.memory, frame, |at| self.pointer_at(at))
    }

    /// What was damaged and left out.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_slice()
    }

    pub(crate) fn is_code(&self, address: Svma) -> bool {
        crate::address::find_range(&self.code, address, |region| region.range).is_some()
    }

    fn index_names(&mut self) {
        sort_by_preference(&mut self.symbols);
        self.exported = self
            .symbols
            .iter()
            .filter(|symbol| symbol.source == SymbolSource::Dynsym && symbol.kind.is_function())
            .map(|symbol| symbol.address)
            .collect();
        self.exported.dedup();
        self.name_stubs();
        self.functions = seeds(&Evidence {
            code: &self.code,
            symbols: &self.symbols,
            frames: self.frames.frames(),
            stubs: &self.stubs,
            bare: &self.bare_starts(),
        });
    }

    /// Function starts without symbol or length: the entry point, what start-up and exit call, and
    /// resolvers.
    fn bare_starts(&self) -> Vec<(Svma, Sources)> {
        let dynamic = &self.dynamic;
        let section =
            |name: &str| self.sections.iter().find(|section| section.name == name).map(|section| section.range);
        let mut starts = Vec::new();
        starts.extend(self.entry().map(|entry| (entry, Sources::ENTRY)));
        let init = dynamic.init.or_else(|| Some(section(".init")?.start));
        let fini = dynamic.fini.or_else(|| Some(section(".fini")?.start));
        starts.extend(init.map(|start| (start, Sources::INIT)));
        starts.extend(fini.map(|start| (start, Sources::FINI)));
        for (table, name, source) in [
            (dynamic.preinit_array, ".preinit_array", Sources::INIT_ARRAY),
            (dynamic.init_array, ".init_array", Sources::INIT_ARRAY),
            (dynamic.fini_array, ".fini_array", Sources::FINI_ARRAY),
        ] {
            let table = table.or_range(section(name));
            starts.extend(table.slots(&self.memory).filter_map(|slot| Some((self.pointer_at(slot)?, source))));
        }
        starts.extend(self.relocations.bound().iter().filter_map(|bound| match bound.by {
            Binder::Resolver(resolver) => Some((resolver, Sources::RESOLVER)),
            _ => None,
        }));
        starts
    }
}

fn kind_of(elf: &Elf<'_>, dynamic: Option<&Dynamic>) -> ImageKind {
    if elf.header.e_type.get(LE) == elf::ET_EXEC {
        return ImageKind::Executable;
    }
    let has_interpreter = elf.program_header(elf::PT_INTERP).is_some();
    // The C library is a shared object that names an interpreter, so that it can be run to print
    // its version.
    let is_program = dynamic.is_none_or(|dynamic| dynamic.is_pie || (has_interpreter && !dynamic.has_soname));
    if is_program { ImageKind::PositionIndependentExecutable } else { ImageKind::SharedObject }
}

fn dynamic_symbols<'data>(
    elf: &Elf<'data>,
    memory: &Memory<'data>,
    dynamic: Option<&Dynamic>,
    problems: &mut Problems,
) -> SymbolTable<'data> {
    SymbolTable::of_section(elf, elf::SHT_DYNSYM, problems).unwrap_or_else(|| {
        let table = dynamic.and_then(|dynamic| Some((dynamic.symbol_bytes(memory)?, dynamic.strings.bytes(memory)?)));
        table.map(|(symbols, strings)| SymbolTable::new(symbols, strings)).unwrap_or_default()
    })
}
