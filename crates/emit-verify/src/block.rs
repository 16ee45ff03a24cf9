//! The blocks of a function: their probes, instructions and ends.

use emit::{Original, Probe};
use flow::Transfer;
use flow::cfg::{Block, EdgeKind};
use flow::graph::BlockId;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use image::Svma;
use wire::sample::EndReason;
use wire::thread::MAX_UNCHECKED_RECORDS;

use super::cycles;
use super::exact::{Done, Duty};
use super::index::offset_of;
use super::state::{Alias, Needs, Point, State};
use super::transfer::{Change, Pending};
use super::twins::Twins;
use super::walk::{Goal, Landing, Task, Walker};
use super::{Fault, body};

/// The instruction in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'i> {
    pub insn: &'i Instruction,
    pub original: Original,
    /// Where its twin is.
    pub copy: u32,
}

/// Where the program goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub target: Svma,
    /// The kind of its edge, if several lead there.
    pub kind: EdgeKind,
    pub alias: Option<Alias>,
}

/// Stands for the end of a block that the copy does not reach.
const LEFT: u32 = u32::MAX;

impl Walker<'_, '_> {
    /// Walks through the probe of a block.
    pub fn probe(&mut self, id: BlockId) -> Result<(), Fault> {
        let function = self.function.ok_or(Fault::NoTwin)?;
        let block = self.module.original(function.cfg.block(id).range.start);
        let leader = self.index.leader(block).ok_or(Fault::NoTwin)?;
        let state = State::clean(Point::At(block), self.needs_of(self.id, id));
        let task = Task { pending: Pending::Nothing, goal: Goal::Body, duty: self.duties.arrival(id) };
        let landing = self.walk(leader.record, state, &task)?.ok_or(Fault::Endless { at: leader.record })?;
        self.table_arrival(id, leader, state)?;
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
        let needs = self.needs_behind_each(id);
        (self.block, self.block_end) = (Some(id), block.range.end);
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
                let needs = needs.get(number as usize - 1).copied().unwrap_or(Needs::ALL);
                end = self.instruction(id, site, next, needs)?.unwrap_or(end);
            }
        }
        if !block.transfer.ends_block() && end != LEFT {
            self.go_on(id, end, Way { target: block.range.end, kind: EdgeKind::FallThrough, alias: None })?;
        }
        self.event = None;
        self.n_blocks += 1;
        self.n_insns += block.n_insns as usize;
        if twins.is_at_end() { Ok(()) } else { Err(Fault::StrayTwin) }
    }

    /// Checks an instruction that goes on to the next one, whose twin is at `next` if it is in the
    /// same block, with these needs behind it. Returns where the copy goes on.
    fn instruction(
        &mut self,
        id: BlockId,
        site: Site<'_>,
        next: Option<u32>,
        needs: Needs,
    ) -> Result<Option<u32>, Fault> {
        let Site { insn, original, copy } = site;
        self.check_recovery_at_twin(copy, original)?;
        let copied = body::decode(self.index, copy).ok_or(Fault::Instruction { at: copy })?;
        if body::is_same(self.module.base, insn, &copied) {
            self.visit(copy, insn.len());
            let end = copy + insn.len() as u32;
            self.event = self.event_behind(site);
            if let Some(next) = next.filter(|_| self.has_probes_within()) {
                let behind = self.module.original(Svma(insn.next_ip()));
                let goal = Goal::Twin(next, behind);
                let task = Task { pending: Pending::Nothing, goal, duty: Duty::NOTHING };
                self.walk(end, State::clean(Point::At(behind), needs), &task)?.ok_or(Fault::Event { at: end })?;
                self.event = None;
                return Ok(Some(next));
            }
            return if next.is_none_or(|next| next == end) { Ok(Some(end)) } else { Err(Fault::NoTwin) };
        }
        let behind = self.module.original(Svma(insn.next_ip()));
        let needed = if next.is_some() { Needs::ALL } else { self.needs_behind(id, Svma(insn.next_ip())) };
        let (pending, live) = match insn.code() {
            Code::Syscall => (Pending::SystemCall { next: behind, live: needed }, Needs::AT_SYSTEM_CALL),
            Code::Call_rel32_64 => (Pending::PushNext { next: behind }, needed),
            _ if body::may_leave(self.module.image, insn) => {
                self.leave(site, EndReason::Instruction, Done::NOTHING)?;
                return Ok(Some(next.unwrap_or(LEFT)));
            }
            _ => return Err(Fault::Instruction { at: copy }),
        };
        let state = State::clean(Point::At(original), live);
        match next {
            Some(next) => {
                let task = Task { pending, goal: Goal::Twin(next, behind), duty: Duty::NOTHING };
                self.walk(copy, state, &task)?.ok_or(Fault::Transfer { at: copy })?;
                Ok(Some(next))
            }
            None => {
                let duty = self.duty_to(id, Svma(insn.next_ip()), EdgeKind::FallThrough);
                let landing = self.walk(copy, state, &Task { pending, goal: Goal::Block, duty })?;
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
                let alias = Some(Alias { jump: original, needs_flags: false });
                self.go_on(id, copy, Way { target, kind: EdgeKind::FallThrough, alias })
            }
            Transfer::Branch(target) if is_near && insn.flow_control() == FlowControl::ConditionalBranch => {
                self.branch(id, site, target, next)
            }
            Transfer::Call(target) if insn.code() == Code::Call_rel32_64 && self.stays() => {
                self.call_and_stay(id, site, target)
            }
            Transfer::Call(target) if insn.code() == Code::Call_rel32_64 => {
                if !self.module.has_leader(target) {
                    return self.leave(site, EndReason::NoCopy, Done::NOTHING);
                }
                let (next, target) = (self.module.original(next), self.module.original(target));
                self.to_check.insert(target);
                let state = State::clean(Point::At(original), Needs::ALL);
                let pending = Pending::Call { next, target };
                let landing = self.walk(copy, state, &Task { pending, goal: Goal::Block, duty: Duty::NOTHING })?;
                landing.map(drop).ok_or(Fault::Transfer { at: copy })
            }
            Transfer::Return if matches!(insn.code(), Code::Retnq | Code::Retnq_imm16) => {
                let extra = if insn.code() == Code::Retnq { 0 } else { u64::from(insn.immediate16()) };
                self.indirect(id, site, Change::Drop(8 + extra))
            }
            Transfer::IndirectJump if insn.code() == Code::Jmp_rm64 => self.indirect(id, site, Change::None),
            Transfer::IndirectCall if insn.code() == Code::Call_rm64 => {
                self.indirect(id, site, Change::Push(self.module.original(next)))
            }
            _ => self.leave(site, EndReason::Instruction, self.done_at_trap(id)),
        }
    }

    fn branch(&mut self, id: BlockId, site: Site<'_>, target: Svma, next: Svma) -> Result<(), Fault> {
        let Site { insn, original, copy } = site;
        let fault = Fault::Transfer { at: copy };
        self.check_recovery_at_twin(copy, original)?;
        let copied = body::decode(self.index, copy).ok_or(fault)?;
        let has_flags = insn.is_jcc_short_or_near();
        let is_jump_on =
            |insn: &Instruction| has_flags && copied.is_jcc_near() && copied.condition_code() == insn.condition_code();
        let mut negated = *insn;
        negated.negate_condition_code();
        let is_negated = self.stays() && is_jump_on(&negated);
        let is_same = if has_flags { is_jump_on(insn) } else { copied.code() == insn.code() };
        if !is_same && !is_negated {
            // Only a branch without a long form whose target is out of reach is left to the
            // original.
            let may_leave = !has_flags && !self.module.is_in_reach(target);
            return if may_leave { self.leave(site, EndReason::Instruction, Done::NOTHING) } else { Err(fault) };
        }
        self.visit(copy, copied.len());
        let alias = has_flags.then_some(Alias { jump: original, needs_flags: true });
        let (jumps_to, behind) = (offset_of(copied.near_branch_target()), copy + copied.len() as u32);
        let (taken, not_taken) = if is_negated { (behind, jumps_to) } else { (jumps_to, behind) };
        self.go_on(id, taken, Way { target, kind: EdgeKind::Taken, alias })?;
        self.go_on(id, not_taken, Way { target: next, kind: EdgeKind::FallThrough, alias: None })
    }

    fn indirect(&mut self, id: BlockId, site: Site<'_>, change: Change) -> Result<(), Fault> {
        let Site { insn, original, copy } = site;
        let bytes = self.module.image.read(Svma(insn.ip()), insn.len()).ok_or(Fault::NoTwin)?;
        let is_far = body::is_out_of_reach(self.module.image, insn);
        let may_leave = change.has_operand() && (is_far || body::has_unusual_prefix(bytes));
        if may_leave && self.leave(site, EndReason::Instruction, self.done_at_trap(id)).is_ok() {
            return Ok(());
        }
        if self.stays() {
            return self.go_and_stay(id, site, change);
        }
        let state = State::clean(Point::At(original), Needs::ALL);
        let pending = Pending::Indirect { insn: *insn, base: self.module.base, change, cell: None };
        self.walk(copy, state, &Task { pending, goal: Goal::Nothing, duty: Duty::NOTHING }).map(drop)
    }

    /// The copy must end the burst, or go to the gate, at this instruction, having done this.
    pub fn leave(&mut self, site: Site<'_>, reason: EndReason, done: Done) -> Result<(), Fault> {
        let mut state = State::clean(Point::At(site.original), Needs::ALL);
        state.why = Some(reason);
        let task = Task { pending: Pending::Nothing, goal: Goal::Nothing, duty: Duty::elsewhere(done) };
        self.walk(site.copy, state, &task).map(drop)
    }

    /// The copy goes on at `from`, and the program at the way's target.
    pub fn go_on(&mut self, id: BlockId, from: u32, way: Way) -> Result<(), Fault> {
        let Way { target, kind, alias } = way;
        let in_reach = Some(target).filter(|&target| self.module.is_in_reach(target));
        let point = in_reach.map(|target| self.module.original(target)).or(alias.map(|alias| alias.jump));
        let point = point.ok_or(Fault::Transfer { at: from })?;
        let needs = self.needs_at(target);
        // Another function may need more for others that come there.
        let is_own = self.module.owned_block_at(self.id, target).is_some();
        let needed = needs.filter(|_| is_own || !self.stays());
        let mut state = State::clean(Point::At(point), needed.unwrap_or(self.needs_outside(id, target)));
        state.alias = alias;
        if needs.is_none() {
            // Whoever cannot name the target leaves the jump to the original.
            state.why = Some(if in_reach.is_some() { EndReason::NoCopy } else { EndReason::Instruction });
        }
        // A block that is nothing but a jump to itself.
        let is_itself = alias.is_some_and(|alias| alias.jump == point && !alias.needs_flags);
        let goal = match needs {
            None => Goal::Nothing,
            Some(_) if is_itself => Goal::BlockAgain,
            Some(_) => Goal::Block,
        };
        let task = Task { pending: Pending::Nothing, goal, duty: self.duty_to(id, target, kind) };
        let landing = self.walk(from, state, &task)?;
        if landing.is_none() && needs.is_some() {
            return Err(Fault::Transfer { at: from });
        }
        self.arrive(id, landing);
        Ok(())
    }

    /// What a block with a copy needs at its start.
    pub fn needs_at(&self, target: Svma) -> Option<Needs> {
        let own = self.module.owned_block_at(self.id, target).map(|_| self.id);
        let owner = || self.module.flow.function_containing(target).filter(|_| self.module.has_leader(target));
        let id = own.or_else(owner)?;
        self.module.function(id).cfg.block_at(target).map(|block| self.needs_of(id, block))
    }

    /// Remembers a way from block to block.
    fn arrive(&mut self, from: BlockId, landing: Option<Landing>) {
        let Some(landing) = landing else { return };
        self.note_way(from, &landing);
        match self.module.owned_block_at(self.id, self.module.base.offset(u64::from(landing.block.0))) {
            Some(to) => self.ways.direct.push(cycles::Way { from, to, is_checked: landing.is_checked }),
            None => drop(self.to_check.insert(landing.block)),
        }
    }
}
