//! What must be done so that calling contexts are right, and what instructions do to them.
//!
//! * Arriving at an entry of a function by its address makes the context that of the function's
//!   entry in the table, after the call was counted there. If there is none, the gate makes it, and
//!   the search starts again; nothing has been counted meanwhile.
//! * Where call sites are told apart, a call does the same by its own number, after the caller's
//!   context was left in the frame.
//! * Arriving at a return site or landing pad by its address makes the context what a frame with
//!   the same stack pointer has, or else the root.
//! * A tail call makes it the one around the function.
//! * Where cycles are counted, those since the last time are charged to the present context before
//!   each of these, and after a return.
//! * Stubs of the linkage table have no context, and what control does there leaves it alone.

use emit::CellKind;
use flow::callgraph::FunctionId;
use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::BlockId;
use iced_x86::{Code, Instruction, Register};
use wire::exact::{CONTEXT_BYTES, ContextEntry, N_CONTEXT_ENTRIES, N_FRONT_CONTEXTS, ROOT_CONTEXT};
use wire::sample::EndReason;

use super::cells::Cells;
use super::duties::Duties;
use super::state::{Context, ContextSearch, Done, Known, Outcome};
use crate::Fault;
use crate::module::Module;
use crate::state::{Flags, RAX, RCX, RDX, State, Value};
use crate::step::Step;

pub(super) const KEY: u32 = std::mem::offset_of!(ContextEntry, key) as u32;
pub(super) const COUNT: u32 = std::mem::offset_of!(ContextEntry, count) as u32;
pub(super) const CONTEXT: u32 = std::mem::offset_of!(ContextEntry, context) as u32;
pub(super) const CYCLES: u32 = std::mem::offset_of!(ContextEntry, metric) as u32;
/// Bits that tell the places of entries apart.
pub(super) const PLACE_MASK: u32 = (N_CONTEXT_ENTRIES - 1) * CONTEXT_BYTES;
/// The same of the front.
pub(super) const FRONT_MASK: u32 = (N_FRONT_CONTEXTS - 1) * CONTEXT_BYTES;

/// The key of the function's contexts; nothing if it has none.
pub(super) fn key(module: &Module<'_, '_>, id: FunctionId, cells: &Cells) -> Result<Option<u32>, Fault> {
    let key = cells.context_key(module.original(module.function(id).entry).0);
    if key.is_some() == module.is_stub(id) { Err(Fault::Cells) } else { Ok(key) }
}

/// Adds what must be done about contexts.
pub(super) fn add(module: &Module<'_, '_>, id: FunctionId, key: Option<u32>, duties: &mut Duties) {
    let cfg = &module.function(id).cfg;
    duties.arrivals.resize(cfg.blocks.len(), Done::NOTHING);
    duties.edges.resize(cfg.graph.n_edges(), Done::NOTHING);
    duties.skips_arrivals = true;
    for block in cfg.graph.blocks() {
        let context = at_arrival(module, id, block, key);
        let is_charged = module.options.probe.has_context_metric() && context != Context::Kept;
        let done = &mut duties.arrivals[block.index()];
        *done = Done { context, is_charged, ..*done };
    }
    if key.is_some() {
        duties.n_listed += 1;
        let tail_calls = cfg.graph.edge_ids().filter(|&edge| cfg.edge_facts(edge).kind == EdgeKind::TailCall);
        for edge in tail_calls {
            let done = &mut duties.edges[edge.index()];
            *done = Done { context: Context::Parent, is_charged: module.options.probe.has_context_metric(), ..*done };
        }
    }
}

fn at_arrival(module: &Module<'_, '_>, id: FunctionId, block: BlockId, key: Option<u32>) -> Context {
    let cfg = &module.function(id).cfg;
    let entry = cfg.graph.entries().iter().position(|&entry| entry == block);
    let returns_here = cfg.graph.in_edges(block).iter().any(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call);
    match entry.map(|index| cfg.entry_kinds[index]) {
        Some(EntryKind::Primary | EntryKind::Secondary) => key.map_or(Context::Kept, Context::Child),
        Some(EntryKind::LandingPad) => Context::Retaken,
        _ if returns_here => Context::Retaken,
        _ => Context::Kept,
    }
}

/// The thread's context becomes what a register holds.
pub(super) fn store(state: &mut State, value: Known) -> Option<()> {
    let context = &mut state.exact.done.context;
    *context = match (value, *context) {
        (Known::EnteredContext(key), Context::Kept) => Context::Child(key),
        (Known::ParentContext, Context::Kept) => Context::Parent,
        (Known::LeftContext, Context::Foreign) => Context::Kept,
        (Known::LeftContext, Context::Kept) => Context::Retaken,
        _ => return None,
    };
    Some(())
}

/// It becomes the root, because there is no frame.
pub(super) fn store_constant(state: &mut State, value: u32) -> Option<()> {
    let exact = &mut state.exact;
    let is_lost = exact.is_other && exact.done.context == Context::Kept && value == ROOT_CONTEXT;
    is_lost.then(|| exact.done.context = Context::Retaken)
}

/// What an entry says.
pub(super) fn load(state: &State, at: u32) -> Option<Known> {
    match (state.exact.search, at) {
        (ContextSearch::Counted(key), CONTEXT) => Some(Known::EnteredContext(key)),
        _ => None,
    }
}

/// A call is counted.
pub(super) fn count(state: &mut State) -> Option<()> {
    let ContextSearch::Found(key) = state.exact.search else { return None };
    state.exact.search = ContextSearch::Counted(key);
    Some(())
}

/// The counter is noted for the next time.
pub(super) fn note_time(state: &mut State, from: usize) -> Option<()> {
    let is_now = state.registers[from] == Value::Exact(Known::Now);
    let was_loaded = state.registers[RCX] == Value::Exact(Known::Charged);
    (is_now && was_loaded).then(|| state.exact.has_noted_time = true)
}

/// Cycles are charged to the present context.
pub(super) fn charge(state: &mut State, insn: &Instruction) -> Option<()> {
    let exact = &mut state.exact;
    let is_elapsed = insn.code() == Code::Add_rm64_r64
        && insn.op1_register() == Register::RAX
        && state.registers[RAX] == Value::Exact(Known::Elapsed);
    let is_first = !exact.done.is_charged && matches!(exact.done.context, Context::Kept | Context::Foreign);
    (is_elapsed && is_first).then(|| exact.done.is_charged = true)
}

/// The gate is asked for an entry.
pub(super) fn want(state: &mut State, from: usize) -> Option<()> {
    let is_key = matches!(state.registers[from], Value::Exact(Known::ContextKey(..)));
    let is_missing = is_key && state.exact.search == ContextSearch::Missing && state.why.is_none();
    is_missing.then(|| state.why = Some(EndReason::NewContext))
}

/// The gate makes the entry and goes on at the address in `twin`, with everything as it was. What
/// is known about entries is not known any more.
pub(super) fn made(state: &mut State) -> Option<Step> {
    let Value::Exact(Known::Place(back)) = state.fields.twin else { return None };
    let is_ready = state.why == Some(EndReason::NewContext) && state.is_at(state.fields.target) && state.is_restored();
    is_ready.then_some(())?;
    (state.why, state.end_reason) = (None, None);
    state.fields.twin = Value::Junk;
    state.exact.search = ContextSearch::Looking;
    Some(Step::Back(back))
}

/// Comparisons with the key of an entry.
pub(super) fn compare(state: &State, insn: &Instruction) -> Option<Outcome> {
    match insn.code() {
        Code::Cmp_r64_rm64 => match state.registers[insn.op0_register().number()] {
            Value::Exact(Known::ContextKey(key, Context::Kept)) => Some(Outcome::SameContext(key)),
            _ => None,
        },
        Code::Cmp_rm64_imm8 if insn.immediate8() == 0 => Some(Outcome::NoContext),
        _ => None,
    }
}

/// Arithmetic with the time. Returns what the first operand becomes.
pub(super) fn calculate(state: &mut State, insn: &Instruction) -> Option<Known> {
    let [first, second] = [insn.op0_register(), insn.op1_register()];
    if insn.code() == Code::Shl_rm64_imm8 && first == Register::RDX && insn.immediate8() == 32 {
        let is_time = state.registers[RDX] == Value::TimeHigh;
        state.flags = Flags::Junk;
        return is_time.then_some(Known::HighTime);
    }
    if insn.code() == Code::Or_rm64_r64 && [first, second] == [Register::RAX, Register::RDX] {
        let is_time = state.registers[RAX] == Value::TimeLow;
        let is_whole = is_time && state.registers[RDX] == Value::Exact(Known::HighTime);
        state.flags = Flags::Junk;
        return is_whole.then_some(Known::Now);
    }
    let [rax, rcx] = [RAX, RCX].map(|number| match state.registers[number] {
        Value::Exact(known) => Some(known),
        _ => None,
    });
    let becomes = match (insn.code(), rax?) {
        (Code::Sub_rm64_r64, Known::Now) if [first, second] == [Register::RAX, Register::RCX] => {
            let has_both = rcx? == Known::Charged && state.exact.has_noted_time;
            has_both.then_some(Known::Elapsed)?
        }
        (Code::Sub_rm64_r64, Known::Now) if [first, second] == [Register::RAX, Register::RDX] => {
            let has_both = state.registers[RDX] == Value::Exact(Known::Charged) && state.exact.has_noted_start;
            has_both.then_some(Known::PathTime)?
        }
        _ => return None,
    };
    state.flags = Flags::Junk;
    Some(becomes)
}

impl Cells {
    /// The key of the contexts of the function at `at`.
    fn context_key(&self, at: u32) -> Option<u32> {
        self.key_of(CellKind::Context, at)
    }
}
