//! Contexts, recursions and system calls.
//!
//! When the code of a module comes late, addresses that were functions of their own until then turn
//! out to be one function. So the tree is folded once more, by the functions as they are known now.

use std::collections::BTreeMap;

use super::Functions;
use crate::builder::Builder;
use crate::builder::events::Event;
use crate::builder::ids::ContextKey;
use crate::builder::shrink::Shrink;
use crate::builder::time::TickTime;
use crate::estimate::Estimate;
use crate::model::{Context, ContextId, FunctionId, ModuleId, Profile, Recursion, SystemCall};

/// The tree by functions as they are known now.
#[derive(Debug, Default)]
struct Folded {
    rows: Vec<(Option<ContextId>, FunctionId)>,
    by_key: BTreeMap<(Option<ContextId>, FunctionId), ContextId>,
    /// By [`ContextKey`].
    ids: Vec<ContextId>,
}

/// Makes the rows; those of functions are there.
pub(super) fn fill(builder: &Builder, functions: &Functions, estimates: &[Estimate], profile: &mut Profile) {
    let folded = Folded::new(builder, functions);
    let mut entries = vec![Estimate::default(); folded.rows.len()];
    let mut recursions: BTreeMap<(ContextId, ContextId), Estimate> = BTreeMap::new();
    for (event, what) in builder.tables.known.events.iter() {
        let estimate = estimates[event.index()];
        let (from, to) = match what {
            Event::Context(to) => (builder.tables.contexts.get(to).and_then(|row| folded.id(row.parent)), to),
            Event::Recursion { from, to } => (folded.id(from), to),
            _ => continue,
        };
        let Some(to) = folded.id(to) else { continue };
        match from.filter(|_| folded.rows[to.index()].0 != from) {
            Some(from) if estimate != Estimate::default() => *recursions.entry((from, to)).or_default() += estimate,
            Some(_) => {}
            None => entries[to.index()] += estimate,
        }
    }
    folded.draw_together(&mut entries);
    profile.recursions = recursions.into_iter().map(|((from, to), count)| Recursion { from, to, count }).collect();
    profile.contexts = folded.with_time(builder, entries);
    profile.system_calls = system_calls(builder, &folded);
}

fn system_calls(builder: &Builder, folded: &Folded) -> Vec<SystemCall> {
    let mut times: BTreeMap<(ContextId, Option<ModuleId>, u64), TickTime> = BTreeMap::new();
    for (&(context, module, address), &time) in &builder.system_calls {
        if let Some(context) = folded.id(context) {
            *times.entry((context, module, address)).or_default() += time;
        }
    }
    let row = |((context, module, address), time)| {
        let kernel_ns = builder.total.estimate(time);
        SystemCall { context, module, address, kernel_ns }
    };
    times.into_iter().map(row).collect()
}

impl Folded {
    fn new(builder: &Builder, functions: &Functions) -> Folded {
        let mut folded = Folded::default();
        for (_, row) in builder.tables.contexts.iter() {
            let (parent, function) = (folded.id(row.parent), functions.id(row.function));
            let id = folded.ancestor_with(parent, function).unwrap_or_else(|| folded.add(parent, function));
            folded.ids.push(id);
        }
        folded
    }

    fn id(&self, context: ContextKey) -> Option<ContextId> {
        self.ids.get(context.index()).copied()
    }

    fn ancestor_with(&self, from: Option<ContextId>, function: FunctionId) -> Option<ContextId> {
        let mut next = from;
        while let Some(id) = next {
            let (parent, of) = self.rows[id.index()];
            if of == function {
                return Some(id);
            }
            next = parent;
        }
        None
    }

    fn add(&mut self, parent: Option<ContextId>, function: FunctionId) -> ContextId {
        let rows = &mut self.rows;
        *self.by_key.entry((parent, function)).or_insert_with(|| {
            rows.push((parent, function));
            ContextId(rows.len() as u32 - 1)
        })
    }

    /// Weights say how often a function is entered; in which of its contexts, they say only where
    /// contexts are in many bursts.
    fn draw_together(&self, entries: &mut [Estimate]) {
        let mut of_functions: BTreeMap<FunctionId, Vec<usize>> = BTreeMap::new();
        for (index, &(_, function)) in self.rows.iter().enumerate() {
            of_functions.entry(function).or_default().push(index);
        }
        for contexts in of_functions.values().filter(|contexts| contexts.len() > 1) {
            let pairs = contexts.iter().map(|&index| (entries[index], entries[index].seen as f64));
            let shrink = Shrink::of(pairs);
            for &index in contexts {
                let entry = &mut entries[index];
                entry.value = shrink.apply(entry.value, entry.seen as f64);
            }
        }
    }

    fn with_time(&self, builder: &Builder, entries: Vec<Estimate>) -> Vec<Context> {
        let mut times = vec![(TickTime::default(), TickTime::default()); self.rows.len()];
        for (key, row) in builder.tables.contexts.iter() {
            if let Some(id) = self.id(key) {
                times[id.index()].0 += row.user;
                times[id.index()].1 += row.kernel;
            }
        }
        let rows = self.rows.iter().zip(entries).zip(times);
        let row = |((&(parent, function), entries), (user, kernel))| {
            let (self_ns, kernel_ns) = (builder.total.estimate(user), builder.total.estimate(kernel));
            Context { parent, function, call_site: None, entries, self_ns, kernel_ns, misses: 0 }
        };
        rows.map(row).collect()
    }
}
