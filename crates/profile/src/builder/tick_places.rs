//! Where ticks hit, to the address, and how the paths that they hit went on.

use rustc_hash::FxHashMap;

use super::suffix::Suffix;
use super::time::TickTime;
use super::ways::Sequel;
use crate::model::ModuleId;

/// Time by place. Memory grows with the code that ticks hit, and with what follows it up to
/// [`MAX_ONWARD`], not with the length of the run.
#[derive(Debug, Default)]
pub(super) struct TickPlaces {
    times: FxHashMap<(ModuleId, u64, Option<OnwardId>), TickTime>,
    onward: Vec<Onward>,
    ids: FxHashMap<Onward, OnwardId>,
}

/// What a thread did behind a tick.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Onward {
    /// The rest of the path.
    pub suffix: Suffix,
    /// What came after it.
    pub sequel: Sequel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct OnwardId(u32);

/// Beyond this, ticks are told apart by the rest of their path only.
const MAX_ONWARD: usize = 1 << 16;

/// Ticks that agree in their address and in what followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickGroup<'a> {
    pub module: ModuleId,
    pub address: u64,
    /// Nothing for ticks without a burst.
    pub onward: Option<&'a Onward>,
    pub time: TickTime,
}

impl TickPlaces {
    pub fn add(&mut self, module: ModuleId, address: u64, onward: Option<Onward>, cpu_ns: f64) {
        let onward = onward.map(|onward| self.id(onward));
        self.times.entry((module, address, onward)).or_default().add(cpu_ns);
    }

    /// All groups, in an order that depends on what was added only: those of an address are
    /// neighbours.
    pub fn groups(&self) -> Vec<TickGroup<'_>> {
        let mut keys: Vec<_> = self.times.iter().collect();
        keys.sort_unstable_by_key(|(key, _)| **key);
        let group = |(&(module, address, onward), &time): (&(ModuleId, u64, Option<OnwardId>), &TickTime)| TickGroup {
            module,
            address,
            onward: onward.map(|id| &self.onward[id.0 as usize]),
            time,
        };
        keys.into_iter().map(group).collect()
    }

    /// Addresses in a module that ticks hit.
    pub fn addresses(&self, module: ModuleId) -> Vec<u64> {
        let own = self.times.keys().filter(|&&(of, ..)| of == module);
        own.map(|&(_, address, _)| address).collect()
    }

    fn id(&mut self, onward: Onward) -> OnwardId {
        let TickPlaces { onward: all, ids, .. } = self;
        let onward = match all.len() < MAX_ONWARD {
            true => onward,
            false => Onward { sequel: Sequel::NOTHING, ..onward },
        };
        if let Some(&id) = ids.get(&onward) {
            return id;
        }
        let id = OnwardId(all.len() as u32);
        all.push(onward.clone());
        ids.insert(onward, id);
        id
    }
}
