//! One module: what the profile says about it, what is known about its addresses, and how more
//! becomes known.

use std::fs;
use std::path::{Path, PathBuf};

use image::{FunctionName, Image, NameKind, Svma};
use profile::model::{Function, Module};
use profile::symbols::SourceFrame;

use crate::archived::ArchivedFiles;
use crate::cache::{BuildIdText, Cache, CacheKey};
use crate::error::Error;
use crate::files::{ModuleFiles, Places, Status, has_new_debug_file, status_of};
use crate::table::{Table, TableBuilder};

/// Ending of the names that stubs of the linkage table have.
const PLT_SUFFIX: &str = "@plt";

#[derive(Debug)]
pub struct ModuleSymbols {
    /// Where its file was loaded from, or where an archive has it.
    path: PathBuf,
    build_id: Option<BuildIdText>,
    /// Short of its debug data.
    file_status: Status,
    functions: Vec<KnownFunction>,
    table: Option<Table>,
    key: Option<CacheKey>,
    /// Whether the cache was asked.
    is_loaded: bool,
    /// Whether there is nothing to read.
    is_exhausted: bool,
}

/// A function as the profile has it.
#[derive(Debug)]
pub struct KnownFunction {
    pub start: u64,
    size: u64,
    name: String,
}

impl ModuleSymbols {
    pub fn new(module: &Module, archived: Option<&ArchivedFiles>) -> ModuleSymbols {
        let build_id = BuildIdText::new(&module.build_id);
        let in_archive = archived.zip(build_id.as_ref()).and_then(|(archived, build_id)| archived.binary(build_id));
        let path = in_archive.unwrap_or_else(|| PathBuf::from(&module.path));
        // Code of the kernel has a name in brackets.
        let is_file = !module.path.starts_with('[');
        let file_status = if is_file { status_of(&path, build_id.as_ref()) } else { Status::NoDebugInfo };
        let key = match &build_id {
            Some(build_id) => Some(CacheKey::of_build(build_id)),
            None => fs::metadata(&path).ok().map(|metadata| CacheKey::of_file(&path, &metadata)),
        };
        ModuleSymbols {
            path,
            build_id,
            file_status,
            functions: Vec::new(),
            table: None,
            key: key.filter(|_| is_file),
            is_loaded: false,
            is_exhausted: !is_file,
        }
    }

    /// To be followed by [`ModuleSymbols::sort_functions`].
    pub fn add_function(&mut self, function: &Function) {
        let Function { address, size, ref name, .. } = *function;
        self.functions.push(KnownFunction { start: address, size, name: name.clone() });
    }

    pub fn sort_functions(&mut self) {
        self.functions.sort_by_key(|function| function.start);
    }

    pub fn status(&self) -> Status {
        let has_lines = self.table.as_ref().is_none_or(|table| table.origin().has_lines);
        match &self.file_status {
            Status::Ok if !has_lines => Status::NoDebugInfo,
            status => status.clone(),
        }
    }

    pub fn file_that_ran(&self) -> Option<&Path> {
        (self.file_status == Status::Ok).then_some(self.path.as_path())
    }

    /// What the profile knows about the function around an address.
    pub fn function_at(&self, address: u64) -> Option<&KnownFunction> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.size.max(1)).then_some(function)
    }

    pub fn function_name(&self, address: u64) -> Option<FunctionName> {
        let answer = self.table.as_ref().and_then(|table| table.get(address));
        let symbol = answer.map(|answer| answer.symbol().to_owned()).filter(|name| !name.is_empty());
        let debug_data = || Some(answer?.frames().last()?.linkage_name).filter(|name| !name.is_empty());
        let recorded = || Some(self.function_at(address)?.name.clone()).filter(|name| !name.is_empty());
        symbol.or_else(debug_data).or_else(recorded).map(|raw| {
            let kind = if raw.ends_with(PLT_SUFFIX) { NameKind::Plt } else { NameKind::Symbol };
            FunctionName { raw, kind }
        })
    }

    /// Frames by debug data; without any, one of the function's name alone.
    pub fn frames(&self, address: u64) -> Vec<SourceFrame> {
        let answer = self.table.as_ref().and_then(|table| table.get(address));
        let frames: Vec<SourceFrame> = answer.into_iter().flat_map(|answer| answer.frames()).collect();
        if !frames.is_empty() {
            return frames;
        }
        let name = self.function_name(address);
        name.map(|name| SourceFrame { function: name.demangled(), linkage_name: name.raw, ..SourceFrame::default() })
            .into_iter()
            .collect()
    }

    /// Makes the answers for ascending addresses known, as far as there is something to know.
    pub fn resolve(&mut self, addresses: &[u64], cache: Option<&Cache>, places: Places<'_>, faults: &mut Vec<Error>) {
        if !self.is_loaded {
            self.is_loaded = true;
            self.load(cache, places);
        }
        let is_known = |address: &u64| self.table.as_ref().is_some_and(|table| table.get(*address).is_some());
        let new: Vec<u64> = addresses.iter().copied().filter(|address| !is_known(address)).collect();
        if new.is_empty() || self.is_exhausted {
            return;
        }
        let is_usable = self.file_status == Status::Ok;
        let files = ModuleFiles::read(&self.path, self.build_id.as_ref(), is_usable, places, faults);
        let Some(table) = look_up(&files, &new, self.table.as_ref()) else {
            self.is_exhausted = true;
            return;
        };
        if let (Some(cache), Some(key)) = (cache, &self.key) {
            cache.keep(key, &table);
        }
        self.table = Some(table);
    }

    /// Takes the answers of earlier runs, unless better ones can be had now.
    fn load(&mut self, cache: Option<&Cache>, places: Places<'_>) {
        let kept = cache.zip(self.key.as_ref()).and_then(|(cache, key)| cache.load(key));
        self.table = kept.filter(|table| {
            let origin = table.origin();
            let is_new = || has_new_debug_file(&self.path, self.build_id.as_ref(), places.archived, &origin);
            origin.has_lines || !(places.debuginfod.is_some() || is_new())
        });
    }
}

/// The answers for new addresses, with those known before; nothing if there is no file to look
/// into.
fn look_up(files: &ModuleFiles, new: &[u64], known: Option<&Table>) -> Option<Table> {
    let image = files.image();
    let sections = files.lines();
    let lines = sections.as_ref().and_then(|sections| sections.table().ok());
    if image.is_none() && lines.is_none() {
        return None;
    }
    let mut builder = TableBuilder::new();
    for &address in new {
        let symbol = image.as_ref().and_then(|image| covering_symbol(image, Svma(address))).unwrap_or_default();
        let found = lines.as_ref().map(|lines| lines.frames_at(Svma(address))).unwrap_or_default();
        let mut frames: Vec<SourceFrame> = found.into_iter().map(source_frame).collect();
        if let Some(outermost) = frames.last_mut() {
            name_by_symbol(outermost, &symbol);
        }
        builder.add(address, &symbol, &frames);
    }
    let origin = files.origin(lines.is_some());
    if let Some(known) = known.filter(|known| known.origin() == origin) {
        builder.absorb(known);
    }
    builder.finish(&origin)
}

/// A frame as profiles have it.
fn source_frame(frame: image::SourceFrame) -> SourceFrame {
    SourceFrame {
        function: frame.function.unwrap_or_default(),
        linkage_name: frame.linkage_name.unwrap_or_default(),
        file: frame.file.unwrap_or_default(),
        line: frame.line.unwrap_or(0),
        discriminator: frame.discriminator,
        function_line: frame.function_line.unwrap_or(0),
    }
}

/// Linkage name of the function or stub that an address lies in.
fn covering_symbol(image: &Image<'_>, address: Svma) -> Option<String> {
    let seeds = image.functions();
    let seed = seeds.get(seeds.partition_point(|seed| seed.start <= address).checked_sub(1)?)?;
    let is_inside = match seed.size {
        Some(size) => address - seed.start < size,
        None => {
            image.code_regions().iter().any(|region| [seed.start, address].iter().all(|&at| region.range.contains(at)))
        }
    };
    let name = is_inside.then(|| image.name_of(seed.start))?;
    (name.kind != NameKind::Synthetic).then_some(name.raw)
}

/// Compilers leave the linkage name out where no other unit can refer to it, and the name then
/// lacks its namespace.
fn name_by_symbol(frame: &mut SourceFrame, symbol: &str) {
    let is_mangled = |name: &str| name.starts_with("_Z") || name.starts_with("_R");
    if frame.linkage_name.is_empty() || (is_mangled(symbol) && !is_mangled(&frame.linkage_name)) {
        frame.linkage_name = symbol.to_owned();
        frame.function = image::demangle(symbol);
    }
}
