//! Live flags, and functions that pass or return them.
//!
//! Calls and returns need no flag, by the calling convention. Hand-written code breaks it, and
//! where it does so by direct calls and jumps it shows: flags are live behind a call of a function,
//! or at an entry of one.
//!
//! * A function returns the flags that are live behind its direct calls, and so do those that it
//!   jumps to in its place. What is live behind calls is looked at by itself: a flag that is needed
//!   only because it is returned on is taken not to be returned.
//! * A function that calls or jumps to an entry needs the flags that are live there.

use flow::callgraph::FunctionId;
use flow::cfg::EdgeKind;
use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow, Transfer};
use image::{Image, Svma};
use rustc_hash::FxHashMap;

use super::effects::{Effect, Effects};
use super::set::Set;

/// Live flags of all functions.
#[derive(Debug)]
pub(super) struct Flags {
    /// By function and block.
    at_start: Vec<Vec<Set>>,
    at_end: Vec<Vec<Set>>,
    /// By function: what its callers use.
    at_return: Vec<Set>,
    /// By address of entries that expect any.
    expected: FxHashMap<Svma, Set>,
}

impl Flags {
    pub fn new(image: &Image<'_>, flow: &ModuleFlow) -> Flags {
        let mut effects = Effects::new();
        let of_blocks: Vec<Vec<Effect>> = flow
            .functions
            .iter()
            .map(|FunctionFlow { cfg, .. }| {
                let effect = |block| {
                    effects.begin();
                    cfg.instructions(image, block).fold(Effect::default(), |all, insn| all.then(effects.of(&insn)))
                };
                cfg.graph.blocks().map(effect).collect()
            })
            .collect();
        let none = |function: &FunctionFlow| vec![Set::NONE; function.cfg.blocks.len()];
        let mut flags = Flags {
            at_start: flow.functions.iter().map(none).collect(),
            at_end: flow.functions.iter().map(none).collect(),
            at_return: vec![Set::NONE; flow.functions.len()],
            expected: FxHashMap::default(),
        };
        flags.settle_all(flow, &of_blocks);
        flags.at_return = flags.used_behind_calls(flow);
        loop {
            flags.settle_all(flow, &of_blocks);
            let expected = flags.at_entries(flow);
            if expected == flags.expected {
                return flags;
            }
            flags.expected = expected;
        }
    }

    fn settle_all(&mut self, flow: &ModuleFlow, of_blocks: &[Vec<Effect>]) {
        for (index, (function, of_blocks)) in flow.functions.iter().zip(of_blocks).enumerate() {
            self.settle(function, index, of_blocks);
        }
    }

    /// Lets the sets of a function grow until nothing changes.
    fn settle(&mut self, function: &FunctionFlow, index: usize, of_blocks: &[Effect]) {
        loop {
            let mut changed = false;
            for block in function.cfg.graph.blocks().rev() {
                let behind = self.behind(function, index, block);
                let live = of_blocks[block.index()].before(behind) & Set::FLAGS;
                self.at_end[index][block.index()] = behind;
                changed |= std::mem::replace(&mut self.at_start[index][block.index()], live) != live;
            }
            if !changed {
                return;
            }
        }
    }

    fn behind(&self, function: &FunctionFlow, index: usize, block: BlockId) -> Set {
        let cfg = &function.cfg;
        let called = match cfg.block(block).transfer {
            Transfer::Call(target) => self.expected_at(target),
            _ => Set::NONE,
        };
        let behind = cfg.graph.out_edges(block).map(|edge| {
            let facts = cfg.edge_facts(edge);
            match (cfg.graph.edge(edge).to, facts.kind) {
                (Some(next), _) => self.at_start[index][next.index()],
                (None, EdgeKind::Trap) => Set::NONE,
                (None, EdgeKind::Return) => self.at_return[index],
                (None, EdgeKind::TailCall) => {
                    let expected = facts.target.map_or(Set::NONE, |target| self.expected_at(target));
                    self.at_return[index] | expected
                }
                (None, _) => Set::FLAGS,
            }
        });
        behind.fold(called, |all, set| all | set)
    }

    /// Returns, by function, the flags that are live behind direct calls of it.
    fn used_behind_calls(&self, flow: &ModuleFlow) -> Vec<Set> {
        let mut used = vec![Set::NONE; flow.functions.len()];
        let mut returned: Vec<(Svma, Set)> = Vec::new();
        for (index, FunctionFlow { cfg, .. }) in flow.functions.iter().enumerate() {
            for block in cfg.graph.blocks() {
                let Transfer::Call(target) = cfg.block(block).transfer else { continue };
                let live = cfg.graph.successors(block).map(|next| self.at_start[index][next.index()]);
                returned.push((target, live.fold(Set::NONE, |all, set| all | set)));
            }
        }
        while let Some((target, flags)) = returned.pop() {
            let Some(callee) = flow.function_containing(target).map(FunctionId::index) else { continue };
            if (flags - used[callee]).has_flags() {
                used[callee] = used[callee] | flags;
                let cfg = &flow.functions[callee].cfg;
                let jumps = cfg.edges.iter().filter(|facts| facts.kind == EdgeKind::TailCall);
                returned.extend(jumps.filter_map(|facts| facts.target).map(|target| (target, flags)));
            }
        }
        used
    }

    /// Returns the entries of functions that expect flags.
    fn at_entries(&self, flow: &ModuleFlow) -> FxHashMap<Svma, Set> {
        let of_function = |(index, function): (usize, &FunctionFlow)| {
            let entries = function.cfg.graph.entries().iter();
            let live =
                entries.map(|&entry| (function.cfg.block(entry).range.start, self.at_start[index][entry.index()]));
            live.filter(|(_, flags)| flags.has_flags()).collect::<Vec<_>>()
        };
        flow.functions.iter().enumerate().flat_map(of_function).collect()
    }

    pub fn at_start(&self, id: FunctionId, block: BlockId) -> Set {
        self.at_start[id.index()][block.index()]
    }

    pub fn at_end(&self, id: FunctionId, block: BlockId) -> Set {
        self.at_end[id.index()][block.index()]
    }

    pub fn at_return(&self, id: FunctionId) -> Set {
        self.at_return[id.index()]
    }

    pub fn expected_at(&self, at: Svma) -> Set {
        self.expected.get(&at).copied().unwrap_or_default()
    }
}
