//! Names of functions in a profile that grows: looked up once, when a function is first shown.

use profile::Profile;
use profile::model::FunctionId;
use rustc_hash::FxHashMap;
use symbols::{Symbolizer, brief};

use crate::look_up;

/// Names by module and address, which stay the same while handles need not.
#[derive(Debug, Default)]
pub struct KnownNames {
    names: FxHashMap<(String, u64), String>,
}

impl KnownNames {
    /// The names of some functions, in their order.
    pub fn of(&mut self, profile: &Profile, functions: &[FunctionId]) -> Vec<String> {
        let key = |id: &FunctionId| {
            let row = &profile.functions[id.index()];
            (profile.modules[row.module.index()].path.clone(), row.address)
        };
        if functions.iter().any(|id| !self.names.contains_key(&key(id))) {
            let new: Vec<FunctionId> =
                functions.iter().copied().filter(|id| !self.names.contains_key(&key(id))).collect();
            let symbolizer = resolved(profile, &new);
            let name = |id: &FunctionId| brief(&symbolizer.readable_name(&profile.functions[id.index()]));
            self.names.extend(new.iter().map(|id| (key(id), name(id))));
        }
        functions.iter().map(|id| self.names.get(&key(id)).cloned().unwrap_or_default()).collect()
    }
}

fn resolved(profile: &Profile, functions: &[FunctionId]) -> Symbolizer {
    let mut symbolizer = Symbolizer::new(profile, &look_up::quietly());
    let rows = functions.iter().map(|id| &profile.functions[id.index()]).filter(|row| row.name.is_empty());
    let places: Vec<_> = rows.map(|row| (row.module, row.address)).collect();
    if !places.is_empty() {
        symbolizer.resolve(&places);
    }
    symbolizer
}
