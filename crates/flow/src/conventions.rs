//! Functions that pass or return flags, against the calling convention.
//!
//! Compilers never do; hand-written assembly does (a callee that returns its verdict in a flag, a helper that expects a flag from
//! its caller). It shows in the liveness of the functions concerned: a flag is live at a return site or at an entry. This module
//! carries such findings over to the other side of the call, until nothing changes. It looks at direct calls and jumps only:
//! functions that are called through pointers are taken to keep to the convention.

use std::collections::BTreeMap;

use image::{Image, Svma};

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
    let at_entry = |target: Svma| {
        let function = &functions[owner(target)?];
        let block = function.cfg.block_at(target)?;
        Some(function.liveness.live_in(block) & LiveSet::ARITHMETIC_FLAGS).filter(|flags| !flags.is_empty())
    };
    let mut demands: BTreeMap<usize, FlagConventions> = BTreeMap::new();
    for (caller, function) in functions.iter().enumerate() {
        for (target, after) in callees(function) {
            let flags = target.and_then(at_entry);
            if let (Some(target), Some(flags)) = (target, flags) {
                demands.entry(caller).or_default().at_calls.insert(target, flags);
            }
            if let Some(callee) = target.and_then(owner).filter(|_| !after.is_empty()) {
                let at_return = &mut demands.entry(callee).or_default().at_return;
                *at_return = *at_return | after;
            }
        }
    }
    demands
}

/// Calls and tail calls of a function: the target, if it is known, and the flags that are live afterwards.
fn callees(function: &FunctionFlow) -> impl Iterator<Item = (Option<Svma>, LiveSet)> {
    let FunctionFlow { cfg, liveness, .. } = function;
    let calls = cfg.graph.blocks().filter(|&block| cfg.block(block).transfer.is_call()).map(|block| {
        let target = match cfg.block(block).transfer {
            Transfer::Call(target) => Some(target),
            _ => None,
        };
        let after = cfg.graph.successors(block).fold(LiveSet::NONE, |live, next| live | liveness.live_in(next));
        (target, after & LiveSet::ARITHMETIC_FLAGS)
    });
    let at_return = liveness.conventions().at_return;
    let tail_calls = cfg.edges.iter().filter(|edge| edge.kind == EdgeKind::TailCall);
    calls.chain(tail_calls.map(move |edge| (edge.target, at_return)))
}
