//! A program or library, read and analyzed.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use flow::{Executor, FunctionFlow, ModuleFlow};
use image::{DebugLinks, Image, LineSections, Svma};
use symbols::debug_files::{self, DebugFile};

use crate::input;
use crate::progress::Progress;
use crate::props::ModuleProps;
use recorder::Threads;

/// The bytes that an analysis borrows.
#[derive(Debug)]
pub struct Files {
    pub path: PathBuf,
    binary: Vec<u8>,
    debug: Option<DebugFile>,
    alternate: Option<DebugFile>,
    read_time: Duration,
}

impl Files {
    /// Reads the binary, and the debug files that belong to it if they are wanted.
    pub fn read(props: &ModuleProps, progress: &Progress) -> Result<Files> {
        progress.show("reading");
        let started = Instant::now();
        let path = props.binary.clone();
        let binary = input::read_binary(&path)?;
        let links = DebugLinks::of_file(&binary).with_context(|| path.display().to_string())?;
        let debug = props.use_debug_files.then(|| debug_files::find(&path, &links)).flatten();
        let (naming_file, alternate) = match &debug {
            Some(file) => (&file.path, DebugLinks::of_file(&file.bytes).ok().and_then(|links| links.alternate)),
            None => (&path, links.alternate),
        };
        let alternate = alternate.filter(|_| props.use_debug_files);
        let alternate = alternate.and_then(|link| debug_files::find_alternate(naming_file, &link));
        Ok(Files { binary, debug, alternate, read_time: started.elapsed(), path })
    }

    /// The debug files that were found; a wrong one is a fault of [`Files::parse`].
    pub fn debug_files(&self) -> impl Iterator<Item = &DebugFile> {
        self.debug.iter().chain(&self.alternate)
    }

    /// The image with the symbols of the debug file, or without them and the reason.
    pub fn parse(&self) -> Result<(Image<'_>, Option<String>)> {
        let parse = || Image::parse(&self.binary).with_context(|| self.path.display().to_string());
        let Some(debug) = &self.debug else { return Ok((parse()?, None)) };
        match parse()?.with_debug_file(&debug.bytes) {
            Ok(image) => Ok((image, None)),
            Err(fault) => Ok((parse()?, Some(format!("{}: {fault}", debug.path.display())))),
        }
    }

    /// Source lines, from the debug file or else from the binary; `None` if there are none that can
    /// be read.
    pub fn lines(&self) -> Option<LineSections<'_>> {
        let alternate = self.alternate.as_ref().map(|file| file.bytes.as_slice());
        let debug = self.debug.as_ref().and_then(|file| LineSections::read(&file.bytes, alternate).ok());
        debug.or_else(|| LineSections::read(&self.binary, alternate).ok())
    }
}

/// Everything known about a module.
#[derive(Debug)]
pub struct Module<'f> {
    pub files: &'f Files,
    pub image: Image<'f>,
    pub flow: ModuleFlow,
    pub threads: Threads,
    /// What was done so far, and how long it took.
    pub stages: Vec<(&'static str, Duration)>,
    /// Why a debug file was not used.
    pub debug_file_fault: Option<String>,
}

impl<'f> Module<'f> {
    pub fn analyze(files: &'f Files, props: &ModuleProps, progress: &Progress) -> Result<Module<'f>> {
        progress.show("parsing");
        let started = Instant::now();
        let (image, debug_file_fault) = files.parse()?;
        let parsed = Instant::now();
        progress.show("analyzing control flow");
        let threads = Threads(props.n_threads);
        let flow = flow::analyze(&image, &threads);
        let stages = vec![("read", files.read_time), ("parse", parsed - started), ("analyze", parsed.elapsed())];
        Ok(Module { files, image, flow, threads, stages, debug_file_fault })
    }

    /// Applies `work` to every function, on all threads, and notes how long that took.
    pub fn map_functions<R: Send>(
        &mut self,
        stage: &'static str,
        work: impl Fn(&Image<'f>, &FunctionFlow) -> R + Sync,
    ) -> Vec<R> {
        let started = Instant::now();
        let results = self.threads.map(&self.flow.functions, |function| work(&self.image, function));
        self.stages.push((stage, started.elapsed()));
        results
    }

    /// The readable name of a function.
    pub fn name(&self, function: &FunctionFlow) -> String {
        self.image.name_of(function.entry).demangled()
    }

    /// What is at an address: a function, an import's slot or a variable, with the distance from
    /// its start.
    pub fn describe(&self, at: Svma) -> Option<String> {
        if let Some(import) = self.image.import_at(at) {
            return Some(format!("{}@got", image::demangle(import)));
        }
        if let Some(function) = self.flow.function_at(at) {
            return Some(with_distance(self.name(function), function.entry, at));
        }
        let symbols = self.image.symbols();
        let before = &symbols[..symbols.partition_point(|symbol| symbol.address <= at)];
        let last = before.last()?;
        let first_named = before.partition_point(|symbol| symbol.address < last.address);
        let symbol = &before[first_named];
        let is_inside = at == symbol.address || at - symbol.address < symbol.size;
        is_inside.then(|| with_distance(image::demangle(&symbol.name), symbol.address, at))
    }
}

/// Split-off parts of a function can lie before its start.
fn with_distance(name: String, start: Svma, at: Svma) -> String {
    match at.cmp(&start) {
        Ordering::Less => format!("{name}-{:#x}", start - at),
        Ordering::Equal => name,
        Ordering::Greater => format!("{name}+{:#x}", at - start),
    }
}
