//! Where indirect jumps go: jump tables, computed gotos and tail calls through pointers.
//!
//! **Problem.** A stripped binary does not say which `jmp *%rax` is a `switch`, where its table lies, or how long it is.
//! Matching instruction patterns breaks with every compiler, with spilled indices and with table addresses that were hoisted
//! out of a loop.
//!
//! **Method.** Interpret the function symbolically ([`interpret`]) to a fixed point over its graph, so that at each indirect
//! jump the target is an expression such as `T + sext32(load4(T + 4 * x))`, and comparisons on the way have left bounds on
//! values such as `x <= 25`. Then do not match the expression: find the one sub-expression on which everything else depends
//! and whose values are bounded (the *index*), and evaluate the target for each of its values, reading the tables from the
//! file. Relative and absolute tables, byte tables in front of them, shifts, masks and any arithmetic in between are one case.
//!
//! Where different values flow together before the jump, the resolution splits into the ways they came from.
//!
//! **Bounds.** In order of trust: a comparison; a mask or the width of a narrow value; none. Without a comparison the table is
//! read until an entry does not lead into the function or another table begins, which is how computed gotos are found.
//!
//! **Tail calls.** A jump that is no table, made at the stack height of the function's entry, through a pointer that is
//! not derived from a table in constant memory, is a tail call. Everything else stays unresolved, with a reason.

mod interpret;
mod resolve;
mod state;
mod value;

use image::{Image, Svma};
use std::collections::BTreeSet;

use crate::cfg::{Cfg, EdgeKind};
use crate::graph::BlockId;
use crate::listing::Listing;
use crate::order::Order;
use crate::transfer::Transfer;
use interpret::{Interpreter, refine};
pub(crate) use resolve::Surface;
use state::State;
use value::Value;

/// The symbolic state at the start of every block of one function.
pub(crate) struct Interpretation<'a, 'data> {
    interpreter: Interpreter<'a, 'data>,
    listing: &'a Listing<'data>,
    cfg: &'a Cfg,
    /// `None` where control has not been seen to arrive.
    states: Vec<Option<State>>,
    order: Order,
    /// Whether the states reached a fixed point.
    settled: bool,
}

/// A block visited more often than this makes the function too complex. Real ones need under ten visits.
const MAX_VISITS: u32 = 64;

impl<'a, 'data> Interpretation<'a, 'data> {
    /// Interprets the function. `unwinds` lists calls and the landing pads that exceptions thrown in them reach.
    pub fn new(
        image: &'a Image<'data>,
        listing: &'a Listing<'data>,
        cfg: &'a Cfg,
        unwinds: &[(BlockId, BlockId)],
    ) -> Interpretation<'a, 'data> {
        let order = Order::new(&cfg.graph);
        let states = vec![None; cfg.blocks.len()];
        let mut this = Interpretation { interpreter: Interpreter::new(image), listing, cfg, states, order, settled: true };
        let mut is_landing_pad = vec![false; cfg.blocks.len()];
        for &(_, pad) in unwinds {
            is_landing_pad[pad.index()] = true;
        }
        let mut pending = BTreeSet::new();
        for (index, &entry) in cfg.graph.entries().iter().enumerate() {
            if is_landing_pad[entry.index()] {
                continue;
            }
            let values = &mut this.interpreter.values;
            let state = if index == 0 { State::at_entry(values) } else { State::at_unknown_entry(values, entry) };
            this.states[entry.index()] = Some(state);
            pending.insert((this.order.reverse_post_position(entry), entry));
        }
        let mut visits = vec![0u32; cfg.blocks.len()];
        while let Some((_, block)) = pending.pop_first() {
            visits[block.index()] += 1;
            if visits[block.index()] > MAX_VISITS {
                this.settled = false;
                break;
            }
            for (next, state) in this.flow_out(block, unwinds) {
                if this.arrive(next, state) {
                    pending.insert((this.order.reverse_post_position(next), next));
                }
            }
        }
        this
    }

    /// The states in which control leaves `block` towards each successor.
    fn flow_out(&mut self, block: BlockId, unwinds: &[(BlockId, BlockId)]) -> Vec<(BlockId, State)> {
        let Some(state) = self.state_before_last(block) else { return Vec::new() };
        let facts = self.cfg.block(block);
        let mut after = state;
        if let Some(last) = self.listing.at(facts.last()) {
            self.interpreter.step(&mut after, self.listing.get(last));
        }
        let mut out = Vec::new();
        for edge in self.cfg.graph.out_edges(block) {
            if let Some(next) = self.cfg.graph.edge(edge).to {
                out.push((next, self.along(&after, block, self.cfg.edge_facts(edge).kind)));
            }
        }
        let first = unwinds.partition_point(|&(call, _)| call < block);
        for &(_, pad) in unwinds[first..].iter().take_while(|&&(call, _)| call == block) {
            out.push((pad, after.clone()));
        }
        out
    }

    fn along(&self, after: &State, block: BlockId, kind: EdgeKind) -> State {
        let mut state = after.clone();
        let facts = self.cfg.block(block);
        if let Transfer::Branch(_) = facts.transfer
            && let Some(last) = self.listing.at(facts.last())
        {
            refine(&mut state, self.listing.get(last), kind == EdgeKind::Taken);
        }
        state
    }

    fn arrive(&mut self, block: BlockId, state: State) -> bool {
        match &mut self.states[block.index()] {
            Some(known) => known.join(&state, block, &mut self.interpreter.values),
            unknown => {
                *unknown = Some(state);
                true
            }
        }
    }

    /// The state before the last instruction of `block`.
    fn state_before_last(&mut self, block: BlockId) -> Option<State> {
        let mut state = self.states[block.index()].clone()?;
        let facts = *self.cfg.block(block);
        let mut at = facts.range.start;
        for _ in 1..facts.n_insns {
            let insn = self.listing.get(self.listing.at(at)?);
            self.interpreter.step(&mut state, insn);
            at = Svma(insn.next_ip());
        }
        Some(state)
    }

    /// Whether the stack pointer is where it was on entry, as far as the interpretation can tell.
    fn at_entry_height(&self, state: &State) -> bool {
        let stack = state.registers[interpret::RSP];
        matches!(self.interpreter.values.get(stack), Value::Entry(place) if place == value::Place::Register(interpret::RSP as u8))
    }
}
