//! Functions that pass or return flags, against the calling convention.
//!
//! Compilers never do; hand-written assembly does (a callee that returns its verdict in a flag, a
//! helper that expects a flag from its caller). It shows in the liveness of the functions
//! concerned: a flag is live at a return site or at an entry. This module carries such findings
//! over to the other side of the call, and on through tail calls. It looks at direct calls and
//! jumps only: functions that are called through pointers, and those that return a flag that
//! another function returned to them, are taken to keep to the convention.

use std::collections::BTreeMap;

use image::{Image, Svma};
use rustc_hash::FxHashMap;

use crate::cfg::EdgeKind;
use crate::function::FunctionFlow;
use crate::liveness::{FlagConventions, LiveSet, Liveness};
use crate::order::Order;
use crate::transfer::Transfer;

/// Corrects the liveness of functions that pass or return flags. `owner` maps an address to the
/// function it belongs to.
pub(crate) fn settle(image: &Image<'_>, functions: &mut [FunctionFlow], owner: impl Fn(Svma) -> Option<usize>) {
    let at_return = demanded_at_return(functions, &owner);
    loop {
        let mut demands: BTreeMap<usize, FlagConventions> = BTreeMap::new();
        for (&function, &flags) in &at_return {
            demands.entry(function).or_default().at_return = flags;
        }
        let at_entries: FxHashMap<Svma, LiveSet> = functions.iter().flat_map(flags_at_entries).collect();
        for (caller, function) in functions.iter().enumerate().filter(|_| !at_entries.is_empty()) {
            for target in calls(function).map(|(target, _)| target).chain(tail_calls(function)) {
                if let Some(&flags) = at_entries.get(&target) {
                    demands.entry(caller).or_default().at_calls.insert(target, flags);
                }
            }
        }
        let mut changed = false;
        for (index, conventions) in demands {
            let function = &mut functions[index];
            if *function.liveness.conventions() != conventions {
                let order = Order::new(&function.cfg.graph);
                function.liveness = Liveness::new(image, &function.cfg, &order, conventions);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// Flags that callers use after a function has returned, by function.
fn demanded_at_return(functions: &[FunctionFlow], owner: &impl Fn(Svma) -> Option<usize>) -> BTreeMap<usize, LiveSet> {
    let mut demanded: BTreeMap<usize, LiveSet> = BTreeMap::new();
    let used = functions.iter().flat_map(calls).filter(|(_, flags)| !flags.is_empty());
    let mut pending: Vec<(Svma, LiveSet)> = used.collect();
    while let Some((target, flags)) = pending.pop() {
        let Some(callee) = owner(target) else { continue };
        let known = demanded.entry(callee).or_default();
        if *known | flags != *known {
            *known = *known | flags;
            pending.extend(tail_calls(&functions[callee]).map(|target| (target, flags)));
        }
    }
    demanded
}

/// Entries of a function at which it expects flags.
fn flags_at_entries(function: &FunctionFlow) -> impl Iterator<Item = (Svma, LiveSet)> {
    let FunctionFlow { cfg, liveness, .. } = function;
    let entries = cfg.graph.entries().iter();
    let flags =
        entries.map(|&entry| (cfg.block(entry).range.start, liveness.live_in(entry) & LiveSet::ARITHMETIC_FLAGS));
    flags.filter(|(_, flags)| !flags.is_empty())
}

/// Targets of the direct calls of a function, with the flags that are live afterwards.
fn calls(function: &FunctionFlow) -> impl Iterator<Item = (Svma, LiveSet)> {
    let FunctionFlow { cfg, liveness, .. } = function;
    cfg.graph.blocks().filter_map(|block| {
        let Transfer::Call(target) = cfg.block(block).transfer else { return None };
        let after = cfg.graph.successors(block).fold(LiveSet::NONE, |live, next| live | liveness.live_in(next));
        Some((target, after & LiveSet::ARITHMETIC_FLAGS))
    })
}

/// Known targets of the tail calls of a function.
fn tail_calls(function: &FunctionFlow) -> impl Iterator<Item = Svma> {
    function.cfg.edges.iter().filter(|edge| edge.kind == EdgeKind::TailCall).filter_map(|edge| edge.target)
}
