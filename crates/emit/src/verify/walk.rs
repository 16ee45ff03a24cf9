//! Walks through a copy, block by block.

use flow::callgraph::FunctionId;
use flow::cfg::{Block, EntryKind};
use flow::graph::BlockId;
use flow::{FunctionFlow, Transfer};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use image::Svma;
use rustc_hash::FxHashSet;
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::MAX_UNCHECKED_RECORDS;

use super::cycles::{Way, Ways};
use super::index::{Index, offset_of};
use super::state::{Needs, Point, State};
use super::step::{Step, step};
use super::transfer::{Change, Pending};
use super::twins::Twins;
use super::{Fault, SAMPLE, VerifyError, body, recovery};
use crate::Probe;
use crate::chunk::Original;
use crate::module::Module;

/// Instructions of one walk. The longest way, a system call, has about forty.
const MAX_STEPS: u32 = 1000;

/// Follows the copy and remembers what it has seen.
pub(super) struct Walker<'a, 'data> {
    module: &'a Module<'a, 'data>,
    index: &'a Index<'a>,
    /// The present function.
    id: FunctionId,
    function: Option<&'a FunctionFlow>,
    ways: Ways,
    /// Bytes of the copy, as bits.
    visited: Vec<u64>,
    n_blocks: usize,
    n_insns: usize,
    /// Blocks whose probes check, and those whose probes must.
    checking: FxHashSet<Original>,
    to_check: FxHashSet<Original>,
}

/// Where a walk may end, apart from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// At the block where the program is: before its probe, or behind one.
    Block,
    /// The same, but not at once: a block that jumps to itself is where the jump starts.
    BlockAgain,
    /// The same, but behind the probe only.
    Body,
    /// At the twin of the next instruction: where it is, and what it is the twin of.
    Twin(u32, Original),
    /// Nowhere.
    Nothing,
}

/// What the way to a twin has done.
#[derive(Clone, Copy, Debug)]
struct Landing {
    block: Original,
    is_checked: bool,
    looked_at_limit: bool,
}

/// The instruction in hand.
#[derive(Clone, Copy, Debug)]
struct Site<'i> {
    insn: &'i Instruction,
    original: Original,
    /// Where its twin is.
    copy: u32,
}

impl<'a, 'data> Walker<'a, 'data> {
    pub fn new(module: &'a Module<'a, 'data>, index: &'a Index<'a>) -> Walker<'a, 'data> {
        Walker {
            module,
            index,
            id: FunctionId(0),
            function: None,
            ways: Ways::default(),
            visited: vec![0; index.code.len() / 64 + 1],
            n_blocks: 0,
            n_insns: 0,
            checking: FxHashSet::default(),
            to_check: FxHashSet::default(),
        }
    }

    /// Turns to a function.
    pub fn begin(&mut self, id: FunctionId) {
        let function = self.module.function(id);
        (self.id, self.function) = (id, Some(function));
        let cfg = &function.cfg;
        self.ways.direct.clear();
        self.ways.block_checks.clear();
        self.ways.block_checks.resize(cfg.blocks.len(), true);
        let others = cfg.graph.edges().iter().filter_map(|edge| edge.to.filter(|&to| !self.module.is_owned(id, to)));
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
        let entries = entries.filter(|(_, kind)| matches!(kind, EntryKind::Primary | EntryKind::Secondary));
        for block in others.chain(entries.map(|(&entry, _)| entry)) {
            let start = cfg.block(block).range.start;
            if self.module.has_leader(start) {
                self.to_check.insert(self.module.original(start));
            }
        }
    }

    /// The ways of the present function.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// What could only be known when all functions have been seen.
    pub fn finish(&self) -> Result<(), VerifyError> {
        let error =
            |original: Original, fault| VerifyError { at: self.module.base.offset(u64::from(original.0)), fault };
        if let Some(&unchecked) = self.to_check.difference(&self.checking).next() {
            let at = self.index.leader(unchecked).map_or(0, |leader| leader.record);
            return Err(error(unchecked, Fault::Unchecked { at }));
        }
        if self.n_blocks != self.index.n_leaders() || self.n_insns != self.index.copy.lengths.len() {
            return Err(error(Original(0), Fault::StrayTwin));
        }
        let is_visited = |at: u32| self.visited[at as usize / 64] >> (at % 64) & 1 != 0;
        let literals = self.index.copy.literals;
        let unreached = (0..literals).find(|&at| !is_visited(at) && !self.index.is_padding(at));
        // The last literal may be there to fill up.
        let last = self.index.code.len() as u32 - 8;
        let is_filler = |at: u32| at == last && self.index.literal(at) == Some(Original(0));
        let unused = || (literals..last + 8).step_by(8).find(|&at| !is_visited(at) && !is_filler(at));
        match unreached.or_else(unused) {
            Some(at) => Err(error(Original(0), Fault::Unreached { at })),
            None => Ok(()),
        }
    }

    /// Walks through the probe of a block.
    pub fn probe(&mut self, id: BlockId) -> Result<(), Fault> {
        let function = self.function.ok_or(Fault::NoTwin)?;
        let block = self.module.original(function.cfg.block(id).range.start);
        let leader = self.index.leader(block).ok_or(Fault::NoTwin)?;
        let state = State::clean(Point::At(block), Needs::of(function.liveness.live_in(id)));
        let landing = self.walk(leader.record, state, &Pending::Nothing, Goal::Body)?;
        let landing = landing.ok_or(Fault::Endless { at: leader.record })?;
        self.ways.block_checks[id.index()] = landing.is_checked;
        if landing.is_checked {
            self.checking.insert(block);
        }
        let many_blocks = function.cfg.blocks.len() > MAX_UNCHECKED_RECORDS / 2;
        let must_look = self.module.options.probe == Probe::Trace && (many_blocks || landing.is_checked);
        if must_look && !landing.looked_at_limit {
            return Err(Fault::Unchecked { at: leader.record });
        }
        Ok(())
    }

    /// Compares the instructions of a block, and follows what replaces its last one.
    pub fn block(&mut self, id: BlockId) -> Result<(), Fault> {
        let function = self.function.ok_or(Fault::NoTwin)?;
        let block = *function.cfg.block(id);
        let bytes = self.module.image.read(block.range.start, block.range.len() as usize).ok_or(Fault::NoTwin)?;
        let mut decoder = Decoder::with_ip(64, bytes, block.range.start.0, DecoderOptions::NONE);
        let leader = self.index.leader(self.module.original(block.range.start)).ok_or(Fault::NoTwin)?;
        let mut twins = Twins::new(self.index, leader.stretch, leader.lengths);
        let mut insn = Instruction::default();
        let mut end = leader.body;
        for number in 1..=block.n_insns {
            decoder.decode_out(&mut insn);
            let original = self.module.original(Svma(insn.ip()));
            let copy = twins.next(original, insn.len()).ok_or(Fault::NoTwin)?;
            let site = Site { insn: &insn, original, copy };
            if number == block.n_insns && block.transfer.ends_block() {
                self.transfer(id, &block, site)?;
            } else {
                // A replaced instruction is followed to the twin of the next one.
                let next = if number == block.n_insns { None } else { twins.peek() };
                end = self.instruction(id, site, next)?.unwrap_or(end);
            }
        }
        if !block.transfer.ends_block() && end != LEFT {
            self.go_on(id, end, block.range.end, None)?;
        }
        self.n_blocks += 1;
        self.n_insns += block.n_insns as usize;
        if twins.is_at_end() { Ok(()) } else { Err(Fault::StrayTwin) }
    }

    /// Checks an instruction that goes on to the next one, whose twin is at `next` if it is in the same block. Returns where the copy goes on.
    fn instruction(&mut self, id: BlockId, site: Site<'_>, next: Option<u32>) -> Result<Option<u32>, Fault> {
        let Site { insn, original, copy } = site;
        self.check_recovery(copy, &State::clean(Point::At(original), Needs::ALL))?;
        let copied = body::decode(self.index, copy).ok_or(Fault::Instruction { at: copy })?;
        if body::is_same(self.module.base, insn, &copied) {
            self.visit(copy, insn.len());
            let end = copy + insn.len() as u32;
            return if next.is_none_or(|next| next == end) { Ok(Some(end)) } else { Err(Fault::NoTwin) };
        }
        let behind = self.module.original(Svma(insn.next_ip()));
        let (pending, live) = match insn.code() {
            Code::Syscall => (Pending::SystemCall { next: behind, live: Needs::ALL }, Needs::AT_SYSTEM_CALL),
            Code::Call_rel32_64 => (Pending::PushNext { next: behind }, Needs::ALL),
            _ if body::may_leave(self.module.image, insn) => {
                self.leave(site, EndReason::Instruction)?;
                return Ok(Some(next.unwrap_or(LEFT)));
            }
            _ => return Err(Fault::Instruction { at: copy }),
        };
        let state = State::clean(Point::At(original), live);
        match next {
            Some(next) => {
                self.walk(copy, state, &pending, Goal::Twin(next, behind))?.ok_or(Fault::Transfer { at: copy })?;
                Ok(Some(next))
            }
            None => {
                let landing = self.walk(copy, state, &pending, Goal::Block)?;
                self.arrive(id, landing);
                Ok(Some(LEFT))
            }
        }
    }

    /// Checks what replaces the last instruction of a block.
    fn transfer(&mut self, id: BlockId, block: &Block, site: Site<'_>) -> Result<(), Fault> {
        let Site { insn, original, copy } = site;
        let next = Svma(insn.next_ip());
        let is_near = insn.op0_kind() == OpKind::NearBranch64;
        match block.transfer {
            Transfer::Jump(target) if is_near && insn.flow_control() == FlowControl::UnconditionalBranch => {
                self.go_on(id, copy, target, Some(original))
            }
            Transfer::Branch(target) if is_near && insn.flow_control() == FlowControl::ConditionalBranch => {
                self.branch(id, site, target, next)
            }
            Transfer::Call(target) if insn.code() == Code::Call_rel32_64 => {
                if !self.module.has_leader(target) {
                    return self.leave(site, EndReason::NoCopy);
                }
                let (next, target) = (self.module.original(next), self.module.original(target));
                self.to_check.insert(target);
                let state = State::clean(Point::At(original), Needs::ALL);
                let landing = self.walk(copy, state, &Pending::Call { next, target }, Goal::Block)?;
                landing.map(drop).ok_or(Fault::Transfer { at: copy })
            }
            Transfer::Return if matches!(insn.code(), Code::Retnq | Code::Retnq_imm16) => {
                let extra = if insn.code() == Code::Retnq { 0 } else { u64::from(insn.immediate16()) };
                self.indirect(site, Change::Drop(8 + extra))
            }
            Transfer::IndirectJump if insn.code() == Code::Jmp_rm64 => self.indirect(site, Change::None),
            Transfer::IndirectCall if insn.code() == Code::Call_rm64 => {
                self.indirect(site, Change::Push(self.module.original(next)))
            }
            _ => self.leave(site, EndReason::Instruction),
        }
    }

    fn branch(&mut self, id: BlockId, site: Site<'_>, target: Svma, next: Svma) -> Result<(), Fault> {
        let Site { insn, original, copy } = site;
        let fault = Fault::Transfer { at: copy };
        self.check_recovery(copy, &State::clean(Point::At(original), Needs::ALL))?;
        let copied = body::decode(self.index, copy).ok_or(fault)?;
        let is_same = if insn.is_jcc_short_or_near() {
            copied.is_jcc_near() && copied.condition_code() == insn.condition_code()
        } else {
            copied.code() == insn.code()
        };
        if !is_same {
            // Only a branch without a long form whose target is out of reach is left to the original.
            let may_leave = !insn.is_jcc_short_or_near() && !self.module.is_in_reach(target);
            return if may_leave { self.leave(site, EndReason::Instruction) } else { Err(fault) };
        }
        self.visit(copy, copied.len());
        let alias = insn.is_jcc_short_or_near().then_some(original);
        self.go_on(id, offset_of(copied.near_branch_target()), target, alias)?;
        self.go_on(id, copy + copied.len() as u32, next, None)
    }

    fn indirect(&mut self, site: Site<'_>, change: Change) -> Result<(), Fault> {
        let Site { insn, original, copy } = site;
        let bytes = self.module.image.read(Svma(insn.ip()), insn.len()).ok_or(Fault::NoTwin)?;
        let is_far = body::is_out_of_reach(self.module.image, insn);
        let is_left = body::decode(self.index, copy).is_some_and(|first| first.code() == Code::Jmp_rel32_64);
        if is_left && change.has_operand() && (is_far || body::has_unusual_prefix(bytes)) {
            return self.leave(site, EndReason::Instruction);
        }
        let state = State::clean(Point::At(original), Needs::ALL);
        let pending = Pending::Indirect { insn: *insn, base: self.module.base, change };
        self.walk(copy, state, &pending, Goal::Nothing).map(drop)
    }

    /// The copy must end the burst at this instruction.
    fn leave(&mut self, site: Site<'_>, reason: EndReason) -> Result<(), Fault> {
        let mut state = State::clean(Point::At(site.original), Needs::ALL);
        state.why = Some(reason);
        self.walk(site.copy, state, &Pending::Nothing, Goal::Nothing).map(drop)
    }

    /// The copy goes on at `from`, and the program at `target`.
    fn go_on(&mut self, id: BlockId, from: u32, target: Svma, alias: Option<Original>) -> Result<(), Fault> {
        let in_reach = Some(target).filter(|&target| self.module.is_in_reach(target));
        let point = in_reach.map(|target| self.module.original(target)).or(alias);
        let point = point.ok_or(Fault::Transfer { at: from })?;
        let needs = self.needs_at(target);
        let mut state = State::clean(Point::At(point), needs.unwrap_or(Needs::ALL));
        state.alias = alias;
        if needs.is_none() {
            state.why = Some(EndReason::NoCopy);
        }
        let is_itself = self.function.is_some_and(|function| function.cfg.block(id).range.start == target);
        let goal = match needs {
            None => Goal::Nothing,
            Some(_) if is_itself => Goal::BlockAgain,
            Some(_) => Goal::Block,
        };
        let landing = self.walk(from, state, &Pending::Nothing, goal)?;
        if landing.is_none() && needs.is_some() {
            return Err(Fault::Transfer { at: from });
        }
        self.arrive(id, landing);
        Ok(())
    }

    /// What a block with a copy needs at its start.
    fn needs_at(&self, target: Svma) -> Option<Needs> {
        let own = self.function.filter(|_| self.module.owned_block_at(self.id, target).is_some());
        let owner = || self.module.flow.function_at(target).filter(|_| self.module.has_leader(target));
        let function = own.or_else(owner)?;
        function.cfg.block_at(target).map(|block| Needs::of(function.liveness.live_in(block)))
    }

    /// Remembers a way from block to block.
    fn arrive(&mut self, from: BlockId, landing: Option<Landing>) {
        let Some(landing) = landing else { return };
        match self.module.owned_block_at(self.id, self.module.base.offset(u64::from(landing.block.0))) {
            Some(to) => self.ways.direct.push(Way { from, to, is_checked: landing.is_checked }),
            None => drop(self.to_check.insert(landing.block)),
        }
    }

    /// Executes the copy from `start` until it arrives at the goal or has left. Returns how it arrived.
    fn walk(&mut self, start: u32, state: State, pending: &Pending, goal: Goal) -> Result<Option<Landing>, Fault> {
        // What has parts cannot arrive before its last one.
        let before = if matches!(pending, Pending::Nothing) { None } else { Some(state.point) };
        let mut landing = None;
        let mut to_do = vec![(start, state)];
        let mut n_steps = 0;
        while let Some((at, mut state)) = to_do.pop() {
            let may_land = before != Some(state.point) && (goal != Goal::BlockAgain || n_steps > 0);
            if let Some(here) = self.landing(at, &state, goal).filter(|_| may_land) {
                if !state.is_restored() || state.why.is_some() || state.written.is_some() {
                    return Err(Fault::Clobbered { at });
                }
                landing = Some(here);
                continue;
            }
            n_steps += 1;
            if n_steps > MAX_STEPS {
                return Err(Fault::Endless { at: start });
            }
            self.check_recovery(at, &state)?;
            let insn = body::decode(self.index, at).ok_or(Fault::Probe { at })?;
            self.visit(at, insn.len());
            if matches!(insn.code(), Code::Push_rm64) {
                self.visit(offset_of(insn.memory_displacement64()), 8);
            }
            let next = at + insn.len() as u32;
            match step(self.index, &mut state, pending, &insn).ok_or(Fault::Probe { at })? {
                Step::Next => to_do.push((next, state)),
                Step::Jump(target) => to_do.push((target, state)),
                Step::Branch(target, taken) => to_do.extend([(next, state), (target, *taken)]),
                Step::Gone => self.check_departure(at, &state, pending)?,
            }
        }
        Ok(landing)
    }

    fn landing(&self, at: u32, state: &State, goal: Goal) -> Option<Landing> {
        let Point::At(block) = state.point else { return None };
        let here = Landing { block, is_checked: state.n_checks > 0, looked_at_limit: state.looked_at_limit };
        if let Goal::Twin(twin, original) = goal {
            return (twin == at && original == block).then_some(here);
        }
        let leader = self.index.leader(block).filter(|_| goal != Goal::Nothing)?;
        let record = match self.module.options.probe {
            Probe::Trace => Some(self.record(block)),
            Probe::None => None,
        };
        let is_untouched = state.recorded.is_none() && state.written.is_none() && state.n_checks == 0;
        let is_before = goal != Goal::Body && leader.record == at && is_untouched;
        (is_before || leader.body == at && state.recorded == record).then_some(here)
    }

    /// The record of a block.
    fn record(&self, block: Original) -> u32 {
        let offset = SAMPLE.module_base - SAMPLE.cluster_lo + u64::from(block.0);
        (self.module.options.cluster as u32) << RECORD_ADDRESS_BITS | offset as u32
    }

    fn check_departure(&self, at: u32, state: &State, pending: &Pending) -> Result<(), Fault> {
        if state.has_ended {
            let is_right = state.why.is_some() && state.end_reason == state.why;
            return if is_right { Ok(()) } else { Err(Fault::Reason { at, reason: state.end_reason }) };
        }
        if state.why.is_some() || pending.must_look_at_limit() && !state.looked_at_limit {
            return Err(Fault::Unchecked { at });
        }
        Ok(())
    }

    fn check_recovery(&self, at: u32, state: &State) -> Result<(), Fault> {
        let run = self.index.run(at).ok_or(Fault::Recovery { at })?;
        if recovery::is_right(run, at - run.copy, state) { Ok(()) } else { Err(Fault::Recovery { at }) }
    }

    fn visit(&mut self, at: u32, len: usize) {
        for byte in at..at.saturating_add(len as u32) {
            if let Some(word) = self.visited.get_mut(byte as usize / 64) {
                *word |= 1 << (byte % 64);
            }
        }
    }
}

/// Stands for the end of a block that the copy does not reach.
const LEFT: u32 = u32::MAX;
