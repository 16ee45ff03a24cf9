//! The look-up of many addresses at once.
//!
//! [`Symbolizer::resolve`] takes all addresses that will be shown and looks each up once: one
//! module at a time, in ascending order, so that every unit of debug data is parsed once and only
//! one module is in memory. Answers are kept on disk by build-id ([`crate::cache`]); the next run
//! on the same profile reads no binary beyond its build-id, and shows names even when the binary is
//! gone. After that, [`Symbolizer`] answers from memory.
//!
//! Nothing here fails. A module that is missing, rebuilt or unreadable has a [`Status`] to be shown
//! once, and its addresses have the names that the profile itself holds, or names made of the
//! addresses.

use std::path::Path;
use std::sync::Arc;

use image::{FunctionName, NameKind, Svma};
use profile::model::{Function, ModuleId};
use profile::symbols::SourceFrame;
use profile::{Profile, Symbols};

use crate::archived::ArchivedFiles;
use crate::cache::Cache;
use crate::debuginfod::Debuginfod;
use crate::error::Error;
use crate::files::{Places, Status};
use crate::module::ModuleSymbols;
use crate::options::Options;
use crate::progress::{Progress, Step};
use crate::source::SourceFiles;

/// Stands for all code of a module whose functions are not known.
const UNKNOWN_CODE: &str = "(unknown code)";

/// Knows the names and lines of the addresses it was given to resolve; of others, what the profile
/// says.
#[derive(Debug)]
pub struct Symbolizer {
    modules: Vec<ModuleSymbols>,
    cache: Option<Cache>,
    debuginfod: Option<Debuginfod>,
    archived: Option<ArchivedFiles>,
    progress: Option<Arc<dyn Progress>>,
    sources: SourceFiles,
    faults: Vec<Error>,
}

impl Symbolizer {
    /// Checks the files of a profile's modules; names are looked up by [`Symbolizer::resolve`].
    pub fn new(profile: &Profile, options: &Options) -> Symbolizer {
        let archived = options.archived.clone();
        let modules = profile.modules.iter().map(|module| ModuleSymbols::new(module, archived.as_ref()));
        let mut modules: Vec<ModuleSymbols> = modules.collect();
        for function in &profile.functions {
            if let Some(module) = modules.get_mut(function.module.index()) {
                module.add_function(function);
            }
        }
        modules.iter_mut().for_each(ModuleSymbols::sort_functions);
        let mut faults = Vec::new();
        let base = options.cache.as_deref();
        let debuginfod = base.filter(|_| !options.servers.is_empty()).and_then(|base| {
            let client = Debuginfod::new(base, options);
            client.map_err(|fault| faults.push(fault)).ok()
        });
        Symbolizer {
            modules,
            cache: base.and_then(Cache::open),
            debuginfod,
            archived,
            progress: options.progress.clone(),
            sources: SourceFiles::default(),
            faults,
        }
    }

    /// Looks up all addresses that are not known yet. Addresses are those of the module's file, in
    /// any order.
    pub fn resolve(&mut self, wanted: &[(ModuleId, u64)]) {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        if let Some(progress) = &self.progress {
            progress.step(Step::Reading);
        }
        let places = Places { archived: self.archived.as_ref(), debuginfod: self.debuginfod.as_ref() };
        for group in wanted.chunk_by(|a, b| a.0 == b.0) {
            let addresses: Vec<u64> = group.iter().map(|&(_, address)| address).collect();
            let module = group.first().and_then(|(module, _)| self.modules.get_mut(module.index()));
            if let Some(module) = module {
                module.resolve(&addresses, self.cache.as_ref(), places, &mut self.faults);
            }
        }
        if let Some(progress) = &self.progress {
            progress.step(Step::Done);
        }
    }

    /// The function that an address belongs to: as the file's symbols or debug data name it, else
    /// as the profile does, else by a name made of its address.
    pub fn function_name(&self, module: ModuleId, address: u64) -> FunctionName {
        let name = self.module(module).and_then(|module| module.function_name(address));
        name.unwrap_or_else(|| {
            let function = self.module(module).and_then(|module| module.function_at(address));
            let start = Svma(function.map_or(address, |function| function.start));
            FunctionName { raw: format!("fn_{start:x}"), kind: NameKind::Synthetic }
        })
    }

    /// The name that a function has in every view: readable, on one line.
    pub fn readable_name(&self, row: &Function) -> String {
        // Ticks in code of a module before its functions were known.
        if row.address == 0 && row.size == 0 {
            return UNKNOWN_CODE.to_owned();
        }
        // Names come from files of others: what would move the cursor becomes a space.
        let name = self.function_name(row.module, row.address).demangled();
        name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// A line of a source file, counted from 1; nothing if the file is not on this machine.
    pub fn source_line(&self, file: &str, number: u32) -> Option<String> {
        self.sources.line(file, number)
    }

    /// What became of a module's file. Whether it has debug data is known once one of its addresses
    /// was resolved.
    pub fn status(&self, module: ModuleId) -> Status {
        self.module(module).map_or(Status::Missing, ModuleSymbols::status)
    }

    /// The file of a module that ran; nothing if it is gone or rebuilt.
    pub fn file_that_ran(&self, module: ModuleId) -> Option<&Path> {
        self.module(module).and_then(ModuleSymbols::file_that_ran)
    }

    /// What went wrong with debuginfod.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    fn module(&self, module: ModuleId) -> Option<&ModuleSymbols> {
        self.modules.get(module.index())
    }
}

impl Symbols for Symbolizer {
    fn frames(&self, module: ModuleId, address: u64) -> Vec<SourceFrame> {
        self.module(module).map(|module| module.frames(address)).unwrap_or_default()
    }
}
