//! The canonical order of a profile's rows.
//!
//! Handles depend on the order in which things were seen. Sorting by key takes that away: two
//! profiles with the same rows are equal after it. Modules go by build-id and path; functions,
//! blocks, edges, paths and the like by handle and address; contexts in preorder with siblings by
//! function, loops from the outside in, so that parents stay before their children.

use std::cmp::Reverse;

use crate::model::{BlockId, ContextId, FunctionId, LoopId, ModuleId, NotedValue, PathId, Profile};

impl Profile {
    /// The same profile with its rows in canonical order.
    #[must_use]
    pub fn sorted(&self) -> Profile {
        self.clone().into_sorted()
    }

    /// [`Profile::sorted`] without a copy.
    #[must_use]
    pub fn into_sorted(mut self) -> Profile {
        self.sort_modules();
        self.sort_functions();
        self.sort_blocks();
        self.sort_paths();
        self.sort_contexts();
        self.sort_loops();
        self.edges.sort_by_key(|row| (row.from, row.to, row.kind));
        self.calls.sort_by_key(|row| (row.site, row.callee, row.is_tail));
        self.recursions.sort_by_key(|row| (row.from, row.to));
        self.context_paths.sort_by_key(|row| (row.context, row.path));
        self.histories.sort_by_key(|row| (row.block, row.history));
        self.system_calls.sort_by_key(|row| (row.context, row.module, row.address));
        self.values.sort_by_key(NotedValue::key);
        self.threads.sort_by(|a, b| (a.pid, a.tid, &a.command).cmp(&(b.pid, b.tid, &b.command)));
        self
    }

    fn sort_modules(&mut self) {
        let mut order = indices(self.modules.len());
        let key = |index: usize| (&self.modules[index].build_id, &self.modules[index].path);
        order.sort_by(|&a, &b| key(a).cmp(&key(b)));
        let new = permute(&mut self.modules, &order);
        let renumber = |id: &mut ModuleId| *id = ModuleId(new[id.index()]);
        self.functions.iter_mut().for_each(|row| renumber(&mut row.module));
        self.values.iter_mut().for_each(|row| renumber(&mut row.module));
        self.values.iter_mut().filter_map(|row| row.value_module.as_mut()).for_each(renumber);
        self.system_calls.iter_mut().filter_map(|row| row.module.as_mut()).for_each(renumber);
    }

    fn sort_functions(&mut self) {
        let mut order = indices(self.functions.len());
        order.sort_by_key(|&index| (self.functions[index].module, self.functions[index].address));
        let new = permute(&mut self.functions, &order);
        let renumber = |id: &mut FunctionId| *id = FunctionId(new[id.index()]);
        self.blocks.iter_mut().for_each(|row| renumber(&mut row.function));
        self.paths.iter_mut().for_each(|row| renumber(&mut row.function));
        self.calls.iter_mut().for_each(|row| renumber(&mut row.callee));
        self.contexts.iter_mut().for_each(|row| renumber(&mut row.function));
        self.loops.iter_mut().for_each(|row| renumber(&mut row.function));
    }

    fn sort_blocks(&mut self) {
        let mut order = indices(self.blocks.len());
        order.sort_by_key(|&index| (self.blocks[index].function, self.blocks[index].address));
        let new = permute(&mut self.blocks, &order);
        let renumber = |id: &mut BlockId| *id = BlockId(new[id.index()]);
        for row in &mut self.edges {
            renumber(&mut row.from);
            renumber(&mut row.to);
        }
        self.paths.iter_mut().flat_map(|row| row.blocks.iter_mut().chain(&mut row.back_to)).for_each(renumber);
        self.calls.iter_mut().for_each(|row| renumber(&mut row.site));
        self.loops.iter_mut().for_each(|row| renumber(&mut row.header));
        self.histories.iter_mut().for_each(|row| renumber(&mut row.block));
    }

    fn sort_paths(&mut self) {
        let mut order = indices(self.paths.len());
        let key = |index: usize| (self.paths[index].function, &self.paths[index].blocks, self.paths[index].back_to);
        order.sort_by(|&a, &b| key(a).cmp(&key(b)));
        let new = permute(&mut self.paths, &order);
        self.context_paths.iter_mut().for_each(|row| row.path = PathId(new[row.path.index()]));
    }

    fn sort_contexts(&mut self) {
        let order = self.contexts_in_preorder();
        let new = permute(&mut self.contexts, &order);
        let renumber = |id: &mut ContextId| *id = ContextId(new[id.index()]);
        self.contexts.iter_mut().filter_map(|row| row.parent.as_mut()).for_each(renumber);
        for row in &mut self.recursions {
            renumber(&mut row.from);
            renumber(&mut row.to);
        }
        self.system_calls.iter_mut().for_each(|row| renumber(&mut row.context));
        self.context_paths.iter_mut().for_each(|row| renumber(&mut row.context));
    }

    fn contexts_in_preorder(&self) -> Vec<usize> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.contexts.len()];
        let mut pending = Vec::new();
        for (index, row) in self.contexts.iter().enumerate() {
            match row.parent {
                Some(parent) => children[parent.index()].push(index),
                None => pending.push(index),
            }
        }
        // The smallest comes off the stack first.
        let by_function = |index: &usize| Reverse((self.contexts[*index].function, self.contexts[*index].call_site));
        pending.sort_by_key(by_function);
        let mut order = Vec::with_capacity(self.contexts.len());
        while let Some(index) = pending.pop() {
            order.push(index);
            children[index].sort_by_key(by_function);
            pending.append(&mut children[index]);
        }
        order
    }

    fn sort_loops(&mut self) {
        let depth = |index: usize| {
            let parent = |id: &LoopId| self.loops[id.index()].parent;
            std::iter::successors(self.loops[index].parent, parent).count()
        };
        let mut order = indices(self.loops.len());
        order.sort_by_cached_key(|&index| (self.loops[index].function, depth(index), self.loops[index].header));
        let new = permute(&mut self.loops, &order);
        self.loops.iter_mut().filter_map(|row| row.parent.as_mut()).for_each(|id| *id = LoopId(new[id.index()]));
    }
}

fn indices(n: usize) -> Vec<usize> {
    (0..n).collect()
}

/// Brings a table into an order, and returns the new index of each old one.
fn permute<T>(table: &mut Vec<T>, order: &[usize]) -> Vec<u32> {
    let mut new = vec![0; order.len()];
    for (position, &old) in order.iter().enumerate() {
        new[old] = position as u32;
    }
    let mut rows: Vec<Option<T>> = table.drain(..).map(Some).collect();
    table.extend(order.iter().filter_map(|&old| rows[old].take()));
    new
}
