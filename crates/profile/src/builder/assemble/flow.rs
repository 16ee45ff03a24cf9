//! Blocks, edges, paths, calls and branch histories.

use super::Functions;
use crate::builder::code_map::Located;
use crate::builder::events::{Event, Stretch};
use crate::builder::ids::EventId;
use crate::builder::{BlockRef, Builder};
use crate::estimate::Estimate;
use crate::model::{Block, BlockEnd, BlockId, BranchHistory, Call, Edge, EdgeKind, Path, Profile};

/// Blocks in the order of their rows, and what is needed to make rows of other tables from them.
#[derive(Debug)]
pub(super) struct FlowRows<'a> {
    pub builder: &'a Builder,
    functions: &'a Functions,
    estimates: &'a [Estimate],
    blocks: Vec<BlockRef>,
    /// Directions of branches that were never seen.
    unseen_edges: Vec<(BlockRef, BlockRef, EdgeKind)>,
}

impl<'a> FlowRows<'a> {
    pub fn new(builder: &'a Builder, functions: &'a Functions, estimates: &'a [Estimate]) -> FlowRows<'a> {
        let mut rows = FlowRows { builder, functions, estimates, blocks: Vec::new(), unseen_edges: Vec::new() };
        rows.find_unseen_edges();
        rows.find_blocks();
        rows
    }

    pub fn fill(&self, profile: &mut Profile) {
        profile.blocks = self.blocks.iter().filter_map(|&block| self.block(block)).collect();
        profile.edges = self.edges();
        profile.paths = self.paths(profile);
        profile.calls = self.calls();
        profile.histories = self.histories();
    }

    pub fn blocks(&self) -> impl Iterator<Item = Located<'a>> {
        self.blocks.iter().filter_map(|&block| self.builder.tables.known.code.block(block))
    }

    pub fn id(&self, block: BlockRef) -> BlockId {
        BlockId(self.blocks.partition_point(|&other| other < block) as u32)
    }

    /// Cycles that the last instruction of a block makes the next one wait, one at least.
    pub fn last_wait(&self, block: BlockRef) -> f64 {
        let block = self.builder.tables.known.code.block(block);
        let last = block.and_then(|block| block.insns().last());
        last.map_or(1.0, |insn| f64::from(insn.latency).max(1.0))
    }

    /// Cycles of the instructions of a block if each waits for the one before it, and of the
    /// slowest of them.
    pub fn waits(&self, block: BlockRef) -> (f64, f64) {
        let Some(block) = self.builder.tables.known.code.block(block) else { return (1.0, 1.0) };
        let each = block.insns().iter().map(|insn| f64::from(insn.latency).max(1.0));
        let unknown = || (f64::from(block.block.n_insns.max(1)), 1.0);
        each.fold(None, |sums: Option<(f64, f64)>, wait| {
            let (sum, most) = sums.unwrap_or_default();
            Some((sum + wait, most.max(wait)))
        })
        .unwrap_or_else(unknown)
    }

    /// The row of a block, if it has one.
    pub fn find(&self, block: BlockRef) -> Option<BlockId> {
        self.blocks.binary_search(&block).ok().map(|index| BlockId(index as u32))
    }

    /// The block of a row.
    pub fn number(&self, id: BlockId) -> BlockRef {
        self.blocks[id.index()]
    }

    pub fn estimate(&self, event: Event) -> Estimate {
        self.builder.tables.known.events.find(event).map_or(Estimate::default(), |event| self.estimates[event.index()])
    }

    /// Events that were seen, with their estimates.
    fn events(&self) -> impl Iterator<Item = (EventId, Event, Estimate)> {
        let events = self.builder.tables.known.events.iter();
        let events = events.map(|(id, event)| (id, event, self.estimates[id.index()]));
        events.filter(|(_, _, estimate)| *estimate != Estimate::default())
    }

    fn find_unseen_edges(&mut self) {
        let (code, events) = (&self.builder.tables.known.code, &self.builder.tables.known.events);
        let mut unseen = Vec::new();
        for (_, event, _) in self.events() {
            let Event::Block(from) = event else { continue };
            let Some(block) = code.block(from).filter(|block| block.block.end == BlockEnd::Branch) else { continue };
            let (target, next) = (block.block.target, block.block.end_address());
            for (address, kind) in [(target, EdgeKind::Taken), (next, EdgeKind::FallThrough)] {
                let to = block.sibling_at(address).filter(|to| to.is_beside(&block));
                let is_another_way = kind == EdgeKind::FallThrough || target != next;
                if let Some(to) = to.filter(|_| is_another_way) {
                    let edge = Event::Edge { from, to: to.number(), kind };
                    if events.find(edge).is_none() {
                        unseen.push((from, to.number(), kind));
                    }
                }
            }
        }
        self.unseen_edges = unseen;
    }

    fn find_blocks(&mut self) {
        let mut blocks: Vec<BlockRef> = self.unseen_edges.iter().flat_map(|&(from, to, _)| [from, to]).collect();
        for (_, event, _) in self.events() {
            match event {
                Event::Block(block) | Event::Call { site: block, .. } => blocks.push(block),
                Event::Edge { from, to, .. } => blocks.extend([from, to]),
                Event::Path(Stretch { last, .. }) => {
                    blocks.extend(self.builder.tables.trie.ancestry(last).map(|node| node.block));
                }
                _ => {}
            }
        }
        blocks.extend(self.builder.tables.known.histories.iter().map(|(block, ..)| block));
        let code = &self.builder.tables.known.code;
        let hit = self.builder.tick_places.groups().into_iter();
        let hit = hit.filter_map(|group| code.block_containing(group.module, group.address));
        blocks.extend(hit.filter(|block| block.function().is_some()).map(|block| block.number()));
        let around = blocks.iter().filter_map(|&block| code.block(block)).flat_map(|block| block.loops());
        let headers: Vec<BlockRef> = around.filter_map(|(key, _)| Some(code.loop_facts(key)?.0)).collect();
        blocks.extend(headers);
        blocks.sort_unstable();
        blocks.dedup();
        self.blocks = blocks;
    }

    fn block(&self, number: BlockRef) -> Option<Block> {
        let located = self.builder.tables.known.code.block(number)?;
        let block = located.block;
        Some(Block {
            function: self.functions.id(located.function()?),
            address: block.address,
            size: block.size,
            last: block.last,
            n_insns: block.n_insns,
            end: block.end,
            count: self.estimate(Event::Block(number)),
            self_ns: Estimate::default(),
        })
    }

    fn edges(&self) -> Vec<Edge> {
        let is_back = |event| self.builder.tables.known.back_edges.contains(&event);
        let seen = self.events().filter_map(|(id, event, count)| match event {
            Event::Edge { from, to, kind } => {
                Some(Edge { from: self.id(from), to: self.id(to), kind, is_back: is_back(id), count })
            }
            _ => None,
        });
        let unseen = self.unseen_edges.iter().map(|&(from, to, kind)| {
            let is_back = self.is_cut(from, to);
            Edge { from: self.id(from), to: self.id(to), kind, is_back, count: Estimate::default() }
        });
        let mut edges: Vec<Edge> = seen.chain(unseen).collect();
        edges.sort_by_key(|edge| (edge.from, edge.to, edge.kind));
        edges
    }

    fn is_cut(&self, from: BlockRef, to: BlockRef) -> bool {
        let code = &self.builder.tables.known.code;
        code.block(from).zip(code.block(to)).is_some_and(|(from, to)| from.is_cut_to(&to))
    }

    fn paths(&self, profile: &Profile) -> Vec<Path> {
        let events = &self.builder.tables.known.events;
        let mut paths = Vec::new();
        for (_, event, count) in self.events() {
            let Event::Path(Stretch { last, back_edge }) = event else { continue };
            let mut blocks: Vec<BlockId> =
                self.builder.tables.trie.ancestry(last).map(|node| self.id(node.block)).collect();
            blocks.reverse();
            let of_path = blocks.iter().map(|block| &profile.blocks[block.index()]);
            let is_branch = |block: &&Block| matches!(block.end, BlockEnd::Branch | BlockEnd::IndirectJump);
            let n_branches = of_path.filter(is_branch).count() as u32;
            let back_to = (!back_edge.is_none()).then(|| events.get(back_edge)).and_then(|edge| match edge {
                Event::Edge { to, .. } => Some(self.id(to)),
                _ => None,
            });
            let function = self.functions.id(self.builder.tables.trie.node(last).function);
            let self_ns = Estimate::default();
            paths.push(Path { function, blocks, back_to, n_branches, count, self_ns, misses: 0 });
        }
        paths.sort_by(|a, b| (a.function, &a.blocks, a.back_to).cmp(&(b.function, &b.blocks, b.back_to)));
        paths
    }

    fn calls(&self) -> Vec<Call> {
        let call = |(_, event, count)| match event {
            Event::Call { site, callee, is_tail } => {
                Some(Call { site: self.id(site), callee: self.functions.id(callee), is_tail, count })
            }
            _ => None,
        };
        let mut calls: Vec<Call> = self.events().filter_map(call).collect();
        calls.sort_by_key(|call| (call.site, call.callee, call.is_tail));
        calls
    }

    fn histories(&self) -> Vec<BranchHistory> {
        let row = |(block, history, [n_not_taken, n_taken]): (BlockRef, u8, [u64; 2])| {
            let block = self.id(block);
            BranchHistory { block, history, n_taken, n_not_taken }
        };
        let mut rows: Vec<BranchHistory> = self.builder.tables.known.histories.iter().map(row).collect();
        rows.sort_by_key(|row| (row.block, row.history));
        rows
    }
}
