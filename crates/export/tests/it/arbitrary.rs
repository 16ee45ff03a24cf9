//! Random profiles that keep the invariants.

use profile::model::{
    Block, BlockEnd, BlockId, Call, Context, ContextId, Edge, EdgeKind, Function, FunctionId, Loop, Module, ModuleId,
    Path,
};
use profile::{Estimate, Profile};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const BLOCK_BYTES: u32 = 16;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z_]{1,8}", any::<String>(), Just("a b;c\"d\ne".to_owned())]
}

fn estimate() -> impl Strategy<Value = Estimate> {
    let value = prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e6, 0.0..1e12];
    (value, 0.0..1e6_f64).prop_map(|(value, variance)| Estimate { value, variance, seen: 1 })
}

/// Parts of a profile whose handles are drawn from what is there.
#[derive(Debug)]
struct Parts {
    modules: Vec<(String, String)>,
    functions: Vec<(Index, String, Estimate, Estimate, u32)>,
    contexts: Vec<(Option<Index>, Index, Estimate, Estimate, Estimate)>,
    edges: Vec<(Index, Index, u8, Estimate)>,
    calls: Vec<(Index, Index, bool, Estimate)>,
    paths: Vec<(Index, usize, Estimate, Estimate)>,
    counts: Vec<Estimate>,
}

pub fn profile() -> impl Strategy<Value = Profile> {
    let function = (any::<Index>(), name(), estimate(), estimate(), 0..5_u32);
    let context = (any::<Option<Index>>(), any::<Index>(), estimate(), estimate(), estimate());
    let parts = (
        vec((name(), "[0-9a-f]{0,40}"), 1..4),
        vec(function, 1..12),
        vec(context, 0..30),
        vec((any::<Index>(), any::<Index>(), 0..5_u8, estimate()), 0..40),
        vec((any::<Index>(), any::<Index>(), any::<bool>(), estimate()), 0..20),
        vec((any::<Index>(), 1..6_usize, estimate(), estimate()), 0..10),
        vec(estimate(), 60),
    );
    parts.prop_map(|(modules, functions, contexts, edges, calls, paths, counts)| {
        assemble(&Parts { modules, functions, contexts, edges, calls, paths, counts })
    })
}

fn assemble(parts: &Parts) -> Profile {
    let modules = parts.modules.iter().map(|(path, build_id)| module(path, build_id)).collect();
    let mut profile = Profile { modules, ..Profile::default() };
    for (index, (module, name, entries, self_ns, n_blocks)) in parts.functions.iter().enumerate() {
        let address = 0x1000 * (index as u64 + 1);
        profile.functions.push(Function {
            module: ModuleId(module.index(profile.modules.len()) as u32),
            address,
            size: u64::from(n_blocks * BLOCK_BYTES),
            name: name.clone(),
            entries: *entries,
            self_ns: *self_ns,
        });
        for block in 0..*n_blocks {
            let count = parts.counts[profile.blocks.len() % parts.counts.len()];
            profile.blocks.push(block_at(index, address + u64::from(block * BLOCK_BYTES), count));
        }
    }
    add_contexts(parts, &mut profile);
    if !profile.blocks.is_empty() {
        add_flow(parts, &mut profile);
    }
    profile
}

fn module(path: &str, build_id: &str) -> Module {
    Module { path: path.to_owned(), build_id: build_id.to_owned() }
}

fn block_at(function: usize, address: u64, count: Estimate) -> Block {
    let end = if address & 0x10 == 0 { BlockEnd::Branch } else { BlockEnd::Call };
    Block {
        function: FunctionId(function as u32),
        address,
        size: BLOCK_BYTES,
        last: 12,
        n_insns: 4,
        end,
        count,
        self_ns: Estimate::default(),
    }
}

fn add_contexts(parts: &Parts, profile: &mut Profile) {
    for (parent, function, entries, self_ns, kernel_ns) in &parts.contexts {
        let n_before = profile.contexts.len();
        let parent = parent.filter(|_| n_before != 0).map(|parent| ContextId(parent.index(n_before) as u32));
        let function = FunctionId(function.index(profile.functions.len()) as u32);
        profile.contexts.push(Context {
            parent,
            function,
            call_site: None,
            entries: *entries,
            self_ns: *self_ns,
            kernel_ns: *kernel_ns,
            misses: 0,
        });
    }
}

fn add_flow(parts: &Parts, profile: &mut Profile) {
    let n_blocks = profile.blocks.len();
    let block = |index: &Index| BlockId(index.index(n_blocks) as u32);
    for (from, to, kind, count) in &parts.edges {
        let (from, mut to) = (block(from), block(to));
        if profile.blocks[to.index()].function != profile.blocks[from.index()].function {
            to = from;
        }
        let kinds = [EdgeKind::FallThrough, EdgeKind::Taken, EdgeKind::Table, EdgeKind::PastCall, EdgeKind::NonLocal];
        profile.edges.push(Edge { from, to, kind: kinds[usize::from(*kind)], is_back: false, count: *count });
    }
    for (site, callee, is_tail, count) in &parts.calls {
        let callee = FunctionId(callee.index(profile.functions.len()) as u32);
        profile.calls.push(Call { site: block(site), callee, is_tail: *is_tail, count: *count });
    }
    for (start, length, count, self_ns) in &parts.paths {
        let first = block(start);
        let function = profile.blocks[first.index()].function;
        let blocks = (first.0..n_blocks as u32).map(BlockId).take(*length);
        let blocks = blocks.take_while(|block| profile.blocks[block.index()].function == function).collect();
        let path = Path { function, blocks, back_to: None, n_branches: 1, count: *count, self_ns: *self_ns, misses: 0 };
        profile.loops.push(Loop {
            function,
            header: first,
            parent: None,
            entries: *count,
            iterations: *count,
            trips: vec![1],
            n_partial_visits: 0,
            self_ns: *self_ns,
        });
        profile.paths.push(path);
    }
}
