//! Where ticks hit, to the address, and how the paths that they hit went on.

use rustc_hash::FxHashMap;

use super::suffix::Suffix;
use super::time::TickTime;
use crate::model::ModuleId;

/// Time by place. Memory grows with the code that ticks hit, not with the length of the run.
#[derive(Debug, Default)]
pub(super) struct TickPlaces {
    times: FxHashMap<(ModuleId, u64, Option<SuffixId>), TickTime>,
    suffixes: Vec<Suffix>,
    ids: FxHashMap<Suffix, SuffixId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SuffixId(u32);

/// Ticks that agree in their address and in what followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickGroup<'a> {
    pub module: ModuleId,
    pub address: u64,
    /// Nothing for ticks without a burst.
    pub suffix: Option<&'a Suffix>,
    pub time: TickTime,
}

impl TickPlaces {
    pub fn add(&mut self, module: ModuleId, address: u64, suffix: Option<Suffix>, cpu_ns: f64) {
        let suffix = suffix.map(|suffix| self.id(suffix));
        self.times.entry((module, address, suffix)).or_default().add(cpu_ns);
    }

    /// All groups, in an order that depends on what was added only.
    pub fn groups(&self) -> Vec<TickGroup<'_>> {
        let mut keys: Vec<_> = self.times.iter().collect();
        keys.sort_unstable_by_key(|(key, _)| **key);
        let group = |(&(module, address, suffix), &time): (&(ModuleId, u64, Option<SuffixId>), &TickTime)| TickGroup {
            module,
            address,
            suffix: suffix.map(|id| &self.suffixes[id.0 as usize]),
            time,
        };
        keys.into_iter().map(group).collect()
    }

    /// Addresses in a module that ticks hit.
    pub fn addresses(&self, module: ModuleId) -> Vec<u64> {
        let own = self.times.keys().filter(|&&(of, ..)| of == module);
        own.map(|&(_, address, _)| address).collect()
    }

    fn id(&mut self, suffix: Suffix) -> SuffixId {
        let TickPlaces { suffixes, ids, .. } = self;
        if let Some(&id) = ids.get(&suffix) {
            return id;
        }
        let id = SuffixId(suffixes.len() as u32);
        suffixes.push(suffix.clone());
        ids.insert(suffix, id);
        id
    }
}
