//! Walks through a copy: from a place in it to where control arrives at a twin, or is gone.

use emit::{Original, Probe};
use flow::FunctionFlow;
use flow::callgraph::FunctionId;
use flow::cfg::EntryKind;
use flow::graph::BlockId;
use iced_x86::{Code, Register};
use image::Svma;
use rustc_hash::FxHashSet;
use wire::recovery::kind;

use super::cycles::Ways;
use super::events::Expected;
use super::exact::{self, Cells, Duties, Duty, Switch, Unchecked};
use super::index::{Index, offset_of};
use super::state::{Needs, Point, State};
use super::step::{Step, step};
use super::transfer::Pending;
use super::{Fault, VerifyError, body, recovery};
use crate::module::Module;

/// Instructions of one walk. The longest way, to a target that is in no cluster, has some hundred;
/// where call sites are told apart, it is gone for each outcome of the search for the context.
const MAX_STEPS: u32 = 4000;

/// Follows the copy and remembers what it has seen.
pub(super) struct Walker<'a, 'data> {
    pub module: &'a Module<'a, 'data>,
    pub index: &'a Index<'a>,
    /// The present function.
    pub id: FunctionId,
    pub function: Option<&'a FunctionFlow>,
    pub ways: Ways,
    /// Ways without a check of their own, in copies whose checks lead to another version.
    pub unchecked: Unchecked,
    /// Bytes of the copy, as bits.
    visited: Vec<u64>,
    pub n_blocks: usize,
    pub n_insns: usize,
    /// Blocks whose probes check, and those whose probes must.
    pub checking: FxHashSet<Original>,
    pub to_check: FxHashSet<Original>,
    /// What the copy says that it counts, and what the present function must count.
    pub cells: &'a Cells,
    pub duties: Duties,
    /// Entries of the list of cells that have been found to be used.
    pub n_listed: usize,
    /// The row that the last jump through a table has left.
    pub row: Option<u32>,
    pub n_landings: usize,
    /// What the present walk must append to the buffer of events for the instruction that it starts
    /// behind.
    pub event: Option<Expected>,
    /// The block in hand, and where it ends.
    pub block: Option<BlockId>,
    pub block_end: Svma,
}

/// What a walk is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub pending: Pending,
    pub goal: Goal,
    pub duty: Duty,
}

/// Where a walk may end, apart from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
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
pub(super) struct Landing {
    pub block: Original,
    pub place: Place,
    pub is_checked: bool,
    pub looked_at_limit: bool,
}

/// Where in a block a walk has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the probe at its start.
    Before,
    /// At its first instruction.
    First,
    /// At another one, in the block in hand.
    Within,
}

impl<'a, 'data> Walker<'a, 'data> {
    pub fn new(module: &'a Module<'a, 'data>, index: &'a Index<'a>, cells: &'a Cells) -> Walker<'a, 'data> {
        Walker {
            module,
            index,
            id: FunctionId(0),
            function: None,
            ways: Ways::default(),
            unchecked: Unchecked::default(),
            visited: vec![0; index.code.len() / 64 + 1],
            n_blocks: 0,
            n_insns: 0,
            checking: FxHashSet::default(),
            to_check: FxHashSet::default(),
            cells,
            duties: Duties::default(),
            n_listed: 0,
            row: None,
            n_landings: 0,
            event: None,
            block: None,
            block_end: Svma(0),
        }
    }

    /// Whether the copy is never left.
    pub fn stays(&self) -> bool {
        self.module.options.probe.stays()
    }

    /// Turns to a function.
    pub fn begin(&mut self, id: FunctionId) -> Result<(), Fault> {
        let function = self.module.function(id);
        (self.id, self.function) = (id, Some(function));
        self.duties = exact::duties(self.module, id, self.cells)?;
        self.n_listed += self.duties.n_listed;
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
        Ok(())
    }

    /// The ways of the present function.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// What could only be known when all functions have been seen.
    pub fn finish(&self) -> Result<(), VerifyError> {
        let error =
            |original: Original, fault| VerifyError { at: self.module.base.offset(u64::from(original.0)), fault };
        let unchecked = self.to_check.difference(&self.checking).next().filter(|_| !self.stays());
        if let Some(&unchecked) = unchecked {
            let at = self.index.leader(unchecked).map_or(0, |leader| leader.record);
            return Err(error(unchecked, Fault::Unchecked { at }));
        }
        if let Some(trigger) = self.module.options.probe.trigger() {
            let cycle = self.unchecked.cycle(trigger.policy, &self.checking);
            cycle.map_or(Ok(()), |at| Err(error(at, Fault::Cycle)))?;
        }
        if self.n_blocks != self.index.n_leaders() || self.n_insns != self.index.copy.lengths().len() {
            return Err(error(Original(0), Fault::StrayTwin));
        }
        if self.n_landings != self.index.copy.landings().count() {
            return Err(error(Original(0), Fault::StrayTwin));
        }
        if self.n_listed != self.cells.len() {
            return Err(error(Original(0), Fault::Cells));
        }
        let is_visited = |at: u32| self.visited[at as usize / 64] >> (at % 64) & 1 != 0;
        let literals = self.index.copy.literals();
        let unreached = (self.first_function()..literals).find(|&at| !is_visited(at) && !self.index.is_padding(at));
        // The last literal may be there to fill up.
        let last = self.index.code.len() as u32 - 8;
        let is_filler = |at: u32| at == last && self.index.literal(at) == Some(Original(0));
        let unused = || (literals..last + 8).step_by(8).find(|&at| !is_visited(at) && !is_filler(at));
        match unreached.or_else(unused) {
            Some(at) => Err(error(Original(0), Fault::Unreached { at })),
            None => Ok(()),
        }
    }

    /// Where the first function starts. What is before it, code that all functions share, need not
    /// be used by any in a copy that is never left.
    fn first_function(&self) -> u32 {
        let is_shared = |kind: u8| matches!(kind, kind::FORWARD | kind::EXIT | kind::NEVER);
        let first = self.index.copy.runs().iter().find(|run| !is_shared(run.kind) && self.stays());
        first.map_or(0, |run| run.copy)
    }

    /// Executes the copy from `start` until it arrives at the goal or has left. Returns how it
    /// arrived.
    pub fn walk(&mut self, start: u32, state: State, task: &Task) -> Result<Option<Landing>, Fault> {
        // What has parts cannot arrive before its last one.
        let before = if matches!(task.pending, Pending::Nothing) { None } else { Some(state.point) };
        let mut landing = None;
        let mut state = state;
        state.exact.n_path_cells = self.duties.n_path_cells;
        let mut to_do = vec![(start, state)];
        let mut seen: Vec<(u32, State)> = Vec::new();
        let mut n_steps = 0;
        while let Some((mut at, mut state)) = to_do.pop() {
            // States are large: one way is gone to its end with the same one.
            loop {
                state.forget_rcx();
                let may_land = before != Some(state.point) && (task.goal != Goal::BlockAgain || n_steps > 0);
                if may_land && let Some(here) = self.landing(at, &state, task)? {
                    let is_through = state.why.is_none() && state.written.is_none() && state.exact.switch == Switch::No;
                    if !state.is_restored() || !is_through {
                        return Err(Fault::Clobbered { at });
                    }
                    self.check_writes(at, &state, &task.duty)?;
                    self.check_event(at, &state, Some(&here))?;
                    self.check_accesses(at, &state, Some(&here))?;
                    landing = Some(here);
                    break;
                }
                n_steps += 1;
                if n_steps > MAX_STEPS {
                    return Err(Fault::Endless { at: start });
                }
                self.check_recovery(at, &state)?;
                let insn = body::decode(self.index, at).ok_or(Fault::Probe { at })?;
                self.visit(at, insn.len());
                if insn.code() == Code::Push_rm64 && insn.memory_base() == Register::RIP {
                    self.visit(offset_of(insn.memory_displacement64()), 8);
                }
                let next = at + insn.len() as u32;
                let step = step(self.index, &mut state, &task.pending, &insn).ok_or(Fault::Probe { at })?;
                let is_back = matches!(step, Step::Back(_));
                let target = match step {
                    Step::Next => next,
                    Step::Jump(target) | Step::Back(target) => target,
                    Step::Branch(target, taken) => {
                        to_do.push((next, std::mem::replace(&mut state, *taken)));
                        target
                    }
                    Step::Gone if self.stays() => {
                        self.check_event(at, &state, None)?;
                        self.check_accesses(at, &state, None)?;
                        self.check_gone(at, &state, task, before)?;
                        break;
                    }
                    Step::Gone => {
                        self.check_event_departure(at, &state, task.goal)?;
                        check_departure(at, &state, &task.pending)?;
                        break;
                    }
                };
                // Ways meet again where they come back from behind the function, and searches come
                // round until nothing new is known.
                if is_back || target <= at {
                    if seen.contains(&(target, state)) {
                        break;
                    }
                    seen.push((target, state));
                }
                at = target;
            }
        }
        Ok(landing)
    }

    fn landing(&self, at: u32, state: &State, task: &Task) -> Result<Option<Landing>, Fault> {
        let (goal, duty) = (task.goal, &task.duty);
        let Point::At(block) = state.point else { return Ok(None) };
        let here = Landing {
            block,
            place: if matches!(goal, Goal::Twin(..)) { Place::Within } else { Place::First },
            is_checked: state.n_checks > 0 || state.exact.done.is_checked,
            looked_at_limit: state.looked_at_limit,
        };
        if let Goal::Twin(twin, original) = goal {
            let is_there = twin == at && original == block && duty.is_behind(&state.exact);
            return Ok(Some(here).filter(|_| is_there));
        }
        let Some(leader) = self.index.leader(block).filter(|_| goal != Goal::Nothing) else { return Ok(None) };
        let record = match self.module.options.probe {
            Probe::Trace => Some(self.record(block)),
            Probe::None | Probe::Exact(_) => None,
        };
        let is_untouched = state.recorded.is_none() && state.written.is_none() && state.n_checks == 0;
        let is_before = goal != Goal::Body && leader.record == at && is_untouched;
        if is_before && duty.before.is_some_and(|before| state.exact.done.fulfils(before)) {
            return Ok(Some(Landing { place: Place::Before, ..here }));
        }
        let is_behind = leader.body == at && state.recorded == record;
        if is_behind && !duty.is_behind(&state.exact) {
            return Err(Fault::Counted { at });
        }
        Ok(Some(here).filter(|_| is_behind))
    }

    /// The record of a block, or the site of an instruction.
    pub fn record(&self, block: Original) -> u32 {
        self.module.record(block)
    }

    /// Whether the rule at the twin of an instruction is that of the program's own state.
    pub fn check_recovery_at_twin(&self, at: u32, original: Original) -> Result<(), Fault> {
        let run = self.index.run(at).ok_or(Fault::Recovery { at })?;
        if run.kind == kind::STRAIGHT && run.writes == 0 && run.original.wrapping_add(at - run.copy) == original.0 {
            return Ok(());
        }
        self.check_recovery(at, &State::clean(Point::At(original), Needs::ALL))
    }

    pub fn check_recovery(&self, at: u32, state: &State) -> Result<(), Fault> {
        let run = self.index.run(at).ok_or(Fault::Recovery { at })?;
        if recovery::is_right(run, at - run.copy, state) { Ok(()) } else { Err(Fault::Recovery { at }) }
    }

    pub fn visit(&mut self, at: u32, len: usize) {
        for byte in at..at.saturating_add(len as u32) {
            if let Some(word) = self.visited.get_mut(byte as usize / 64) {
                *word |= 1 << (byte % 64);
            }
        }
    }
}

fn check_departure(at: u32, state: &State, pending: &Pending) -> Result<(), Fault> {
    if state.has_ended {
        let is_right = state.why.is_some() && state.end_reason == state.why;
        return if is_right { Ok(()) } else { Err(Fault::Reason { at, reason: state.end_reason }) };
    }
    if state.why.is_some() || pending.must_look_at_limit() && !state.looked_at_limit {
        return Err(Fault::Unchecked { at });
    }
    Ok(())
}
