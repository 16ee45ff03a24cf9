//! A profile together with the names and lines of its addresses.
//!
//! A view first decides which rows it shows, then has all addresses in them looked up at once
//! ([`Subject::resolve`]), and then words the rows. What is not shown is not looked up, however
//! large the profile is.

use std::collections::BTreeSet;

use image::Svma;
use profile::model::{Block, BlockId, EdgeId, Function, FunctionId, ModuleId, Profile};
use profile::symbols::{SourceFrame, Symbols as _};
use serde::Serialize;
use symbols::{Options, Status, Symbolizer, brief};

use crate::names::file_name;
use crate::report::Address;
use crate::view::code_files::CodeFiles;

/// An address of a module's file.
pub type Place = (ModuleId, u64);

#[derive(Debug)]
pub struct Subject {
    pub profile: Profile,
    pub symbolizer: Symbolizer,
    pub code: CodeFiles,
    /// Modules of what is shown.
    shown: BTreeSet<ModuleId>,
}

/// A function as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionLabel {
    /// Readable.
    pub name: String,
    pub linkage_name: String,
    /// Path of its file.
    pub module: String,
    pub address: Address,
}

/// A place in the code as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spot {
    pub address: Address,
    pub source: Option<SourceLine>,
}

/// A line of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    pub file: String,
    pub line: u32,
    /// The function that was inlined here.
    pub inlined: Option<String>,
    /// What the line says, if the file is there.
    pub text: Option<String>,
}

impl Subject {
    pub fn new(profile: Profile, options: &Options) -> Subject {
        let symbolizer = Symbolizer::new(&profile, options);
        Subject { profile, symbolizer, code: CodeFiles::default(), shown: BTreeSet::new() }
    }

    /// Looks up everything that will be shown: names of functions that the profile has none for,
    /// and all about places.
    pub fn resolve(
        &mut self,
        functions: impl IntoIterator<Item = FunctionId>,
        places: impl IntoIterator<Item = Place>,
    ) {
        let mut wanted: Vec<Place> = places.into_iter().collect();
        self.shown.extend(wanted.iter().map(|&(module, _)| module));
        for id in functions {
            let Function { module, address, ref name, .. } = self.profile.functions[id.index()];
            self.shown.insert(module);
            if name.is_empty() {
                wanted.push((module, address));
            }
        }
        if !wanted.is_empty() {
            self.symbolizer.resolve(&wanted);
        }
    }

    /// What the user should know about the files of what is shown.
    pub fn warnings(&self) -> Vec<String> {
        let modules = self.shown.iter().filter_map(|&id| {
            let status = self.symbolizer.status(id);
            let is_bad = !matches!(status, Status::Ok | Status::NoDebugInfo);
            is_bad.then(|| format!("{}: {status}", self.module_path(id)))
        });
        let coverage = self.profile.facts.get("warning").cloned();
        coverage.into_iter().chain(modules).chain(self.symbolizer.faults().iter().map(ToString::to_string)).collect()
    }

    pub fn function(&self, id: FunctionId) -> &Function {
        &self.profile.functions[id.index()]
    }

    pub fn block(&self, id: BlockId) -> &Block {
        &self.profile.blocks[id.index()]
    }

    pub fn module_of(&self, block: BlockId) -> ModuleId {
        self.function(self.block(block).function).module
    }

    pub fn module_path(&self, id: ModuleId) -> &str {
        self.profile.modules.get(id.index()).map_or("", |module| module.path.as_str())
    }

    /// First instruction of a block.
    pub fn start_of(&self, block: BlockId) -> Place {
        (self.module_of(block), self.block(block).address)
    }

    /// Last instruction of a block.
    pub fn end_of(&self, block: BlockId) -> Place {
        let row = self.block(block);
        (self.module_of(block), row.address.saturating_add(u64::from(row.last)))
    }

    /// From where to where an edge leads.
    pub fn ends_of(&self, edge: EdgeId) -> [Place; 2] {
        let edge = &self.profile.edges[edge.index()];
        [self.end_of(edge.from), self.start_of(edge.to)]
    }

    pub fn label(&self, id: FunctionId) -> FunctionLabel {
        let function = self.function(id);
        FunctionLabel {
            name: self.symbolizer.readable_name(function),
            linkage_name: self.symbolizer.function_name(function.module, function.address).raw,
            module: self.module_path(function.module).to_owned(),
            address: Address(Svma(function.address)),
        }
    }

    pub fn spot(&self, (module, address): Place) -> Spot {
        Spot { address: Address(Svma(address)), source: self.source_line((module, address)) }
    }

    pub fn source_line(&self, (module, address): Place) -> Option<SourceLine> {
        let mut frames = self.symbolizer.frames(module, address);
        let is_inlined = 1 < frames.len();
        let innermost = frames.drain(..).next().filter(|frame| !frame.file.is_empty() && 0 < frame.line)?;
        let SourceFrame { file, line, function, .. } = innermost;
        let text = self.symbolizer.source_line(&file, line).map(|text| text.trim().to_owned());
        Some(SourceLine {
            text: text.filter(|text| !text.is_empty()),
            file,
            line,
            inlined: is_inlined.then_some(function),
        })
    }
}

impl FunctionLabel {
    /// `name [file]`.
    pub fn text(&self) -> String {
        format!("{} [{}]", self.short(), file_name(&self.module))
    }

    pub fn short(&self) -> String {
        brief(&self.name)
    }
}

impl Spot {
    /// The source line, else the address.
    pub fn text(&self) -> String {
        self.source.as_ref().map_or_else(|| self.address.0.to_string(), SourceLine::place)
    }
}

impl SourceLine {
    /// `deflate.c:1420`, and what was inlined there.
    pub fn place(&self) -> String {
        let inlined = self.inlined.as_deref().map(|name| format!(" ({})", brief(name)));
        format!("{}:{}{}", file_name(&self.file), self.line, inlined.unwrap_or_default())
    }
}
