//! Checks that lead to another version of the copy: where they must be, and what must be done when
//! one was the last.
//!
//! **Where.** A policy ([`flow::checks`]) names entries and back edges; what it says is worked out
//! here from loops and call graph.
//!
//! * Control that comes by its address to an entry, or from another function to any block, makes
//!   the check of the entry. Control inside the function goes past it.
//! * A back edge that is a jump or runs on makes a check of its own, unless all who come to the
//!   block make it. They all do if a back edge comes by the address: through a table, or behind a
//!   call.
//! * In loops that are boring nothing is recorded or noted, either.
//!
//! **The last check.** The thread goes on at the block in the other version: with the checks of
//! that one, and one more if it makes the same check once more there.

use emit::{Original, Probe, Trigger};
use flow::callgraph::FunctionId;
use flow::cfg::{EdgeKind, EntryKind};
use flow::checks::{CheckPolicy, EntryChecks, LoopChecks};
use flow::graph::{BlockId, EdgeId};
use flow::loops::LoopId;
use iced_x86::{Instruction, Mnemonic, OpKind};
use wire::clusters::{Cluster, Version};
use wire::exact::{CHECKING_RETURNS, RETURNS};
use wire::thread::offset;

use super::duties::Duties;
use super::state::{Done, Known, Outcome, Switch};
use crate::Fault;
use crate::module::Module;
use crate::state::{Point, State, Value};
use crate::walk::{Task, Walker};

/// What must be done on the ways of a function.
pub(super) fn duties(module: &Module<'_, '_>, id: FunctionId, trigger: Trigger) -> Duties {
    let function = module.function(id);
    let (cfg, loops) = (&function.cfg, &function.loops);
    let boring = boring_loops(module, id, trigger);
    let record = |block: BlockId| {
        let is_boring = loops.innermost(block).is_some_and(|innermost| boring[innermost.index()]);
        let is_recorded = trigger.logs && trigger.version == Version::Instrumented && !is_boring;
        is_recorded.then(|| module.record(module.original(cfg.block(block).range.start)))
    };
    let mut is_checked = vec![false; cfg.graph.n_edges()];
    for each in loops.ids().filter(|each| trigger.policy.loops != LoopChecks::Never && !boring[each.index()]) {
        loops.get(each).back_edges.iter().for_each(|edge| is_checked[edge.index()] = true);
    }
    let mut at_arrival = vec![false; cfg.blocks.len()];
    if checks_entry(module, id, trigger.policy) {
        let is_entry = |kind: &EntryKind| matches!(kind, EntryKind::Primary | EntryKind::Secondary);
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds).filter(|(_, kind)| is_entry(kind));
        entries.for_each(|(entry, _)| at_arrival[entry.index()] = true);
        for block in cfg.graph.blocks().filter(|&block| module.is_reached(cfg.block(block).range.start)) {
            at_arrival[block.index()] = true;
        }
    }
    let is_by_address = |edge: EdgeId| !matches!(cfg.edge_facts(edge).kind, EdgeKind::FallThrough | EdgeKind::Taken);
    for edge in cfg.graph.edge_ids().filter(|&edge| is_checked[edge.index()] && is_by_address(edge)) {
        if let Some(to) = cfg.graph.edge(edge).to {
            at_arrival[to.index()] = true;
        }
    }
    let arrival =
        |block: BlockId| Done { recorded: record(block), is_checked: at_arrival[block.index()], ..Done::NOTHING };
    let mut duties = Duties {
        arrivals: cfg.graph.blocks().map(arrival).collect(),
        edges: vec![Done::NOTHING; cfg.graph.n_edges()],
        passes: vec![false; cfg.graph.n_edges()],
        ..Duties::default()
    };
    for edge in cfg.graph.edge_ids().filter(|&edge| !is_by_address(edge)) {
        let Some(to) = cfg.graph.edge(edge).to.filter(|&to| module.is_owned(id, to)) else { continue };
        let is_checked = is_checked[edge.index()];
        if is_checked != at_arrival[to.index()] {
            duties.passes[edge.index()] = true;
            duties.edges[edge.index()] = Done { recorded: record(to), is_checked, ..Done::NOTHING };
        }
    }
    duties.boring = boring;
    duties
}

fn checks_entry(module: &Module<'_, '_>, id: FunctionId, policy: CheckPolicy) -> bool {
    let calls = &module.flow.calls;
    let calls_nothing = calls.callees(id).is_empty() && !calls.facts(id).calls_unknown;
    match policy.entries {
        EntryChecks::Every => true,
        EntryChecks::Never => false,
        EntryChecks::NonLeaf => !calls_nothing,
        EntryChecks::CallCycles => {
            let is_outermost = calls.is_root(id) || calls.facts(id).address_taken;
            !calls_nothing && (is_outermost || calls.recursion_from_below(id))
        }
    }
}

/// By loop: whether it calls nothing and has few events. What is an event is a block if blocks are
/// recorded, else an instruction that accesses memory by an operand.
fn boring_loops(module: &Module<'_, '_>, id: FunctionId, trigger: Trigger) -> Vec<bool> {
    let function = module.function(id);
    let (cfg, loops) = (&function.cfg, &function.loops);
    let LoopChecks::NotBoring { max_boring_events } = trigger.policy.loops else {
        return vec![false; loops.all().len()];
    };
    let is_event = |insn: &Instruction| {
        let has_operand = (0..insn.op_count()).any(|operand| insn.op_kind(operand) == OpKind::Memory);
        has_operand && !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
    };
    let n_events = |&block: &BlockId| match trigger.logs {
        true => 1,
        false => cfg.instructions(module.image, block).filter(is_event).count() as u64,
    };
    let is_boring = |each: LoopId| {
        let blocks = loops.blocks(each);
        let calls = blocks.iter().any(|&block| cfg.block(block).transfer.is_call());
        !calls && blocks.iter().map(n_events).sum::<u64>() <= u64::from(max_boring_events)
    };
    loops.ids().map(is_boring).collect()
}

/// Whether the copy keeps a log of blocks.
pub(super) fn logs(probe: Probe) -> bool {
    probe.trigger().is_some_and(|trigger| trigger.logs && trigger.version == Version::Instrumented)
}

/// Where the return table is.
pub(super) fn returns(probe: Probe) -> u32 {
    match probe.trigger().map(|trigger| trigger.version) {
        Some(Version::Checking) => CHECKING_RETURNS,
        Some(Version::Instrumented) | None => RETURNS,
    }
}

/// Which field of a cluster has the map that is to be used: that of the copy's own version, or of
/// the other one when the thread is there.
pub(crate) fn map_field(probe: Probe, state: &State) -> usize {
    let has_turned = matches!(state.exact.switch, Switch::Turned { .. } | Switch::Marked { .. });
    let is_checking = probe.trigger().is_some_and(|trigger| trigger.version == Version::Checking);
    match is_checking == has_turned {
        true => std::mem::offset_of!(Cluster, map),
        false => std::mem::offset_of!(Cluster, checking_map),
    }
}

/// The checks go down by one, once.
pub(super) fn count_down(state: &mut State, probe: Probe) -> Option<Outcome> {
    let exact = &mut state.exact;
    (probe.trigger().is_some() && exact.switch == Switch::No && !exact.done.is_checked).then_some(())?;
    (exact.done.is_checked, exact.switch) = (true, Switch::Unlooked);
    Some(Outcome::LastCheck)
}

/// The checks of the other version, where they are wanted.
pub(super) fn next_checks(state: &State, probe: Probe, at: u32) -> Option<Known> {
    let of_other = match probe.trigger()?.version {
        Version::Checking => offset::N_INSTR,
        Version::Instrumented => offset::N_CHECK,
    };
    (at == of_other && state.exact.switch == Switch::Due).then_some(Known::NextChecks { again: false })
}

/// The other version has its checks. From here on the block is a target like that of any transfer.
pub(super) fn set_checks(state: &mut State, again: bool) -> Option<()> {
    let Point::At(to) = state.point else { return None };
    (state.exact.switch == Switch::Due && state.fields.target == Value::Address(to)).then_some(())?;
    (state.point, state.fields.target) = (Point::Target, Value::Target);
    state.exact.switch = Switch::Counted { to, again };
    Some(())
}

/// The thread is in the other version.
pub(super) fn turn(state: &mut State, probe: Probe, is_instrumented: u32) -> Option<()> {
    let Switch::Counted { to, again } = state.exact.switch else { return None };
    let is_other = (is_instrumented, probe.trigger()?.version);
    matches!(is_other, (0, Version::Instrumented) | (1, Version::Checking)).then_some(())?;
    state.exact.switch = Switch::Turned { to, again };
    Some(())
}

impl Walker<'_, '_> {
    /// What must be true when a thread is gone to the other version, or to the gate on the way
    /// there: all that is to be done on the way to the block has been done.
    pub(super) fn check_switch(
        &mut self,
        at: u32,
        state: &State,
        task: &Task,
        before: Option<Point>,
    ) -> Result<(), Fault> {
        let (to, again) = match state.exact.switch {
            Switch::Turned { to, again } if !logs(self.module.options.probe) => (to, again),
            Switch::Marked { to, again } => (to, again),
            _ => return Err(Fault::Switch { at }),
        };
        self.check_writes(at, state, &task.duty)?;
        let is_there = before != Some(Point::At(to));
        if !is_there || again != self.checks_arrivals(to).ok_or(Fault::Switch { at })? {
            return Err(Fault::Switch { at });
        }
        if task.duty.is_behind(&state.exact) { Ok(()) } else { Err(Fault::Counted { at }) }
    }

    /// Whether who comes to the block by its address makes a check; `None` if there is no such
    /// block.
    fn checks_arrivals(&self, block: Original) -> Option<bool> {
        let at = self.module.base.offset(u64::from(block.0));
        let block = self.module.owned_block_at(self.id, at)?;
        Some(self.duties.done_at(block).is_checked)
    }
}
