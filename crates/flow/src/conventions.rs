//! Functions that pass or return flags, against the calling convention.
//!
//! Compilers never do; hand-written assembly does (a callee that returns its verdict in a flag, a helper that expects a flag from
//! its caller). It shows in the liveness of the functions concerned: a flag is live at a return site or at an entry. This module
//! carries such findings over to the other side of the call, until nothing changes. It looks at direct calls and jumps only:
//! functions that are called through pointers are taken to keep to the convention.

use std::collections::BTreeMap;

use image::{Image, Svma};
use rustc_hash::FxHashMap;

use crate::cfg::EdgeKind;
use crate::function::FunctionFlow;
use crate::liveness::{FlagConventions, LiveSet, Liveness};
use crate::order::Order;
use crate::transfer::Transfer;

/// Corrects the liveness of functions that pass or return flags. `owner` maps an address to the function it belongs to.
pub(crate) fn settle(image: &Image<'_>, functions: &mut [FunctionFlow], owner: impl Fn(Svma) -> Option<usize>) {
    let mut changed = true;
    while changed {
        changed = false;
        for (index, conventions) in demands(functions, &owner) {
            let function = &mut functions[index];
            if *function.liveness.conventions() != conventions {
                let order = Order::new(&function.cfg.graph);
                function.liveness = Liveness::new(image, &function.cfg, &order, conventions);
                changed = true;
            }
        }
    }
}

/// What the liveness of all functions demands of each; functions of which nothing unusual is demanded are left out.
fn demands(functions: &[FunctionFlow], owner: &impl Fn(Svma) -> Option<usize>) -> BTreeMap<usize, FlagConventions> {
    let at_entries: FxHashMap<Svma, LiveSet> = functions.iter().flat_map(flags_at_entries).collect();
    let mut demands: BTreeMap<usize, FlagConventions> = BTreeMap::new();
    for (caller, function) in functions.iter().enumerate() {
        for (target, after) in callees(function) {
            if let Some(&flags) = at_entries.get(&target) {
                demands.entry(caller).or_default().at_calls.insert(target, flags);
            }
            if !after.is_empty()
                && let Some(callee) = owner(target)
            {
                let at_return = &mut demands.entry(callee).or_default().at_return;
                *at_return = *at_return | after;
            }
        }
    }
    demands
}

/// Entries of a function at which it expects flags.
fn flags_at_entries(function: &FunctionFlow) -> impl Iterator<Item = (Svma, LiveSet)> {
    let FunctionFlow { cfg, liveness, .. } = function;
    let entries = cfg.graph.entries().iter();
    let flags = entries.map(|&entry| (cfg.block(entry).range.start, liveness.live_in(entry) & LiveSet::ARITHMETIC_FLAGS));
    flags.filter(|(_, flags)| !flags.is_empty())
}

/// Targets of the direct calls and tail calls of a function, with the flags that are live afterwards.
fn callees(function: &FunctionFlow) -> impl Iterator<Item = (Svma, LiveSet)> {
    let FunctionFlow { cfg, liveness, .. } = function;
    let calls = cfg.graph.blocks().filter_map(|block| {
        let Transfer::Call(target) = cfg.block(block).transfer else { return None };
        let after = cfg.graph.successors(block).fold(LiveSet::NONE, |live, next| live | liveness.live_in(next));
        Some((target, after & LiveSet::ARITHMETIC_FLAGS))
    });
    let at_return = liveness.conventions().at_return;
    let tail_calls = cfg.edges.iter().filter(|edge| edge.kind == EdgeKind::TailCall).filter_map(|edge| edge.target);
    calls.chain(tail_calls.map(move |target| (target, at_return)))
}
