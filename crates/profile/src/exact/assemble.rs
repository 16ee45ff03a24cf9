//! From counts to the profile's tables.
//!
//! Rows are in the order of module and address. There is one for what ran, for what these rows
//! refer to, and for the direction of a branch that ran and never went there.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::contexts::{ContextNumber, CountedContext, CountedContexts, PathNumber};
use super::rows::ModuleRows;
use super::{CodePlace, Counted, loops};
use crate::estimate::Estimate;
use crate::model::{Context, ContextId, ContextPath, Function, FunctionId, ModuleId, PathId, Profile, Recursion};

pub(super) fn profile(modules: &[Counted], contexts: &CountedContexts) -> Profile {
    let mut n_blocks = 0;
    let rows: Vec<ModuleRows<'_>> = modules.iter().map(|counted| ModuleRows::new(counted, &mut n_blocks)).collect();
    let functions = Functions::new(&rows, &contexts.rows);
    let mut profile = Profile {
        modules: modules.iter().map(|counted| counted.facts.clone()).collect(),
        functions: functions.rows(modules),
        ..Profile::default()
    };
    let mut paths: FxHashMap<PathNumber, PathId> = FxHashMap::default();
    for (module, rows) in (0..).map(ModuleId).zip(&rows) {
        let function_of = |index| functions.id(modules, CodePlace { module, index });
        rows.fill_blocks(function_of, &mut profile);
        rows.fill_edges(&mut profile);
        rows.fill_paths(&mut profile, |number, id| {
            paths.insert(PathNumber { module, number }, id);
        });
        rows.fill_calls(|callee| functions.id(modules, callee), &mut profile);
        loops::fill(rows, &mut profile);
    }
    profile.contexts =
        contexts.rows.iter().filter_map(|row| Some(context(row, functions.id(modules, row.function)?))).collect();
    // Contexts have the times of all that ran in them, paths only those of whole ones.
    let has_times = profile.contexts.iter().any(|row| row.self_ns.value > 0.0);
    let of_contexts = profile.contexts.iter().map(|row| (row.function, row.self_ns));
    let of_paths = profile.paths.iter().filter(|_| !has_times).map(|row| (row.function, row.self_ns));
    for (function, self_ns) in of_contexts.chain(of_paths) {
        if let Some(function) = profile.functions.get_mut(function.index()) {
            function.self_ns += self_ns;
        }
    }
    profile.recursions = contexts.recursions.iter().map(|(&(from, to), &n)| recursion(from, to, n)).collect();
    let by_context = contexts.paths.iter().filter(|(_, here)| here.n != 0).filter_map(|(&(context, path), here)| {
        let (ContextNumber(context), path) = (context, *paths.get(&path)?);
        let (count, self_ns) = (Estimate::exact(here.n), Estimate::measured(here.self_ns));
        Some(ContextPath { context: ContextId(context), path, count, self_ns, misses: here.misses })
    });
    profile.context_paths = by_context.collect();
    profile.context_paths.sort_by_key(|row| (row.context, row.path));
    profile
}

fn context(row: &CountedContext, function: FunctionId) -> Context {
    let parent = row.parent.map(|ContextNumber(parent)| ContextId(parent));
    let (self_ns, kernel_ns) = (Estimate::measured(row.self_ns), Estimate::default());
    let (call_site, entries) = (row.call_site, Estimate::exact(row.n_calls));
    Context { parent, function, call_site, entries, self_ns, kernel_ns, misses: row.misses }
}

fn recursion(ContextNumber(from): ContextNumber, ContextNumber(to): ContextNumber, n: u64) -> Recursion {
    Recursion { from: ContextId(from), to: ContextId(to), count: Estimate::exact(n) }
}

/// The functions of a profile, by module and address.
struct Functions(BTreeMap<(ModuleId, u64), FunctionId>);

impl Functions {
    /// Functions with a block or an entry, callees, and those of contexts.
    fn new(modules: &[ModuleRows<'_>], contexts: &[CountedContext]) -> Functions {
        let mut keys = BTreeMap::new();
        let counted: Vec<&Counted> = modules.iter().map(|rows| rows.counted).collect();
        for (module, rows) in (0..).map(ModuleId).zip(modules) {
            let entered = (0..).zip(&rows.counted.entries).filter(|&(_, &n)| n != 0).map(|(index, _)| index);
            let with_blocks = rows.blocks().map(|(_, block)| block.function);
            let own = entered.chain(with_blocks).map(|index| CodePlace { module, index });
            let callees = rows.counted.calls.keys().map(|call| call.callee);
            let found = own.chain(callees).filter_map(|place| {
                let counted = counted.get(place.module.index())?;
                Some((counted.function_key(place)?, FunctionId(0)))
            });
            keys.extend(found);
        }
        let of_contexts = contexts.iter().filter_map(|context| {
            let counted = counted.get(context.function.module.index())?;
            Some((counted.function_key(context.function)?, FunctionId(0)))
        });
        keys.extend(of_contexts);
        keys.values_mut().zip(0..).for_each(|(id, number)| *id = FunctionId(number));
        Functions(keys)
    }

    fn id(&self, modules: &[Counted], place: CodePlace) -> Option<FunctionId> {
        let key = modules.get(place.module.index())?.function_key(place)?;
        self.0.get(&key).copied()
    }

    fn rows(&self, modules: &[Counted]) -> Vec<Function> {
        let row = |&(module, address): &(ModuleId, u64)| {
            let (entries, self_ns) = (Estimate::default(), Estimate::default());
            Function { module, address, size: 0, name: String::new(), entries, self_ns }
        };
        let mut rows: Vec<Function> = self.0.keys().map(row).collect();
        for (module, counted) in (0..).map(ModuleId).zip(modules) {
            for (index, (function, &n)) in (0..).zip(counted.code.functions.iter().zip(&counted.entries)) {
                let id = self.id(modules, CodePlace { module, index });
                if let Some(row) = id.and_then(|id| rows.get_mut(id.index())) {
                    row.size = row.size.max(function.size);
                    row.entries += Estimate::exact(n);
                }
            }
        }
        rows
    }
}

impl Counted {
    fn function_key(&self, place: CodePlace) -> Option<(ModuleId, u64)> {
        Some((place.module, self.code.functions.get(place.index as usize)?.address))
    }
}
