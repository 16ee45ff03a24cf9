//! Adding profiles of different runs.
//!
//! Two rows are the same if their keys are (see [`keys`]); their estimates add, since runs are
//! independent. What is no estimate is joined so that neither order nor grouping of the profiles
//! matters: of two names the one that is there, or the smaller; of two flags either; of facts that
//! differ the sorted list. The result is in canonical order ([`Profile::sorted`]), hence merging is
//! associative and commutative up to rounding.
//!
//! A [`Merger`] keeps its hash tables, so that each further profile costs its own size and not that
//! of what has been merged already.

mod facts;
pub(crate) mod keys;
mod order;

use std::cmp::Ordering;
use std::mem;

use crate::model::{
    Block, BlockId, BranchHistory, Call, Context, ContextPath, CpuTime, Edge, Function, Loop, LoopId, Module,
    NotedValue, Path, Profile, Recursion, SystemCall, Thread,
};
use crate::query::cpu_time;
use keys::{Handles, Keys};

/// Adds `other` to `into`. For many profiles use a [`Merger`].
///
/// Both must satisfy [`Profile`]'s invariants.
pub fn merge(into: &mut Profile, other: &Profile) {
    let mut merger = Merger::default();
    merger.add(&mem::take(into));
    merger.add(other);
    *into = merger.finish();
}

/// A sum of profiles.
#[derive(Debug, Default)]
pub struct Merger {
    keys: Keys,
    merged: Profile,
}

impl Merger {
    /// Adds a profile, which must satisfy [`Profile`]'s invariants.
    pub fn add(&mut self, other: &Profile) {
        let handles = self.keys.handles(other);
        self.add_cpu_time(other);
        self.add_code(other, &handles);
        self.add_flow(other, &handles);
        self.add_contexts(other, &handles);
        self.add_loops(other, &handles);
        self.add_totals(other);
    }

    /// The sum, in canonical order.
    #[must_use]
    pub fn finish(self) -> Profile {
        self.merged.into_sorted()
    }

    fn add_code(&mut self, other: &Profile, handles: &Handles) {
        let modules = handles.modules.iter().map(|id| id.index()).zip(&other.modules);
        absorb(&mut self.merged.modules, modules, Module::clone, |mine, theirs| {
            if theirs.path < mine.path {
                mine.path.clone_from(&theirs.path);
            }
        });
        let functions = handles.functions.iter().map(|id| id.index()).zip(&other.functions);
        let translate = |row: &Function| Function { module: handles.modules[row.module.index()], ..row.clone() };
        absorb(&mut self.merged.functions, functions, translate, |mine, theirs| {
            if mine.name.is_empty() || (!theirs.name.is_empty() && theirs.name < mine.name) {
                mine.name.clone_from(&theirs.name);
            }
            mine.size = mine.size.max(theirs.size);
            mine.entries += theirs.entries;
            mine.self_ns += theirs.self_ns;
        });
        let blocks = handles.blocks.iter().map(|id| id.index()).zip(&other.blocks);
        let translate = |row: &Block| Block { function: handles.functions[row.function.index()], ..row.clone() };
        absorb(&mut self.merged.blocks, blocks, translate, |mine, theirs| {
            // The same build has the same blocks; of two files that merely have the same path, one
            // must win.
            let shape = |block: &Block| (block.size, block.last, block.n_insns, block.end);
            if shape(mine) < shape(theirs) {
                (mine.size, mine.last, mine.n_insns, mine.end) = shape(theirs);
            }
            mine.count += theirs.count;
            mine.self_ns += theirs.self_ns;
        });
    }

    fn add_flow(&mut self, other: &Profile, handles: &Handles) {
        let block = |id: BlockId| handles.blocks[id.index()];
        let edges = handles.edges.iter().map(|id| id.index()).zip(&other.edges);
        let translate = |row: &Edge| Edge { from: block(row.from), to: block(row.to), ..row.clone() };
        absorb(&mut self.merged.edges, edges, translate, |mine, theirs| {
            mine.is_back |= theirs.is_back;
            mine.count += theirs.count;
        });
        let paths = handles.paths.iter().map(|id| id.index()).zip(&other.paths);
        let translate = |row: &Path| Path {
            function: handles.functions[row.function.index()],
            blocks: row.blocks.iter().map(|&id| block(id)).collect(),
            back_to: row.back_to.map(block),
            ..*row
        };
        absorb(&mut self.merged.paths, paths, translate, |mine, theirs| {
            mine.n_branches = mine.n_branches.max(theirs.n_branches);
            mine.misses = mine.misses.saturating_add(theirs.misses);
            mine.count += theirs.count;
            mine.self_ns += theirs.self_ns;
        });
        let calls = handles.calls.iter().copied().zip(&other.calls);
        let translate =
            |row: &Call| Call { site: block(row.site), callee: handles.functions[row.callee.index()], ..row.clone() };
        absorb(&mut self.merged.calls, calls, translate, |mine, theirs| mine.count += theirs.count);
        let histories = handles.histories.iter().copied().zip(&other.histories);
        let translate = |row: &BranchHistory| BranchHistory { block: block(row.block), ..row.clone() };
        absorb(&mut self.merged.histories, histories, translate, |mine, theirs| {
            mine.n_taken = mine.n_taken.saturating_add(theirs.n_taken);
            mine.n_not_taken = mine.n_not_taken.saturating_add(theirs.n_not_taken);
        });
    }

    fn add_contexts(&mut self, other: &Profile, handles: &Handles) {
        let contexts = handles.contexts.iter().map(|id| id.index()).zip(&other.contexts);
        let translate = |row: &Context| Context {
            parent: row.parent.map(|id| handles.contexts[id.index()]),
            function: handles.functions[row.function.index()],
            ..row.clone()
        };
        absorb(&mut self.merged.contexts, contexts, translate, |mine, theirs| {
            mine.entries += theirs.entries;
            mine.self_ns += theirs.self_ns;
            mine.kernel_ns += theirs.kernel_ns;
            mine.misses = mine.misses.saturating_add(theirs.misses);
        });
        let recursions = handles.recursions.iter().copied().zip(&other.recursions);
        let translate = |row: &Recursion| Recursion {
            from: handles.contexts[row.from.index()],
            to: handles.contexts[row.to.index()],
            ..row.clone()
        };
        absorb(&mut self.merged.recursions, recursions, translate, |mine, theirs| mine.count += theirs.count);
        let context_paths = handles.context_paths.iter().copied().zip(&other.context_paths);
        let translate = |row: &ContextPath| ContextPath {
            context: handles.contexts[row.context.index()],
            path: handles.paths[row.path.index()],
            ..row.clone()
        };
        absorb(&mut self.merged.context_paths, context_paths, translate, |mine, theirs| {
            mine.count += theirs.count;
            mine.self_ns += theirs.self_ns;
            mine.misses = mine.misses.saturating_add(theirs.misses);
        });
        let system_calls = handles.system_calls.iter().copied().zip(&other.system_calls);
        let translate = |row: &SystemCall| SystemCall {
            context: handles.contexts[row.context.index()],
            module: row.module.map(|id| handles.modules[id.index()]),
            ..row.clone()
        };
        absorb(&mut self.merged.system_calls, system_calls, translate, |mine, theirs| {
            mine.kernel_ns += theirs.kernel_ns;
        });
        let values = handles.values.iter().copied().zip(&other.values);
        let translate = |row: &NotedValue| NotedValue {
            module: handles.modules[row.module.index()],
            value_module: row.value_module.map(|id| handles.modules[id.index()]),
            ..row.clone()
        };
        absorb(&mut self.merged.values, values, translate, |mine, theirs| mine.count += theirs.count);
        let threads = handles.threads.iter().copied().zip(&other.threads);
        absorb(&mut self.merged.threads, threads, Thread::clone, |mine, theirs| {
            mine.cpu_ns = mine.cpu_ns.saturating_add(theirs.cpu_ns);
        });
    }

    fn add_loops(&mut self, other: &Profile, handles: &Handles) {
        let parent_of = |row: &Loop| row.parent.map(|id| handles.loops[id.index()]);
        let loops = handles.loops.iter().map(|id| id.index()).zip(&other.loops);
        let translate = |row: &Loop| Loop {
            function: handles.functions[row.function.index()],
            header: handles.blocks[row.header.index()],
            parent: parent_of(row),
            ..row.clone()
        };
        absorb(&mut self.merged.loops, loops, translate, |mine, theirs| {
            mine.entries += theirs.entries;
            mine.iterations += theirs.iterations;
            mine.self_ns += theirs.self_ns;
            mine.n_partial_visits = mine.n_partial_visits.saturating_add(theirs.n_partial_visits);
            mine.trips.resize(mine.trips.len().max(theirs.trips.len()), 0);
            for (sum, n) in mine.trips.iter_mut().zip(&theirs.trips) {
                *sum = sum.saturating_add(*n);
            }
        });
        for (&id, row) in handles.loops.iter().zip(&other.loops) {
            if let Some(parent) = parent_of(row) {
                self.adopt(id, parent);
            }
        }
    }

    /// Makes `parent` the loop around `inner` if none is known, or another one whose header comes
    /// later. Profiles of one build agree; those that do not must not make a cycle.
    fn adopt(&mut self, inner: LoopId, parent: LoopId) {
        let loops = &mut self.merged.loops;
        let address = |id: LoopId| self.merged.blocks[loops[id.index()].header.index()].address;
        if loops[inner.index()].parent.is_some_and(|known| address(known) <= address(parent)) {
            return;
        }
        let mut ancestor = Some(parent);
        while let Some(id) = ancestor {
            if id == inner {
                return;
            }
            ancestor = loops[id.index()].parent;
        }
        loops[inner.index()].parent = Some(parent);
    }

    /// Adds what the kernel accounts for. A profile that does not know it counts with its ticks if
    /// another one does.
    fn add_cpu_time(&mut self, other: &Profile) {
        let is_known = |profile: &Profile| profile.measured_cpu.total_ns() > 0.0;
        if is_known(&self.merged) || is_known(other) {
            let (mine, theirs) = (cpu_time(&self.merged), cpu_time(other));
            self.merged.measured_cpu =
                CpuTime { user_ns: mine.user_ns + theirs.user_ns, system_ns: mine.system_ns + theirs.system_ns };
        }
    }

    fn add_totals(&mut self, other: &Profile) {
        let merged = &mut self.merged;
        facts::join(&mut merged.facts, &other.facts);
        for (outcome, n) in &other.ticks {
            let sum = merged.ticks.entry(outcome.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        merged.unobserved_flow += other.unobserved_flow;
        merged.unwatched_ns += other.unwatched_ns;
        // Not the sum: unseen in both runs, an event has at most three expected sightings in all,
        // each standing for at most the larger weight.
        if other.unseen_at_most.total_cmp(&merged.unseen_at_most) == Ordering::Greater {
            merged.unseen_at_most = other.unseen_at_most;
        }
        // This error is not reduced either: it has a common cause, which more runs do not remove.
        if other.scale_error.total_cmp(&merged.scale_error) == Ordering::Greater {
            merged.scale_error = other.scale_error;
        }
        if other.mix_error.total_cmp(&merged.mix_error) == Ordering::Greater {
            merged.mix_error = other.mix_error;
        }
    }
}

/// Adds rows to a table by index. New keys get indices in order, so that a new row's index is the
/// table's length.
fn absorb<'a, T: 'a>(
    table: &mut Vec<T>,
    rows: impl Iterator<Item = (usize, &'a T)>,
    translate: impl Fn(&T) -> T,
    mut add: impl FnMut(&mut T, &T),
) {
    for (index, row) in rows {
        match table.get_mut(index) {
            Some(mine) => add(mine, row),
            None => table.push(translate(row)),
        }
    }
}
