//! Where computed calls and jumps went, as values of their instructions: calls and edges tell, also
//! of a sampled profile.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::estimate::Estimate;
use crate::model::{Block, BlockEnd, BlockId, EdgeKind, ModuleId, NotedValue, Profile, ValueKind};

/// A stub of the linkage table is a jump, perhaps behind a landing marker; it goes where the loader
/// says.
const MAX_STUB_INSNS: u32 = 2;

/// How often control went where.
type Targets = BTreeMap<(ModuleId, u64), Estimate>;

/// Rows for all computed calls and jumps of which nothing was noted.
pub(super) fn rows(profile: &Profile) -> Vec<NotedValue> {
    let noted: FxHashSet<_> = profile.values.iter().map(|row| (row.module, row.address, row.kind)).collect();
    let mut counts: BTreeMap<(ModuleId, u64, ValueKind), Targets> = BTreeMap::new();
    let mut add = |from: BlockId, to: (ModuleId, u64), count: Estimate| {
        let block = &profile.blocks[from.index()];
        let Some(kind) = kind_of(profile, block) else { return };
        let module = profile.functions[block.function.index()].module;
        let site = (module, block.address + u64::from(block.last), kind);
        if !noted.contains(&site) {
            *counts.entry(site).or_default().entry(to).or_default() += count;
        }
    };
    for call in &profile.calls {
        let callee = &profile.functions[call.callee.index()];
        add(call.site, (callee.module, callee.address), call.count);
    }
    for edge in profile.edges.iter().filter(|edge| edge.kind == EdgeKind::Table) {
        let to = &profile.blocks[edge.to.index()];
        add(edge.from, (profile.functions[to.function.index()].module, to.address), edge.count);
    }
    let rows = counts.into_iter().flat_map(|((module, address, kind), targets)| {
        let row = move |target: Option<(ModuleId, u64)>, count: Estimate| {
            let (value_module, value) = target.unzip();
            NotedValue { module, address, kind, value, value_module, count }
        };
        let all = targets.values().copied().sum();
        std::iter::once(row(None, all)).chain(targets.into_iter().map(move |(target, count)| row(Some(target), count)))
    });
    rows.collect()
}

fn kind_of(profile: &Profile, block: &Block) -> Option<ValueKind> {
    let is_stub = block.address == profile.functions[block.function.index()].address && block.n_insns <= MAX_STUB_INSNS;
    match block.end {
        BlockEnd::IndirectCall => Some(ValueKind::CallTarget),
        BlockEnd::IndirectJump if !is_stub => Some(ValueKind::JumpTarget),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Call, Edge, Function, FunctionId, Module};
    use crate::query::value_sites;

    fn function(address: u64) -> Function {
        Function {
            module: ModuleId(0),
            address,
            size: 0x20,
            name: String::new(),
            entries: Estimate::default(),
            self_ns: Estimate::default(),
        }
    }

    fn block(function: u32, address: u64, n_insns: u32, end: BlockEnd) -> Block {
        let last = if n_insns == 1 { 0 } else { 8 };
        Block {
            function: FunctionId(function),
            address,
            size: 12,
            last,
            n_insns,
            end,
            count: Estimate::exact(1),
            self_ns: Estimate::default(),
        }
    }

    fn call(site: u32, callee: u32, count: u64) -> Call {
        Call { site: BlockId(site), callee: FunctionId(callee), is_tail: false, count: Estimate::exact(count) }
    }

    fn edge(from: u32, to: u32, count: u64) -> Edge {
        let (from, to) = (BlockId(from), BlockId(to));
        Edge { from, to, kind: EdgeKind::Table, is_back: false, count: Estimate::exact(count) }
    }

    /// Function 0 calls function 1 or 2 by a pointer, and by a stub; function 1 has a switch.
    fn profile() -> Profile {
        Profile {
            modules: vec![Module { path: String::new(), build_id: String::new() }],
            functions: vec![function(0), function(0x100), function(0x200), function(0x300)],
            blocks: vec![
                block(0, 0x10, 3, BlockEnd::IndirectCall),
                block(0, 0x20, 3, BlockEnd::Call),
                block(1, 0x100, 3, BlockEnd::IndirectJump),
                block(1, 0x110, 3, BlockEnd::Return),
                block(1, 0x120, 3, BlockEnd::Return),
                block(3, 0x300, 1, BlockEnd::IndirectJump),
            ],
            calls: vec![call(0, 1, 30), call(0, 2, 10), call(1, 3, 5), call(5, 2, 5)],
            edges: vec![edge(2, 3, 20), edge(2, 4, 10)],
            ..Profile::default()
        }
    }

    #[test]
    fn calls_and_edges_tell_where_computed_transfers_went() {
        let sites = value_sites(&profile(), None);
        let shown: Vec<_> = sites.iter().map(|site| (site.kind, site.address, site.values.len())).collect();
        assert_eq!(shown, [(ValueKind::CallTarget, 0x18, 2), (ValueKind::JumpTarget, 0x108, 2)]);
        assert_eq!((sites[0].count.value, sites[0].invariance, sites[0].values[0].value), (40.0, 0.75, 0x100));
        assert_eq!(sites[0].values[0].function, Some(FunctionId(1)));
    }

    #[test]
    fn what_was_noted_comes_first() {
        let count = Estimate::exact(7);
        let noted = NotedValue {
            module: ModuleId(0),
            address: 0x18,
            kind: ValueKind::CallTarget,
            value: None,
            value_module: None,
            count,
        };
        let sites = value_sites(&Profile { values: vec![noted], ..profile() }, Some(FunctionId(0)));
        assert_eq!(sites.iter().map(|site| site.count).collect::<Vec<_>>(), [count]);
    }
}
