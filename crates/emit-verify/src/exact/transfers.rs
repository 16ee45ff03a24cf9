//! Calls, returns and computed jumps of copies that are never left.

use emit::{CellKind, Metric, Original};
use flow::callgraph::FunctionId;
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::{FunctionFlow, Transfer};
use iced_x86::Code;
use image::Svma;
use wire::exact::CALLEE;
use wire::recovery::kind;
use wire::sample::EndReason;

use super::duties::Duty;
use super::state::{Clock, Context, Done, Frame, Known, Left, Switch};
use super::step::TABLE_ENTRY_BYTES;
use crate::Fault;
use crate::block::Site;
use crate::index::Leader;
use crate::liveness::Set;
use crate::liveness::effects::Effects;
use crate::state::{Needs, Point, State, Value};
use crate::transfer::{Change, Pending};
use crate::walk::{Goal, Task, Walker};

impl Walker<'_, '_> {
    /// Whether blocks have a second entry, for jumps through tables.
    fn has_table_entries(&self) -> bool {
        self.module.options.probe.tells_arrivals_apart()
    }

    /// What calls must leave that return to the function.
    fn frame(&self) -> Left {
        let has_path = self.module.options.probe.has_paths() && self.duties.skips_arrivals;
        let has_context = self.module.options.probe.has_contexts();
        let has_metric = has_path && self.module.options.probe.has_path_metric();
        Left { has_path, has_context, has_metric, site: None, has_key: has_path || has_context }
    }

    /// The same of a call at the end of a block.
    fn left_by(&self, id: BlockId) -> Left {
        let next = self.return_site(id).and_then(|_| Some(self.function?.cfg.block(id).range.end));
        next.map_or(Left::default(), |next| {
            let frame = self.frame();
            let site = self.record(self.module.original(next));
            Left { site: frame.has_path.then_some(site), ..frame }
        })
    }

    /// The edge from a block to an address; if there are several, the one of this kind.
    fn edge_to(&self, id: BlockId, target: Svma, kind: EdgeKind) -> Option<EdgeId> {
        let cfg = &self.function?.cfg;
        let leads_there = |&edge: &EdgeId| match cfg.graph.edge(edge).to {
            Some(to) => cfg.block(to).range.start == target,
            None => cfg.edge_facts(edge).target == Some(target),
        };
        let edges = || cfg.graph.out_edges(id).filter(leads_there);
        edges().find(|&edge| cfg.edge_facts(edge).kind == kind).or_else(|| edges().next())
    }

    fn edge_of_kind(&self, id: BlockId, kind: EdgeKind) -> Option<EdgeId> {
        let cfg = &self.function?.cfg;
        cfg.graph.out_edges(id).find(|&edge| cfg.edge_facts(edge).kind == kind)
    }

    /// What must be done before an instruction that ends a block and does not come back, and is no
    /// jump.
    pub(crate) fn done_at_trap(&self, id: BlockId) -> Done {
        let transfer = self.function.map(|function| function.cfg.block(id).transfer);
        let is_trap = transfer.is_some_and(|transfer| transfer.is_call() || transfer == Transfer::Trap);
        self.duties.done_on(self.edge_of_kind(id, EdgeKind::Trap).filter(|_| is_trap))
    }

    /// What must be done on the way from a block to an address.
    pub(crate) fn duty_to(&self, id: BlockId, target: Svma, kind: EdgeKind) -> Duty {
        if !self.stays() {
            return Duty::NOTHING;
        }
        let edge = self.edge_to(id, target, kind);
        match self.module.owned_block_at(self.id, target) {
            Some(to) => self.duties.edge_to(edge, to),
            None => Duty::elsewhere(self.duties.done_on(edge)),
        }
    }

    /// What code without a copy needs that a block jumps to.
    pub(crate) fn needs_outside(&self, id: BlockId, target: Svma) -> Needs {
        match self.stays() && self.module.is_in_reach(target) {
            true => self.with_unseen_flags(Needs::of(self.module.liveness.at_end(self.id, id))),
            false => Needs::ALL,
        }
    }

    /// What code at an address needs that a block goes on to.
    pub(crate) fn needs_behind(&self, id: BlockId, target: Svma) -> Needs {
        let own = self.module.owned_block_at(self.id, target).filter(|_| self.stays());
        own.map_or_else(|| self.needs_outside(id, target), |to| self.needs_of(self.id, to))
    }

    /// In a module that passes flags in ways that do not show, they are needed wherever control
    /// leaves a function.
    fn with_unseen_flags(&self, needs: Needs) -> Needs {
        needs.with_flags(needs.flags || self.module.passes_flags_unseen)
    }

    /// What a block needs at its start; in such a module, also the flags that it does not
    /// overwrite.
    pub(crate) fn needs_of(&self, id: FunctionId, block: BlockId) -> Needs {
        let function = self.module.function(id);
        let needs = Needs::of(self.module.liveness.at_start(id, block));
        let may_keep = self.stays() && self.module.passes_flags_unseen;
        needs.with_flags(needs.flags || may_keep && !self.overwrites_flags(function, block))
    }

    fn overwrites_flags(&self, function: &FunctionFlow, block: BlockId) -> bool {
        let mut effects = Effects::new();
        let insns = function.cfg.instructions(self.module.image, block);
        // A system call that the gate makes sees them.
        let mut insns = insns.take_while(|insn| insn.code() != Code::Syscall);
        let mut left = Set::FLAGS;
        insns.any(|insn| {
            left = left - effects.of(&insn).kills;
            !left.has_flags()
        })
    }

    /// Walks from where jumps through tables arrive at the block.
    pub(crate) fn table_arrival(&mut self, id: BlockId, leader: Leader, state: State) -> Result<(), Fault> {
        if !self.has_table_entries() {
            return Ok(());
        }
        let at = leader.record.checked_sub(TABLE_ENTRY_BYTES).ok_or(Fault::NoTwin)?;
        let duty = self.duties.table_arrival(id);
        let mut state = state;
        if duty.at_row_end.is_some() {
            state.fields.saved_rdx = Value::Exact(Known::Row);
        }
        let landing = self.walk(at, state, &Task { pending: Pending::Nothing, goal: Goal::Block, duty })?;
        landing.map(drop).ok_or(Fault::Endless { at })
    }

    /// A direct call.
    pub(crate) fn call_and_stay(&mut self, id: BlockId, site: Site<'_>, target: Svma) -> Result<(), Fault> {
        if !self.module.is_in_reach(target) {
            return self.leave(site, EndReason::Instruction, self.done_at_trap(id));
        }
        let passes_flags = self.module.liveness.expects_flags(target);
        let expects_flags = self.needs_at(target).is_some_and(|needs| needs.flags);
        let live_out = Needs::of(self.module.liveness.at_end(self.id, id));
        let live = self.with_unseen_flags(live_out.with_flags(passes_flags || expects_flags));
        let mut state = State::clean(Point::At(site.original), live);
        let goal = if self.module.has_leader(target) {
            Goal::Block
        } else {
            state.why = Some(EndReason::NoCopy);
            Goal::Nothing
        };
        let next = self.module.original(Svma(site.insn.next_ip()));
        let pending = Pending::Call { next, target: self.module.original(target) };
        let done = self.done_by_call(id, site.original, self.done_at_trap(id))?;
        let duty = Duty { leaves: self.left_by(id), ..Duty::elsewhere(done) };
        let landing = self.walk(site.copy, state, &Task { pending, goal, duty })?;
        if landing.is_none() && goal == Goal::Block {
            return Err(Fault::Transfer { at: site.copy });
        }
        landing.iter().for_each(|landing| self.note_call(id, landing));
        self.come_back(id, next)
    }

    /// What the call at `at` must do beside what is done there anyway: leave the time to who is
    /// called, and descend, where call sites are told apart.
    fn done_by_call(&mut self, id: BlockId, at: Original, mut done: Done) -> Result<Done, Fault> {
        if self.left_by(id).has_metric && self.module.options.probe.metric() == Some(Metric::Cycles) {
            done.clock = Clock::Started;
        }
        if !self.module.options.probe.has_call_sites() || self.module.is_stub(self.id) {
            return Ok(done);
        }
        self.n_listed += 1;
        let key = self.cells.key_of(CellKind::CallSite, at.0).ok_or(Fault::Cells)?;
        Ok(Done { context: Context::Child(key), ..done })
    }

    /// What the indirect call at `at` counts its target by, if it must.
    fn callees_key(&mut self, at: Original) -> Result<Option<u32>, Fault> {
        if !self.module.options.probe.has_callees() {
            return Ok(None);
        }
        self.n_listed += 1;
        let key = self.cells.key_of(CellKind::Callees, at.0).ok_or(Fault::Cells)?;
        Ok(Some(CALLEE | key))
    }

    /// The block behind a call, if it is copied with the function and the call returns there.
    fn return_site(&self, id: BlockId) -> Option<BlockId> {
        let edge = self.edge_of_kind(id, EdgeKind::Call)?;
        self.function?.cfg.graph.edge(edge).to.filter(|&to| self.module.is_owned(self.id, to))
    }

    /// Walks from where the return of the call leads to the return site.
    fn come_back(&mut self, id: BlockId, next: Original) -> Result<(), Fault> {
        let Some(to) = self.return_site(id) else { return Ok(()) };
        let at = self.index.landing(next).ok_or(Fault::NoTwin)?;
        self.n_landings += 1;
        let mut state = State::clean(Point::At(next), self.needs_of(self.id, to));
        let mut duty = self.duties.edge_to(self.edge_of_kind(id, EdgeKind::Call), to);
        let frame = self.frame();
        if frame.has_path {
            state.exact.done.frame = Frame::Foreign;
        }
        if frame.has_context {
            state.exact.done.context = Context::Foreign;
        }
        if frame.has_metric {
            state.exact.done.clock = Clock::Foreign;
        }
        let is_charged = self.module.options.probe.has_context_metric();
        if frame.has_key {
            state.exact.landing_site = Some(self.record(next)).filter(|_| frame.has_path);
            // Without the caller's frame, it arrives like any other.
            duty.before = Some(Done { is_charged, ..state.exact.done });
        }
        duty.behind = duty.behind.map(|done| Done { is_charged, ..done });
        let landing = self.walk(at, state, &Task { pending: Pending::Nothing, goal: Goal::Block, duty })?;
        let landing = landing.ok_or(Fault::Transfer { at })?;
        self.note_way(id, &landing);
        Ok(())
    }

    /// A return, or a computed call or jump.
    pub(crate) fn go_and_stay(&mut self, id: BlockId, site: Site<'_>, change: Change) -> Result<(), Fault> {
        let function = self.function.ok_or(Fault::NoTwin)?;
        let by_table = change == Change::None && self.edge_of_kind(id, EdgeKind::JumpTable).is_some();
        let live_out = Needs::of(self.module.liveness.at_end(self.id, id));
        let (live, edge) = match change {
            Change::Push(_) => (live_out.with_flags(false), self.edge_of_kind(id, EdgeKind::Trap)),
            Change::Drop(_) => {
                let returns_flags = self.module.liveness.returns_flags(self.id);
                (live_out.with_flags(returns_flags), self.edge_of_kind(id, EdgeKind::Return))
            }
            Change::None if by_table => (live_out, None),
            Change::None => (live_out.with_flags(self.passes_flags(id)), function.cfg.graph.out_edges(id).next()),
        };
        let cell = if by_table || !change.has_operand() { None } else { Some(self.target_cell(site.original)?) };
        let leaves = if matches!(change, Change::Push(_)) { self.left_by(id) } else { Left::default() };
        let pending = Pending::Indirect { insn: *site.insn, base: self.module.base, change, cell };
        let mut done = self.duties.done_on(edge);
        if matches!(change, Change::Push(_)) {
            done = self.done_by_call(id, site.original, done)?;
            done.callee = self.callees_key(site.original)?;
        }
        let duty = Duty { leaves, by_table, ..Duty::elsewhere(done) };
        let state = State::clean(Point::At(site.original), self.with_unseen_flags(live));
        self.walk(site.copy, state, &Task { pending, goal: Goal::Nothing, duty })?;
        if by_table {
            self.check_row(id, site.copy)?;
            self.check_foreign_targets(id, site.copy)?;
            self.note_table(id);
        }
        match change {
            Change::Push(next) => self.come_back(id, next),
            _ => Ok(()),
        }
    }

    /// Whether a computed jump is known to lead to a function that expects flags.
    fn passes_flags(&self, id: BlockId) -> bool {
        self.function.is_some_and(|function| {
            let targets = function.cfg.graph.out_edges(id).filter_map(|edge| function.cfg.edge_facts(edge).target);
            targets.into_iter().any(|target| self.module.liveness.expects_flags(target))
        })
    }

    fn target_cell(&mut self, at: Original) -> Result<u32, Fault> {
        self.n_listed += 1;
        self.cells.find(CellKind::Target, at.0, 0).ok_or(Fault::Cells)
    }

    /// What must be true when control is gone, to the gate or to an address that only the thread
    /// knows.
    pub(crate) fn check_gone(
        &mut self,
        at: u32,
        state: &State,
        task: &Task,
        before: Option<Point>,
    ) -> Result<(), Fault> {
        if state.why.is_some() != state.has_ended || state.has_ended && state.end_reason != state.why {
            return Err(Fault::Reason { at, reason: state.end_reason });
        }
        if state.exact.switch != Switch::No {
            return self.check_switch(at, state, task, before);
        }
        // A system call that the gate makes has not been made, nor what comes behind it.
        let is_system_call = matches!(task.pending, Pending::SystemCall { .. });
        let expected = match before {
            Some(before) if before == state.point && is_system_call => Done::NOTHING,
            Some(before) if before == state.point => return Err(Fault::Transfer { at }),
            _ => task.duty.gone,
        };
        self.check_writes(at, state, &task.duty)?;
        let lands = state.fields.twin == Value::Exact(Known::Landing) && !state.has_ended;
        if lands && task.pending.dropped().is_none() {
            return Err(Fault::Transfer { at });
        }
        if !state.exact.done.fulfils(expected) {
            return Err(Fault::Counted { at });
        }
        self.check_table(at, state, task.duty.by_table)
    }

    /// A jump through a table arrives where such jumps do; nothing else does.
    fn check_table(&mut self, at: u32, state: &State, by_table: bool) -> Result<(), Fault> {
        let [rax, twin] = [state.registers[0], state.fields.twin];
        let is_table_twin = [rax, twin].contains(&Value::Exact(Known::TableTwin));
        // The second look is the stub's: the target is not where it should be, and is looked up
        // like any other.
        let must_be =
            by_table && self.has_table_entries() && !state.has_ended && state.exact.n_looks == 1 && state.not_in == 0;
        if is_table_twin && !by_table || must_be && !is_table_twin {
            return Err(Fault::Transfer { at });
        }
        if is_table_twin && self.duties.rows.is_some() {
            let Value::Exact(Known::Place(row)) = state.fields.saved_rdx else { return Err(Fault::Row { at }) };
            self.row = Some(row);
        }
        Ok(())
    }

    /// Where a table leads to a block of another function, arriving there must not take the path
    /// register for that function's own: no table of its own may lead there.
    fn check_foreign_targets(&self, id: BlockId, at: u32) -> Result<(), Fault> {
        let cfg = &self.function.ok_or(Fault::NoTwin)?.cfg;
        let edges = cfg.graph.out_edges(id).filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::JumpTable);
        let targets = edges.filter_map(|edge| cfg.edge_facts(edge).target);
        let is_foreign = |&target: &Svma| self.module.owned_block_at(self.id, target).is_none();
        let is_led_to = |target: Svma| {
            let owner = &self.module.flow.function_at(target).filter(|_| self.module.has_leader(target))?.cfg;
            let block = owner.block_at(target)?;
            let is_table = |&edge: &EdgeId| owner.edge_facts(edge).kind == EdgeKind::JumpTable;
            Some(owner.graph.in_edges(block).iter().any(is_table))
        };
        let mut foreign = targets.filter(is_foreign).filter(|_| self.has_table_entries());
        if foreign.any(|target| is_led_to(target) == Some(true)) { Err(Fault::Transfer { at }) } else { Ok(()) }
    }

    /// The row that a jump through a table has left must hold the right numbers.
    fn check_row(&mut self, id: BlockId, at: u32) -> Result<(), Fault> {
        let Some(rows) = &self.duties.rows else { return Ok(()) };
        let row = self.row.take().ok_or(Fault::Row { at })?;
        let bytes = rows.bytes(id);
        let is_data = self.index.run(row).is_some_and(|run| run.kind == kind::NEVER);
        let stored = self.index.code.get(row as usize..).and_then(|code| code.get(..bytes.len()));
        if stored != Some(&bytes[..]) || !is_data {
            return Err(Fault::Row { at: row });
        }
        self.visit(row, bytes.len());
        Ok(())
    }

    /// What a walk has written beside cells and path register: what a call must note, if it must,
    /// and nothing that only bursts need.
    pub(crate) fn check_writes(&mut self, at: u32, state: &State, duty: &Duty) -> Result<(), Fault> {
        let is_of_burst = state.written.is_some() || state.recorded.is_some() || state.n_checks > 0;
        if self.stays() && is_of_burst {
            return Err(Fault::Probe { at });
        }
        if state.exact.left != duty.leaves || state.exact.claim.is_some() {
            return Err(Fault::Note { at });
        }
        Ok(())
    }
}
