//! Calling contexts of exact mode: from the tables of threads to one tree.
//!
//! Threads have tables of their own, in which a context is a place ([`wire::exact`]). Here,
//! contexts of the same functions, called in the same way, are the same node, whichever thread or
//! process they come from. Functions have numbers that are good for the process only and become
//! those of modules.
//!
//! Where call sites are told apart, a call is a node, too, between caller and callee. In the
//! profile it is a property of the callee's context.

use emit::CellKind;
use profile::exact::{CodePlace, ContextNumber, ExactBuilder, PathNumber};
use profile::model::ModuleId;
use rustc_hash::{FxHashMap, FxHashSet};
use wire::exact::{ContextEntry, LOST_CONTEXT, ROOT_CONTEXT};

use super::Unit;
use crate::error::Result;

/// A function of a module, by its number among those that have one.
pub type Callee = (ModuleId, u32);

/// The calling context tree of all threads.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    children: FxHashMap<(Option<u32>, Callee), u32>,
    recursions: FxHashMap<(u32, u32), u64>,
    /// By node and number of the path: how often, and how much of the metric.
    paths: FxHashMap<(u32, u32), (u64, u64)>,
    /// Calls whose caller is not known because a table was full.
    pub n_lost: u64,
}

#[derive(Debug)]
struct Node {
    parent: Option<u32>,
    callee: Callee,
    n_calls: u64,
    metric: u64,
}

/// The contexts of one thread area.
#[derive(Debug, Default)]
pub struct AreaContexts {
    entries: FxHashMap<u32, ContextEntry>,
    nodes: FxHashMap<u32, u32>,
}

impl AreaContexts {
    pub fn insert(&mut self, place: u32, entry: ContextEntry) {
        self.entries.insert(place, entry);
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of the function whose context is at a place.
    pub fn function_at(&self, place: u32) -> Option<u32> {
        Some((self.entries.get(&place)?.key >> 32) as u32)
    }
}

impl Tree {
    /// Adds the contexts of an area. `callee_of` knows functions by their numbers in the process.
    pub fn add(&mut self, area: &mut AreaContexts, callee_of: &dyn Fn(u32) -> Option<Callee>) {
        let mut places: Vec<u32> = area.entries.keys().copied().collect();
        places.sort_unstable();
        for place in places {
            let Some(&entry) = area.entries.get(&place).filter(|entry| entry.count != 0) else { continue };
            let caller = entry.key as u32;
            if caller == LOST_CONTEXT {
                self.n_lost += entry.count;
            }
            if entry.context == place {
                if let Some(node) = self.node(area, place, callee_of) {
                    let node = &mut self.nodes[node as usize];
                    node.n_calls += entry.count;
                    node.metric += entry.metric;
                }
            } else if let Some(to) = self.node(area, entry.context, callee_of)
                && let Some(from) = self.node(area, caller, callee_of)
            {
                *self.recursions.entry((from, to)).or_default() += entry.count;
            }
        }
    }

    /// Adds a path that ran so often, with so much of the metric, in the context at a place of an
    /// area that was added.
    pub fn add_path(&mut self, area: &AreaContexts, place: u32, path: u32, (count, metric): (u64, u64)) {
        if let Some(&node) = area.nodes.get(&place) {
            let sum = self.paths.entry((node, path)).or_default();
            *sum = (sum.0.saturating_add(count), sum.1.saturating_add(metric));
            let node = &mut self.nodes[node as usize];
            node.metric = node.metric.saturating_add(metric);
        }
    }

    /// How often functions that have no paths were called.
    pub fn n_calls_without_paths(&self, places: &Places) -> u64 {
        let is_without = |node: u32| {
            let callee = self.nodes.get(node as usize).and_then(|node| places.functions.get(&node.callee));
            callee.is_some_and(|place| places.without_paths.contains(place))
        };
        let entered = (0..).zip(&self.nodes).map(|(node, row)| (node, row.n_calls));
        let again = self.recursions.iter().map(|(&(_, to), &n)| (to, n));
        entered.chain(again).filter(|&(node, _)| is_without(node)).map(|(_, n)| n).fold(0, u64::saturating_add)
    }

    /// Hands on how often each context was entered: the function, or the call, that it is of.
    pub fn for_each_entry(&self, sink: &mut dyn FnMut(Callee, u64)) {
        for node in &self.nodes {
            sink(node.callee, node.n_calls);
        }
        for (&(_, to), &n) in &self.recursions {
            if let Some(node) = self.nodes.get(to as usize) {
                sink(node.callee, n);
            }
        }
    }

    /// The node of the context at a place; contexts around it come first.
    fn node(&mut self, area: &mut AreaContexts, place: u32, callee_of: &dyn Fn(u32) -> Option<Callee>) -> Option<u32> {
        let mut ways: Vec<(u32, Callee)> = Vec::new();
        let mut at = place;
        let known = loop {
            if let Some(&known) = area.nodes.get(&at) {
                break Some(known);
            }
            if at == ROOT_CONTEXT || at == LOST_CONTEXT {
                break None;
            }
            let entry = area.entries.get(&at)?;
            ways.push((at, callee_of((entry.key >> 32) as u32)?));
            at = entry.key as u32;
            if ways.len() > area.entries.len() {
                return None;
            }
        };
        let mut parent = known;
        for (at, callee) in ways.into_iter().rev() {
            let nodes = &mut self.nodes;
            let node = *self.children.entry((parent, callee)).or_insert_with(|| {
                nodes.push(Node { parent, callee, n_calls: 0, metric: 0 });
                nodes.len() as u32 - 1
            });
            area.nodes.insert(at, node);
            parent = Some(node);
        }
        parent
    }

    /// Puts the tree into a profile, with the entries of functions that have no paths. Cycles
    /// become times. `paths` are those of the functions, by their numbers.
    ///
    /// # Errors
    /// If there are no such functions.
    pub fn fill(
        &self,
        builder: &mut ExactBuilder,
        places: &Places,
        paths: &FxHashMap<(CodePlace, u64), PathNumber>,
        unit: Unit,
    ) -> Result<()> {
        let functions = &places.functions;
        let mut numbers: Vec<Option<ContextNumber>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let parent = node.parent.and_then(|parent| numbers.get(parent as usize).copied().flatten());
            let number = match functions.get(&node.callee) {
                Some(&place) => {
                    if places.without_paths.contains(&place) {
                        builder.entries(place.module, place.index, node.n_calls)?;
                    }
                    let around = node.parent.and_then(|parent| self.nodes.get(parent as usize));
                    let call_site = around.and_then(|around| places.call_sites.get(&around.callee)).copied();
                    Some(builder.context(parent, place, call_site, node.n_calls)?)
                }
                None => parent,
            };
            // What has passed since a call, and before its callee was entered, is the caller's.
            if let Some(number) = number {
                match unit {
                    Unit::Cycles { ns } => builder.context_time(number, node.metric as f64 * ns)?,
                    Unit::Misses => builder.context_misses(number, node.metric)?,
                }
            }
            numbers.push(number);
        }
        for (&(node, path), &(count, metric)) in &self.paths {
            let place = functions.get(&self.nodes[node as usize].callee);
            let path = place.and_then(|&place| paths.get(&(place, u64::from(path))));
            if let Some((context, &path)) = numbers[node as usize].zip(path) {
                builder.context_path(context, path, count)?;
                match unit {
                    Unit::Cycles { ns } => builder.context_path_time(context, path, metric as f64 * ns)?,
                    Unit::Misses => builder.context_path_misses(context, path, metric)?,
                }
            }
        }
        let mut recursions: Vec<(&(u32, u32), &u64)> = self.recursions.iter().collect();
        recursions.sort_unstable();
        for (&(from, to), &count) in recursions {
            let of = |node: u32| numbers.get(node as usize).copied().flatten();
            if let Some((from, to)) = of(from).zip(of(to)) {
                builder.recursion(from, to, count)?;
            }
            let callee = functions.get(&self.nodes[to as usize].callee);
            if let Some(&place) = callee.filter(|place| places.without_paths.contains(place)) {
                builder.entries(place.module, place.index, count)?;
            }
        }
        Ok(())
    }
}

/// What numbers stand for.
#[derive(Debug, Default)]
pub struct Places {
    pub functions: FxHashMap<Callee, CodePlace>,
    /// Functions by their entries, less the image base.
    pub entered: FxHashMap<Callee, CodePlace>,
    /// Addresses of calls.
    pub call_sites: FxHashMap<Callee, u64>,
    /// Functions of which only calls are counted, because their paths have no numbers.
    pub without_paths: FxHashSet<CodePlace>,
}

/// Entries of functions that have contexts and no paths.
pub fn without_paths(cells: &[emit::Cell]) -> impl Iterator<Item = u32> + '_ {
    let of_kind = |kind: CellKind| cells.iter().filter(move |cell| cell.kind == kind).map(|cell| cell.at);
    let with_paths: FxHashSet<u32> = of_kind(CellKind::LostPaths).collect();
    of_kind(CellKind::Context).filter(move |at| !with_paths.contains(at))
}

/// Calls of a module by their numbers.
pub fn numbered_calls(cells: &[emit::Cell]) -> impl Iterator<Item = (u32, u32)> + '_ {
    cells.iter().filter(|cell| cell.kind == CellKind::CallSite).map(|cell| (cell.to, cell.at))
}

/// Functions of a module by their numbers.
pub fn numbered(cells: &[emit::Cell]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let has_number = |cell: &&emit::Cell| matches!(cell.kind, CellKind::Context | CellKind::HashedPaths);
    cells.iter().filter(has_number).map(|cell| (cell.to, cell.at))
}
