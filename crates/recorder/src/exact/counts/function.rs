//! Adds one function to a profile.

use std::collections::BTreeMap;

use flow::callgraph::FunctionId;
use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::{BlockId, Edge, EdgeId};
use flow::{FunctionFlow, Transfer};
use image::Svma;
use profile::exact::{CodePlace, ExactBuilder, PathNumber};
use rustc_hash::{FxHashMap, FxHashSet};

use super::derive::{BlockFacts, Known, derive};
use super::numbering::{Decoded, Numbering};
use crate::error::Result;

use super::{Added, Effort, Gap, Gaps, Module, Tally};

/// A function that counts are added of.
#[derive(Debug)]
pub struct Adder<'a> {
    module: &'a Module<'a>,
    id: FunctionId,
    function: &'a FunctionFlow,
    /// By block: its index in the profile's code, if it belongs to the function.
    indices: Vec<Option<u32>>,
    /// Addresses that control comes to from elsewhere.
    reached: &'a FxHashSet<Svma>,
}

/// How often parts of the function ran.
#[derive(Debug)]
struct Flow {
    blocks: Vec<u64>,
    /// Nothing if it is not determined.
    edges: Vec<Option<u64>>,
    /// By block: how often control came otherwise than over an edge; nothing if it is not
    /// determined.
    arrivals: Vec<Option<u64>>,
}

impl<'a> Adder<'a> {
    pub fn new(module: &'a Module<'a>, id: FunctionId, reached: &'a FxHashSet<Svma>) -> Adder<'a> {
        let function = &module.flow.functions[id.index()];
        let index = |block: &flow::cfg::Block| {
            let index = module.code.block_at(block.range.start.0)?;
            (module.code.blocks.get(index as usize)?.function == id.0).then_some(index)
        };
        let indices = function.cfg.blocks.iter().map(index).collect();
        Adder { module, id, function, indices, reached }
    }

    pub fn add(&self, builder: &mut ExactBuilder, tally: &Tally, added: &mut Added) -> Result<()> {
        let Added { gaps, effort, paths } = added;
        let gap = |count: u64| (count != 0).then_some(Gap { function: self.function.entry, count });
        gaps.lost_paths.extend(gap(tally.n_lost));
        let flow = if tally.blocks.is_empty() {
            let (flow, n_unknown) = self.add_paths(builder, tally, effort, paths)?;
            gaps.unknown_paths.extend(gap(n_unknown));
            flow
        } else {
            gaps.n_by_blocks += 1;
            let known = self.known(tally);
            let derived = derive(&known);
            gaps.undetermined.extend(gap(derived.n_undetermined));
            gaps.n_left_midway = gaps.n_left_midway.saturating_add(derived.n_left_midway);
            let strays = known.blocks.iter().zip(&derived.arrivals).filter(|(block, _)| !block.is_enterable);
            let n_strays = strays.filter_map(|(_, &arrivals)| arrivals).fold(0, u64::saturating_add);
            gaps.n_stray_arrivals = gaps.n_stray_arrivals.saturating_add(n_strays);
            let blocks = known.blocks.iter().map(|block| block.count.unwrap_or(0)).collect();
            let flow = Flow { blocks, edges: derived.edges, arrivals: derived.arrivals };
            self.add_blocks(builder, &flow)?;
            flow
        };
        self.add_calls(builder, &flow, gaps)?;
        self.add_entries(builder, &flow)
    }

    /// What counters say of blocks and edges.
    fn known<'k>(&'k self, tally: &Tally) -> Known<'k> {
        let cfg = &self.function.cfg;
        let start = |block: BlockId| cfg.block(block).range.start;
        let owned = |block: BlockId| self.indices[block.index()].is_some();
        let count = |block: BlockId| tally.blocks.get(&start(block)).copied().unwrap_or(0);
        let is_unresolved = |edge: &EdgeId| cfg.edge_facts(*edge).kind == EdgeKind::Unresolved;
        let is_astray = cfg.graph.edge_ids().filter(is_unresolved).any(|edge| count(cfg.graph.edge(edge).from) != 0);
        let facts = |block: BlockId| {
            let into = cfg.graph.in_edges(block);
            let only_returned_to = into.iter().all(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call);
            BlockFacts {
                count: owned(block).then(|| count(block)),
                goes_on: !matches!(
                    cfg.block(block).transfer,
                    Transfer::Call(_) | Transfer::IndirectCall | Transfer::Trap
                ),
                is_enterable: cfg.graph.is_entry(block)
                    || self.reached.contains(&start(block))
                    || is_astray && !only_returned_to
                    || into.iter().any(|&edge| !owned(cfg.graph.edge(edge).from)),
            }
        };
        let blocks: Vec<BlockFacts> = cfg.graph.blocks().map(facts).collect();
        let edge = |id: EdgeId| {
            let Edge { from, to } = cfg.graph.edge(id);
            let stays = to.is_some_and(owned);
            if !owned(from) || !blocks[from.index()].goes_on && !stays {
                return Some(0);
            }
            let is_jump = cfg.edge_facts(id).kind != EdgeKind::FallThrough;
            tally.edges.get(&(start(from), cfg.edge_facts(id).target.filter(|_| is_jump)?)).copied()
        };
        let edges = cfg.graph.edge_ids().map(edge).collect();
        Known { graph: &cfg.graph, blocks, edges }
    }

    /// Adds blocks and edges, and the ends of paths that are not known.
    fn add_blocks(&self, builder: &mut ExactBuilder, flow: &Flow) -> Result<()> {
        for (&index, &count) in self.indices.iter().zip(&flow.blocks) {
            if let Some(index) = index {
                builder.block(self.module.id, index, count)?;
            }
        }
        for (edge, count) in self.counted_edges(flow) {
            let Edge { from, to } = self.function.cfg.graph.edge(edge);
            match (self.indices[from.index()], to.and_then(|to| self.indices[to.index()])) {
                (Some(from), Some(to)) => {
                    builder.edge(self.module.id, from, to, count)?;
                    if self.module.code.is_cut(from, to) {
                        builder.unobserved(count);
                    }
                }
                _ => builder.unobserved(count),
            }
        }
        Ok(())
    }

    /// Adds paths; returns also how many have unknown numbers.
    fn add_paths(
        &self,
        builder: &mut ExactBuilder,
        tally: &Tally,
        effort: &mut Effort,
        numbers: &mut FxHashMap<(CodePlace, u64), PathNumber>,
    ) -> Result<(Flow, u64)> {
        let cfg = &self.function.cfg;
        let numbering = Numbering::new(cfg, &self.function.path_weights(), self.module.truncation);
        let mut walked = Walked::new(cfg.graph.n_blocks(), cfg.graph.n_edges());
        let mut n_unknown = 0u64;
        for (&id, &count) in &sums(&tally.paths) {
            let decoded = numbering.decode(id);
            let (path, is_whole) = match decoded {
                Some(Decoded::Whole(path)) => (path, true),
                Some(Decoded::Rest(path)) => (path, false),
                None => {
                    n_unknown = n_unknown.saturating_add(count);
                    continue;
                }
            };
            let back_to = cfg.graph.edge(path.end).to;
            let Some((blocks, back_to)) = self.path_indices(&path.blocks, back_to) else {
                n_unknown = n_unknown.saturating_add(count);
                continue;
            };
            if is_whole {
                let place = CodePlace { module: self.module.id, index: self.id.0 };
                numbers.insert((place, id), builder.path(self.module.id, &blocks, back_to, count)?);
            } else {
                builder.stretch(self.module.id, &blocks, back_to, count)?;
                builder.unobserved(count);
            }
            walked.add(&numbering, &path.blocks, Some(path.end), is_whole, count);
            effort.n_paths = effort.n_paths.saturating_add(count);
        }
        let n_additions = numbering.placement.weighted_additions(&walked.edges);
        effort.n_additions = effort.n_additions.saturating_add(u64::try_from(n_additions).unwrap_or(u64::MAX));
        for &(at, register) in &tally.unfinished {
            let decoded = cfg.block_at(at).and_then(|at| numbering.decode_unfinished(at, register));
            let (path, is_whole) = match decoded {
                Some(Decoded::Whole(path)) => (path, true),
                Some(Decoded::Rest(path)) => (path, false),
                None => {
                    n_unknown = n_unknown.saturating_add(1);
                    continue;
                }
            };
            match self.path_indices(&path, None) {
                Some((blocks, _)) => builder.stretch(self.module.id, &blocks, None, 1)?,
                None => {
                    n_unknown = n_unknown.saturating_add(1);
                    continue;
                }
            }
            walked.add(&numbering, &path, None, is_whole, 1);
        }
        Ok((walked.flow(&numbering), n_unknown))
    }

    /// A path in the profile's terms; nothing if it runs through blocks of other functions.
    fn path_indices(&self, blocks: &[BlockId], back_to: Option<BlockId>) -> Option<(Vec<u32>, Option<u32>)> {
        let blocks: Option<Vec<u32>> = blocks.iter().map(|block| self.indices[block.index()]).collect();
        let back_to = match back_to {
            Some(block) => Some(self.indices[block.index()]?),
            None => None,
        };
        Some((blocks?, back_to))
    }

    /// Calls of fixed addresses, tail calls included.
    fn add_calls(&self, builder: &mut ExactBuilder, flow: &Flow, gaps: &mut Gaps) -> Result<()> {
        let cfg = &self.function.cfg;
        for (block, &count) in cfg.graph.blocks().zip(&flow.blocks) {
            match cfg.block(block).transfer {
                Transfer::Call(target) => {
                    let callee = self.module.flow.function_containing(target);
                    self.add_call(builder, block, callee, false, count)?;
                }
                Transfer::IndirectCall => gaps.n_indirect_calls = gaps.n_indirect_calls.saturating_add(count),
                _ => {}
            }
        }
        for (edge, count) in self.counted_edges(flow) {
            let Edge { from, to } = cfg.graph.edge(edge);
            if to.is_some_and(|to| self.indices[to.index()].is_some()) {
                continue;
            }
            match cfg.block(from).transfer {
                Transfer::Next | Transfer::Jump(_) | Transfer::Branch(_) => {
                    let to = to.map(|to| cfg.block(to).range.start).or(cfg.edge_facts(edge).target);
                    let callee = to.and_then(|to| self.module.flow.function_containing(to));
                    self.add_call(builder, from, callee, true, count)?;
                }
                Transfer::IndirectJump => gaps.n_indirect_jumps = gaps.n_indirect_jumps.saturating_add(count),
                _ => {}
            }
        }
        Ok(())
    }

    fn add_call(
        &self,
        builder: &mut ExactBuilder,
        site: BlockId,
        callee: Option<FunctionId>,
        is_tail: bool,
        count: u64,
    ) -> Result<()> {
        if let (Some(index), Some(callee)) = (self.indices[site.index()], callee) {
            let module = self.module.id;
            builder.call(CodePlace { module, index }, CodePlace { module, index: callee.0 }, is_tail, count)?;
        }
        Ok(())
    }

    /// Control that comes to the function's own entries has entered it; what comes to landing pads
    /// was in it before.
    fn add_entries(&self, builder: &mut ExactBuilder, flow: &Flow) -> Result<()> {
        let cfg = &self.function.cfg;
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
        let entries = entries.filter(|(_, kind)| matches!(kind, EntryKind::Primary | EntryKind::Secondary));
        let n_entries = entries.filter_map(|(&block, _)| flow.arrivals[block.index()]).fold(0, u64::saturating_add);
        Ok(builder.entries(self.module.id, self.id.0, n_entries)?)
    }

    fn counted_edges(&self, flow: &Flow) -> impl Iterator<Item = (EdgeId, u64)> {
        let edges = self.function.cfg.graph.edge_ids().zip(&flow.edges);
        edges.filter_map(|(edge, &count)| Some((edge, count.filter(|&count| count != 0)?)))
    }
}

/// The same path can be counted in several places.
fn sums(paths: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for &(id, count) in paths {
        let sum = sums.entry(id).or_default();
        *sum = sum.saturating_add(count);
    }
    sums
}

/// Sums over paths.
#[derive(Debug)]
struct Walked {
    blocks: Vec<u64>,
    edges: Vec<u64>,
    /// By block: paths that start there.
    starts: Vec<u64>,
}

impl Walked {
    fn new(n_blocks: usize, n_edges: usize) -> Walked {
        Walked { blocks: vec![0; n_blocks], edges: vec![0; n_edges], starts: vec![0; n_blocks] }
    }

    fn add(&mut self, numbering: &Numbering, blocks: &[BlockId], end: Option<EdgeId>, is_whole: bool, count: u64) {
        let graph = numbering.plan.graph();
        let add = |sum: &mut u64| *sum = sum.saturating_add(count);
        if let Some(first) = blocks.first().filter(|_| is_whole) {
            add(&mut self.starts[first.index()]);
        }
        blocks.iter().for_each(|block| add(&mut self.blocks[block.index()]));
        let steps = blocks.windows(2).filter_map(|pair| graph.edge_between(pair[0], pair[1]));
        steps.chain(end).for_each(|edge| add(&mut self.edges[edge.index()]));
    }

    /// A path starts where control comes in, and behind every back edge.
    fn flow(self, numbering: &Numbering) -> Flow {
        let graph = numbering.plan.graph();
        let arrivals = graph.blocks().map(|block| {
            let into = graph.in_edges(block).iter().filter(|&&edge| numbering.plan.is_cut(edge));
            let n_restarts = into.map(|edge| self.edges[edge.index()]).fold(0, u64::saturating_add);
            Some(self.starts[block.index()].saturating_sub(n_restarts))
        });
        Flow { arrivals: arrivals.collect(), blocks: self.blocks, edges: self.edges.into_iter().map(Some).collect() }
    }
}
