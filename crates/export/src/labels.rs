//! Names of functions for people.

use profile::model::FunctionId;
use profile::{Profile, Symbols};

/// The frame that kernel time is shown in.
pub(crate) const KERNEL: &str = "[kernel]";

/// One name per function: demangled if the symbols know it, else the linkage name, else module and
/// address.
#[derive(Debug)]
pub(crate) struct Labels {
    names: Vec<String>,
}

impl Labels {
    pub fn new(profile: &Profile, symbols: &dyn Symbols) -> Labels {
        let names = profile.functions.iter().map(|function| {
            let known = symbols.frames(function.module, function.address).pop().map(|frame| frame.function);
            let known = known.filter(|name| !name.is_empty());
            known.or_else(|| Some(function.name.clone()).filter(|name| !name.is_empty())).unwrap_or_else(|| {
                let module = &profile.modules[function.module.index()].path;
                format!("{}+{:#x}", file_name(module), function.address)
            })
        });
        Labels { names: names.collect() }
    }

    pub fn function(&self, function: FunctionId) -> &str {
        &self.names[function.index()]
    }

    /// By handle.
    pub fn all(&self) -> &[String] {
        &self.names
    }
}

/// What is behind the last slash.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// Name of the program that was recorded.
pub(crate) fn program(profile: &Profile) -> &str {
    let command = profile.threads.first().and_then(|thread| thread.command.split_whitespace().next());
    let path = command.or_else(|| profile.modules.first().map(|module| module.path.as_str()));
    path.map(file_name).filter(|name| !name.is_empty()).unwrap_or("program")
}

/// A name on one line: control characters become spaces.
pub(crate) fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
