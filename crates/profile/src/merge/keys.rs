//! Which rows of different profiles are the same thing.
//!
//! A module is known by its build-id, or by its path if it has none; a function by module and
//! address; a block by function and address; all others by the handles in them. [`Keys`] gives
//! equal keys equal handles, dense from 0 in the order in which they first appear, so that rows of
//! several profiles can be looked up in one numbering.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::model::{
    BlockId, ContextId, EdgeId, EdgeKind, FunctionId, LoopId, Module, ModuleId, PathId, Profile, ValueKey,
};

/// Common handles of all profiles that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    modules: Interner<ModuleKey>,
    functions: Interner<(ModuleId, u64)>,
    blocks: Interner<(FunctionId, u64)>,
    edges: Interner<(BlockId, BlockId, EdgeKind)>,
    paths: Interner<(FunctionId, Box<[BlockId]>, Option<BlockId>)>,
    calls: Interner<(BlockId, FunctionId, bool)>,
    contexts: Interner<(Option<ContextId>, FunctionId, Option<u64>)>,
    recursions: Interner<(ContextId, ContextId)>,
    context_paths: Interner<(ContextId, PathId)>,
    loops: Interner<(FunctionId, BlockId)>,
    histories: Interner<(BlockId, u8)>,
    system_calls: Interner<(ContextId, Option<ModuleId>, u64)>,
    values: Interner<ValueKey>,
    threads: Interner<(u32, u32, String)>,
}

/// The common handle of each row of one profile.
#[derive(Debug)]
pub(crate) struct Handles {
    pub modules: Vec<ModuleId>,
    pub functions: Vec<FunctionId>,
    pub blocks: Vec<BlockId>,
    pub edges: Vec<EdgeId>,
    pub paths: Vec<PathId>,
    pub calls: Vec<usize>,
    pub contexts: Vec<ContextId>,
    pub recursions: Vec<usize>,
    pub context_paths: Vec<usize>,
    pub loops: Vec<LoopId>,
    pub histories: Vec<usize>,
    pub system_calls: Vec<usize>,
    pub values: Vec<usize>,
    pub threads: Vec<usize>,
}

/// What a module is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ModuleKey {
    BuildId(String),
    Path(String),
}

impl ModuleKey {
    fn of(module: &Module) -> ModuleKey {
        if module.build_id.is_empty() {
            ModuleKey::Path(module.path.clone())
        } else {
            ModuleKey::BuildId(module.build_id.clone())
        }
    }
}

impl Keys {
    /// Handles of a profile's rows; new ones where a key is new.
    pub(crate) fn handles(&mut self, profile: &Profile) -> Handles {
        let modules: Vec<_> =
            profile.modules.iter().map(|row| ModuleId(self.modules.number(ModuleKey::of(row)))).collect();
        let functions: Vec<_> = profile
            .functions
            .iter()
            .map(|row| FunctionId(self.functions.number((modules[row.module.index()], row.address))))
            .collect();
        let blocks: Vec<_> = profile
            .blocks
            .iter()
            .map(|row| BlockId(self.blocks.number((functions[row.function.index()], row.address))))
            .collect();
        let mut contexts: Vec<ContextId> = Vec::with_capacity(profile.contexts.len());
        for row in &profile.contexts {
            let parent = row.parent.map(|id| contexts[id.index()]);
            let key = (parent, functions[row.function.index()], row.call_site);
            contexts.push(ContextId(self.contexts.number(key)));
        }
        let paths = self.paths(profile, &functions, &blocks);
        Handles {
            edges: self.edges(profile, &blocks),
            calls: self.calls(profile, &functions, &blocks),
            recursions: self.recursions(profile, &contexts),
            context_paths: self.context_paths(profile, &contexts, &paths),
            loops: self.loops(profile, &functions, &blocks),
            histories: self.histories(profile, &blocks),
            system_calls: self.system_calls(profile, &modules, &contexts),
            values: self.values(profile, &modules),
            threads: self.threads(profile),
            modules,
            functions,
            blocks,
            paths,
            contexts,
        }
    }

    fn edges(&mut self, profile: &Profile, blocks: &[BlockId]) -> Vec<EdgeId> {
        let key = |from: BlockId, to: BlockId, kind| (blocks[from.index()], blocks[to.index()], kind);
        profile.edges.iter().map(|row| EdgeId(self.edges.number(key(row.from, row.to, row.kind)))).collect()
    }

    fn paths(&mut self, profile: &Profile, functions: &[FunctionId], blocks: &[BlockId]) -> Vec<PathId> {
        let block = |id: BlockId| blocks[id.index()];
        let rows = profile.paths.iter().map(|row| {
            let sequence = row.blocks.iter().map(|&id| block(id)).collect();
            PathId(self.paths.number((functions[row.function.index()], sequence, row.back_to.map(block))))
        });
        rows.collect()
    }

    fn calls(&mut self, profile: &Profile, functions: &[FunctionId], blocks: &[BlockId]) -> Vec<usize> {
        let rows = profile
            .calls
            .iter()
            .map(|row| self.calls.index((blocks[row.site.index()], functions[row.callee.index()], row.is_tail)));
        rows.collect()
    }

    fn recursions(&mut self, profile: &Profile, contexts: &[ContextId]) -> Vec<usize> {
        let rows = profile.recursions.iter();
        rows.map(|row| self.recursions.index((contexts[row.from.index()], contexts[row.to.index()]))).collect()
    }

    fn context_paths(&mut self, profile: &Profile, contexts: &[ContextId], paths: &[PathId]) -> Vec<usize> {
        let rows = profile.context_paths.iter();
        rows.map(|row| self.context_paths.index((contexts[row.context.index()], paths[row.path.index()]))).collect()
    }

    fn loops(&mut self, profile: &Profile, functions: &[FunctionId], blocks: &[BlockId]) -> Vec<LoopId> {
        let key = |function: FunctionId, header: BlockId| (functions[function.index()], blocks[header.index()]);
        profile.loops.iter().map(|row| LoopId(self.loops.number(key(row.function, row.header)))).collect()
    }

    fn histories(&mut self, profile: &Profile, blocks: &[BlockId]) -> Vec<usize> {
        let rows = profile.histories.iter();
        rows.map(|row| self.histories.index((blocks[row.block.index()], row.history))).collect()
    }

    fn system_calls(&mut self, profile: &Profile, modules: &[ModuleId], contexts: &[ContextId]) -> Vec<usize> {
        let rows = profile.system_calls.iter().map(|row| {
            let module = row.module.map(|id| modules[id.index()]);
            self.system_calls.index((contexts[row.context.index()], module, row.address))
        });
        rows.collect()
    }

    fn values(&mut self, profile: &Profile, modules: &[ModuleId]) -> Vec<usize> {
        let rows = profile.values.iter().map(|row| {
            let value_module = row.value_module.map(|id| modules[id.index()]);
            self.values.index((modules[row.module.index()], row.address, row.kind, row.value, value_module))
        });
        rows.collect()
    }

    fn threads(&mut self, profile: &Profile) -> Vec<usize> {
        profile.threads.iter().map(|row| self.threads.index((row.pid, row.tid, row.command.clone()))).collect()
    }
}

/// Numbers keys in the order in which they first appear.
#[derive(Debug)]
pub(crate) struct Interner<K> {
    numbers: FxHashMap<K, u32>,
}

impl<K> Default for Interner<K> {
    fn default() -> Self {
        Interner { numbers: FxHashMap::default() }
    }
}

impl<K: Eq + Hash> Interner<K> {
    /// The number of a key.
    pub(crate) fn number(&mut self, key: K) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(key).or_insert(next)
    }

    /// The same as an array index.
    pub(crate) fn index(&mut self, key: K) -> usize {
        self.number(key) as usize
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}
