//! Profiles as the tools read them: with the names of their functions, and with the files that an
//! archive brought along.

use std::path::Path;

use anyhow::Result;
use profile::model::{Function, FunctionId};
use profile::{Profile, Symbols};
use symbols::Symbolizer;

use crate::look_up;

/// Reads a profile.
pub fn open(path: &Path) -> Result<Profile> {
    Ok(store::open(path)?)
}

/// A symbolizer that knows all functions of the profile at `path` by name. Most names are in the
/// profile; only the others are looked up.
pub fn symbolizer(profile: &Profile, path: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::new(profile, &look_up::of_profile(path));
    let nameless = profile.functions.iter().filter(|row| row.name.is_empty());
    let entries: Vec<_> = nameless.map(|row| (row.module, row.address)).collect();
    symbolizer.resolve(&entries);
    symbolizer
}

/// Names of all functions, for people.
#[derive(Debug)]
pub struct Names(Vec<String>);

impl Names {
    pub fn new(profile: &Profile, symbols: &dyn Symbols) -> Names {
        Names(profile.functions.iter().map(|row| name_of(profile, symbols, row)).collect())
    }

    pub fn function(&self, id: FunctionId) -> &str {
        self.0.get(id.index()).map_or("?", String::as_str)
    }
}

/// The name of a function as `symbols` knows it, else as the profile does, else by module and
/// address.
pub fn name_of(profile: &Profile, symbols: &dyn Symbols, row: &Function) -> String {
    let known = symbols.frames(row.module, row.address).pop().map(|frame| frame.function);
    let recorded = || Some(image::demangle(&row.name));
    let named = known.filter(|name| !name.is_empty()).or_else(recorded).filter(|name| !name.is_empty());
    let module = || profile.modules.get(row.module.index()).map_or("?", |module| file_name(&module.path));
    one_line(&named.unwrap_or_else(|| format!("{}+{:#x}", module(), row.address)))
}

/// What is behind the last slash.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// Names come from files of others: what would move the cursor becomes a space.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Module, ModuleId};
    use profile::symbols::NoSymbols;

    use super::*;

    #[test]
    fn functions_without_a_name_go_by_module_and_address() {
        let function = |address, name: &str| Function {
            module: ModuleId(0),
            address,
            size: 1,
            name: name.to_owned(),
            entries: Estimate::default(),
            self_ns: Estimate::default(),
        };
        let profile = Profile {
            modules: vec![Module { path: "/usr/bin/gzip".to_owned(), build_id: String::new() }],
            functions: vec![function(0x10, "_ZN1a1bEv"), function(0x20, ""), function(0x30, "a\u{1b}[2J\n")],
            ..Profile::default()
        };
        let names = Names::new(&profile, &NoSymbols);
        let names: Vec<&str> = (0..4).map(|index| names.function(FunctionId(index))).collect();
        assert_eq!(names, ["a::b()", "gzip+0x20", "a [2J ", "?"]);
    }
}
