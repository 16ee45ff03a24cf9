//! Where indirect jumps go: jump tables, computed gotos and tail calls through pointers.
//!
//! **Problem.** A stripped binary does not say which `jmp *%rax` is a `switch`, where its table
//! lies, or how long it is. Matching instruction patterns breaks with every compiler, with spilled
//! indices and with table addresses that were hoisted out of a loop.
//!
//! **Method.** Interpret the function symbolically ([`crate::semantics`]) to a fixed point over its
//! graph, so that at each indirect jump the target is an expression such as
//! `T + sext32(load4(T + 4 * x))`, and comparisons on the way have left bounds on values such as
//! `x <= 25`. Then do not match the expression: find the one sub-expression on which everything
//! else depends and whose values are bounded (the *index*), and evaluate the target for each of its
//! values, reading the tables from the file. Relative and absolute tables, byte tables in front of
//! them, shifts, masks and any arithmetic in between are one case.
//!
//! Where different values flow together before the jump, the resolution splits into the ways they
//! came from.
//!
//! **Bounds.** In order of trust: a comparison; a mask or the width of a narrow value; none.
//! Without a comparison the table is read until an entry does not lead into the function or another
//! table begins, which is how computed gotos are found.
//!
//! **Tail calls.** A jump that is no table, made at the stack height of the function's entry,
//! through a pointer that is not derived from a table in constant memory, is a tail call. Nothing
//! is known of a pointer that depends on a register which a call before it may have changed: such
//! code knows the callee, and what the register holds may be the address of a table. Everything
//! else stays unresolved, with a reason.

mod resolve;

use image::{Image, Svma};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::cfg::{Cfg, EdgeKind, EntryKind};
use crate::graph::BlockId;
use crate::listing::Listing;
use crate::order::Order;
use crate::semantics::{Interpreter, Merged, Place, RSP, State, Value, Values, refine};
use crate::transfer::Transfer;
pub(crate) use resolve::Surface;

/// The symbolic state at the end of every block of one function.
///
/// The state at the start of a block is not stored: it is the join of what its predecessors hand
/// over *now*. Accumulating it instead would mix what a block received before a loop was known with
/// what it receives after, and lose both. Only for *crowded* blocks, with more predecessors than
/// that is worth, it is accumulated: in an interpreter every one of some hundred instructions jumps
/// to every other.
pub(crate) struct Interpretation<'a, 'data> {
    interpreter: Interpreter<'a, 'data>,
    listing: &'a Listing<'data>,
    cfg: &'a Cfg,
    /// Landing pads and the calls whose exceptions reach them, ascending.
    unwinds: Vec<(BlockId, BlockId)>,
    /// States at the start of crowded blocks.
    accumulated: FxHashMap<BlockId, State>,
    /// By block: places where different values have ever met.
    merged: Vec<Merged>,
    /// After the last instruction; `None` where control has not been seen to arrive.
    after: Vec<Option<State>>,
    order: Order,
    /// Whether the states reached a fixed point.
    settled: bool,
}

/// Predecessors that make a block crowded.
const CROWDED: usize = 24;
/// A block whose state changes more often than this makes the function too complex.
const MAX_CHANGES: u32 = 64;

impl<'a, 'data> Interpretation<'a, 'data> {
    /// Interprets the function. `unwinds` lists calls and the landing pads that exceptions thrown
    /// in them reach; `clobbered_by` tells which registers a callee changes.
    pub fn new(
        image: &'a Image<'data>,
        listing: &'a Listing<'data>,
        cfg: &'a Cfg,
        unwinds: &[(BlockId, BlockId)],
        clobbered_by: Option<&'a dyn Fn(Svma) -> u16>,
    ) -> Interpretation<'a, 'data> {
        let mut pads: Vec<(BlockId, BlockId)> = unwinds.iter().map(|&(call, pad)| (pad, call)).collect();
        pads.sort_unstable();
        let mut this = Interpretation {
            interpreter: Interpreter::new(image, clobbered_by),
            listing,
            cfg,
            unwinds: pads,
            accumulated: FxHashMap::default(),
            merged: vec![Merged::default(); cfg.blocks.len()],
            after: vec![None; cfg.blocks.len()],
            order: Order::new(&cfg.graph),
            settled: true,
        };
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
        let (unknown, known): (Vec<_>, Vec<_>) = entries.partition(|&(_, &kind)| kind == EntryKind::Unknown);
        this.settle(known.into_iter().map(|(&entry, _)| entry), unwinds);
        // Code that nothing is known to reach must not spoil what is known about the rest.
        this.settle(unknown.into_iter().map(|(&entry, _)| entry), unwinds);
        this
    }

    /// Interprets from the given entries on, through blocks that have not been reached before.
    fn settle(&mut self, entries: impl IntoIterator<Item = BlockId>, unwinds: &[(BlockId, BlockId)]) {
        let is_frozen: Vec<bool> = self.after.iter().map(Option::is_some).collect();
        let position = |order: &Order, block| (order.reverse_post_position(block), block);
        let mut pending: BTreeSet<(u32, BlockId)> =
            entries.into_iter().map(|entry| position(&self.order, entry)).collect();
        let mut changes = vec![0u32; self.cfg.blocks.len()];
        while let Some((_, block)) = pending.pop_first() {
            let Some(mut state) = (!is_frozen[block.index()]).then(|| self.state_at(block)).flatten() else { continue };
            self.execute(&mut state, block, self.cfg.block(block).n_insns);
            if self.after[block.index()].as_ref() != Some(&state) {
                changes[block.index()] += 1;
                if changes[block.index()] > MAX_CHANGES {
                    self.settled = false;
                    return;
                }
                self.accumulate(&state, block);
                self.after[block.index()] = Some(state);
                pending.extend(self.cfg.graph.successors(block).map(|next| position(&self.order, next)));
                let first = unwinds.partition_point(|&(call, _)| call < block);
                let pads = unwinds[first..].iter().take_while(|&&(call, _)| call == block);
                pending.extend(pads.map(|&(_, pad)| position(&self.order, pad)));
            }
        }
    }

    /// Adds what `block` hands over to the states of its crowded successors.
    fn accumulate(&mut self, after: &State, block: BlockId) {
        let graph = &self.cfg.graph;
        for edge in graph.out_edges(block) {
            let Some(next) = graph.edge(edge).to.filter(|&next| graph.in_edges(next).len() > CROWDED) else { continue };
            let state = self.along(after, block, self.cfg.edge_facts(edge).kind);
            if let Some(accumulated) = self.accumulated.get_mut(&next) {
                accumulated.join(&state, next, &mut self.interpreter.values);
            }
        }
    }

    /// The state at the start of `block`.
    fn state_at(&mut self, block: BlockId) -> Option<State> {
        if self.cfg.graph.in_edges(block).len() <= CROWDED {
            return self.joined_state_at(block);
        }
        if !self.accumulated.contains_key(&block) {
            let state = self.joined_state_at(block)?;
            self.accumulated.insert(block, state);
        }
        self.accumulated.get(&block).cloned()
    }

    fn joined_state_at(&mut self, block: BlockId) -> Option<State> {
        let mut values = std::mem::take(&mut self.interpreter.values);
        let mut joined: Option<State> = None;
        let mut is_merge = false;
        self.for_each_way_into(block, &mut values, |values, state| match &mut joined {
            None => joined = Some(state.into_owned()),
            Some(joined) => {
                joined.join(&state, block, values);
                is_merge = true;
            }
        });
        if let Some(joined) = joined.as_mut().filter(|_| is_merge) {
            self.merged[block.index()].keep(joined, block, &mut values);
        }
        self.interpreter.values = values;
        joined
    }

    /// The states in which control arrives at `block`, one for each way.
    fn states_into(&mut self, block: BlockId) -> Vec<State> {
        let mut values = std::mem::take(&mut self.interpreter.values);
        let mut states = Vec::new();
        self.for_each_way_into(block, &mut values, |_, state| states.push(state.into_owned()));
        self.interpreter.values = values;
        states
    }

    fn for_each_way_into(
        &self,
        block: BlockId,
        values: &mut Values,
        mut visit: impl FnMut(&mut Values, Cow<'_, State>),
    ) {
        let graph = &self.cfg.graph;
        for &edge in graph.in_edges(block) {
            let from = graph.edge(edge).from;
            if let Some(after) = &self.after[from.index()] {
                visit(values, self.along(after, from, self.cfg.edge_facts(edge).kind));
            }
        }
        let first = self.unwinds.partition_point(|&(pad, _)| pad < block);
        let calls = self.unwinds[first..].iter().take_while(|&&(pad, _)| pad == block);
        calls
            .filter_map(|&(_, call)| self.after[call.index()].as_ref())
            .for_each(|after| visit(values, Cow::Borrowed(after)));
        let is_landing_pad = self.unwinds.get(first).is_some_and(|&(pad, _)| pad == block);
        if graph.entries().first() == Some(&block) {
            let state = State::at_entry(values);
            visit(values, Cow::Owned(state));
        } else if graph.is_entry(block) && !is_landing_pad {
            let state = State::at_unknown_entry(values, block);
            visit(values, Cow::Owned(state));
        }
    }

    /// What is known on an edge, where that is more than at the end of its source.
    fn along<'s>(&self, after: &'s State, from: BlockId, kind: EdgeKind) -> Cow<'s, State> {
        let facts = self.cfg.block(from);
        let last = self.listing.at(facts.last()).filter(|_| matches!(facts.transfer, Transfer::Branch(_)));
        match last {
            Some(last) if after.compared.is_some() => {
                let mut state = after.clone();
                refine(&mut state, self.listing.get(last), kind == EdgeKind::Taken);
                Cow::Owned(state)
            }
            _ => Cow::Borrowed(after),
        }
    }

    /// The state before the last instruction of `block`.
    fn state_before_last(&mut self, block: BlockId) -> Option<State> {
        self.after[block.index()].as_ref()?;
        let mut state = self.state_at(block)?;
        self.execute(&mut state, block, self.cfg.block(block).n_insns - 1);
        Some(state)
    }

    /// Executes the first instructions of a block.
    fn execute(&mut self, state: &mut State, block: BlockId, n_insns: u32) {
        let mut at = self.cfg.block(block).range.start;
        for _ in 0..n_insns {
            let Some(index) = self.listing.at(at) else { return };
            let insn = self.listing.get(index);
            self.interpreter.step(state, insn);
            at = Svma(insn.next_ip());
        }
    }

    /// Whether the stack pointer is where it was on entry, as far as the interpretation can tell.
    fn at_entry_height(&self, state: &State) -> bool {
        let stack = self.interpreter.values.get(state.registers[RSP]);
        stack == Value::Entry(Place::Register(RSP as u8))
    }
}
