//! Names of the functions of a profile, for people.

use profile::Profile;
use profile::model::FunctionId;
use symbols::{Symbolizer, brief};

/// Names of all functions.
#[derive(Debug)]
pub struct Names(Vec<String>);

impl Names {
    pub fn new(profile: &Profile, symbolizer: &Symbolizer) -> Names {
        Names(profile.functions.iter().map(|row| symbolizer.readable_name(row)).collect())
    }

    pub fn function(&self, id: FunctionId) -> &str {
        self.0.get(id.index()).map_or("?", String::as_str)
    }

    /// Returns the name without parameters, result and template arguments.
    pub fn short(&self, id: FunctionId) -> String {
        brief(self.function(id))
    }
}

/// Returns what follows the last slash of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{Function, Module, ModuleId};
    use symbols::Options;

    use super::*;

    #[test]
    fn functions_have_readable_names_on_one_line() {
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
        let names = Names::new(&profile, &Symbolizer::new(&profile, &Options::offline(None)));
        let all: Vec<&str> = (0..4).map(|index| names.function(FunctionId(index))).collect();
        assert_eq!(all, ["a::b()", "fn_20", "a [2J ", "?"]);
        assert_eq!(names.short(FunctionId(0)), "a::b");
    }
}
