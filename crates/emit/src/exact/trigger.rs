//! Checking and instrumented copies: bursts that a count of checks starts and ends (Hirzel and
//! Chilimbi 2001, figure 3).
//!
//! A module has two copies, and a thread is in one version of them or the other. Both have the same
//! check in the same places; it counts down what is left of the present version and, at 0, goes to
//! the other one:
//!
//! ```text
//! check:      dec dword gs:[checks]                       with flags saved where they are alive
//!             jz switch
//!
//! switch:     mov gs:[saved_rax], rax                     behind the function
//!             lea rax, [rip + original]
//!             jmp stub
//!
//! stub:       mov gs:[target], rax
//!             mov gs:[saved_rcx], rcx
//!             mov ecx, gs:[other checks]      one more if that block makes this check again
//!             mov gs:[checks], ecx
//!             lahf; seto al; mov gs:[saved_flags], rax
//!             mov dword gs:[is_instrumented], ...
//!             ... at the end of a burst: append a mark to the block log
//!             ... look the target up in the map of the other version, and go there
//! ```
//!
//! So the counters do what those of figure 3 do: `nCheck` checks in the checking version, then
//! `nInstr` in the instrumented one, whatever lies between. Calls and returns are looked up in the
//! map of the version that they are made in, so that no return leads into the wrong one.
//!
//! **Places** are those of [`flow::checks`]. An entry has its check where control arrives by
//! address; ways inside the function go past it. A back edge has a check of its own, except that
//! one which is found by its address (through a table) makes its target check all arrivals. Blocks
//! of loops that are boring have neither checks nor records, in either version, nor are values
//! noted there: a burst could not end.
//!
//! **Records.** A block that the instrumented version reaches appends itself to the buffer of words
//! ([`wire::path_trace`]), as a path that ends does ([`super::trace`]), before the check.

use std::hash::Hash;

use flow::callgraph::FunctionId;
use flow::cfg::{EdgeKind, EntryKind};
use flow::checks::{CheckPolicy, EntryChecks, LoopChecks, LoopContents};
use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::{Instruction, Mnemonic, OpKind};
use wire::clusters::Version;
use wire::events::EVENTS_END;
use wire::path_trace::{Mark, RECORD_WORDS};
use wire::recovery::{kind, saves};
use wire::sample::RECORD_ADDRESS_BITS;
use wire::thread::offset;

use super::trace::write_behind_word;
use super::{Code, Plan};
use crate::asm::{Condition, Gpr};
use crate::chunk::{Chunk, Destination, Original, Stub, Switch};
use crate::events::STORE_LEN;
use crate::module::Module;
use crate::probe;
use crate::saving::{begin_saving, keeps_flags, saved, write_restore};

/// What a copy is in a recording whose bursts are started by a count of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trigger {
    /// The version.
    pub version: Version,
    /// Where checks are.
    pub policy: CheckPolicy,
    /// Whether the instrumented version records blocks. If not, only values are noted.
    pub logs: bool,
}

impl Trigger {
    /// Returns the version that checks lead to.
    pub(crate) fn other_version(self) -> Version {
        match self.version {
            Version::Instrumented => Version::Checking,
            Version::Checking => Version::Instrumented,
        }
    }

    /// Returns whether the copy records blocks.
    pub(crate) fn records(self) -> bool {
        self.logs && self.version == Version::Instrumented
    }

    /// Returns the trigger as a number; `None` if it has no number.
    pub(crate) fn number(self) -> Option<u32> {
        let CheckPolicy { entries, loops } = self.policy;
        let (loops, k) = match loops {
            LoopChecks::Every => (0, 0),
            LoopChecks::NotBoring { max_boring_events } => (1, max_boring_events),
            LoopChecks::Never => (2, 0),
        };
        let entries = ENTRIES.iter().position(|&each| each == entries)? as u32;
        let is_checking = u32::from(self.version == Version::Checking);
        (k <= MAX_K).then_some(is_checking | u32::from(self.logs) << 1 | entries << 2 | loops << 4 | k << K_SHIFT)
    }

    /// Returns the trigger with a number.
    pub(crate) fn numbered(number: u32) -> Option<Trigger> {
        let k = number >> K_SHIFT;
        let loops = match (number >> 4 & 3, k) {
            (0, 0) => LoopChecks::Every,
            (1, max_boring_events) => LoopChecks::NotBoring { max_boring_events },
            (2, 0) => LoopChecks::Never,
            _ => return None,
        };
        let entries = ENTRIES[(number >> 2 & 3) as usize];
        let version = if number & 1 == 0 { Version::Instrumented } else { Version::Checking };
        (k <= MAX_K).then_some(Trigger { version, policy: CheckPolicy { entries, loops }, logs: number >> 1 & 1 != 0 })
    }
}

const ENTRIES: [EntryChecks; 4] =
    [EntryChecks::Every, EntryChecks::NonLeaf, EntryChecks::CallCycles, EntryChecks::Never];
/// Where the k of k-boring is in a number, and the largest one that has a number.
const K_SHIFT: u32 = 6;
const MAX_K: u32 = (1 << 18) - 1;

/// What is done when control comes to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// High bits of the block's record, if it is recorded.
    records: Option<u32>,
    check: Check,
}

/// Whether there is a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    None,
    /// There is, and whoever arrives at the block by address makes it, too.
    OnArrival,
    /// There is, on this edge only.
    OnEdge,
}

/// What the probes of a function do.
pub(super) fn plan(module: &Module<'_, '_>, id: FunctionId, trigger: &Trigger) -> Plan {
    let function = module.function(id);
    let (cfg, loops) = (&function.cfg, &function.loops);
    let checks_entry = trigger.policy.checks_entry(&module.flow.calls, id);
    let contents = Contents::new(module, id, trigger.logs);
    let contents = LoopContents { graph: &cfg.graph, loops, events: &contents.events, has_call: &contents.has_call };
    let checked_edges = trigger.policy.checked_back_edges(&contents);
    let boring = trigger.policy.boring_loops(&contents);
    let cluster = (module.options.cluster as u32) << RECORD_ADDRESS_BITS;
    let is_boring = |block: BlockId| loops.innermost(block).is_some_and(|innermost| boring.contains(&innermost));
    let records = |block: BlockId| (trigger.records() && !is_boring(block)).then_some(cluster);
    let mut is_entered = vec![false; cfg.blocks.len()];
    for (entry, kind) in cfg.graph.entries().iter().zip(&cfg.entry_kinds) {
        is_entered[entry.index()] = matches!(kind, EntryKind::Primary | EntryKind::Secondary);
    }
    let mut checks_arrivals: Vec<bool> = cfg
        .graph
        .blocks()
        .map(|block| {
            let is_reached = is_entered[block.index()] || module.is_reached(cfg.block(block).range.start);
            checks_entry && is_reached
        })
        .collect();
    let is_direct = |kind| matches!(kind, EdgeKind::FallThrough | EdgeKind::Taken);
    for &edge in checked_edges.iter().filter(|&&edge| !is_direct(cfg.edge_facts(edge).kind)) {
        if let Some(to) = cfg.graph.edge(edge).to {
            checks_arrivals[to.index()] = true;
        }
    }
    let visit = |block: BlockId, check: Check| {
        let visit = Visit { records: records(block), check };
        if visit.records.is_none() && check == Check::None { Code::Nothing } else { Code::Visit(visit) }
    };
    let arrival =
        |block: BlockId| visit(block, if checks_arrivals[block.index()] { Check::OnArrival } else { Check::None });
    let on_edge = |edge: flow::graph::EdgeId| {
        let Some(to) = cfg.graph.edge(edge).to.filter(|&to| module.is_owned(id, to)) else { return Code::Nothing };
        let checks_all = checks_arrivals[to.index()];
        let is_checked = checked_edges.binary_search(&edge).is_ok();
        match (is_checked, checks_all) {
            _ if !is_direct(cfg.edge_facts(edge).kind) => Code::Nothing,
            (true, true) | (false, false) => Code::Nothing,
            (true, false) => visit(to, Check::OnEdge),
            // Past the check.
            (false, true) => Code::Visit(Visit { records: records(to), check: Check::None }),
        }
    };
    let silent = cfg.graph.blocks().map(is_boring).collect();
    Plan::arriving(cfg.graph.blocks().map(arrival).collect(), cfg.graph.edge_ids().map(on_edge).collect(), silent)
}

/// What tells boring loops from others.
struct Contents {
    events: Vec<u32>,
    has_call: Vec<bool>,
}

impl Contents {
    /// The events of interest are blocks if these are recorded, else accesses to memory.
    fn new(module: &Module<'_, '_>, id: FunctionId, are_blocks: bool) -> Contents {
        let cfg = &module.function(id).cfg;
        let is_reference = |insn: &Instruction| {
            let mut kinds = (0..insn.op_count()).map(|operand| insn.op_kind(operand));
            // These two only name an address.
            kinds.any(|kind| kind == OpKind::Memory) && !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
        };
        let events = |block: BlockId| match are_blocks {
            true => 1,
            false => cfg.instructions(module.image, block).filter(is_reference).count() as u32,
        };
        Contents {
            events: cfg.graph.blocks().map(events).collect(),
            has_call: cfg.blocks.iter().map(|block| block.transfer.is_call()).collect(),
        }
    }
}

/// Writes what is done when control comes to the block at `original`.
pub(super) fn write_visit(chunk: &mut Chunk, original: Original, live: LiveSet, visit: Visit) {
    if let Some(cluster) = visit.records {
        write_record(chunk, original, live, cluster | original.0);
    }
    let stub = match visit.check {
        // What takes control past the check belongs to the way to the block.
        Check::None => return chunk.begin_clean_probe(original),
        Check::OnArrival => Stub::SwitchAtCheck,
        Check::OnEdge => Stub::Switch,
    };
    chunk.statistics.checks += 1;
    let label = chunk.asm.new_label();
    let saved = if keeps_flags(live) { saved(live) & !saves::RCX } else { 0 };
    if saved == 0 {
        chunk.begin_clean_probe(original);
    } else {
        chunk.statistics.probes_flags_saved += 1;
        begin_saving(chunk, original, saved);
    }
    chunk.asm.decrement(offset::CHECKS);
    chunk.asm.jump_to_if(Condition::Z, label);
    write_restore(chunk, saved);
    chunk.switches.push(Switch { label, original, saved, stub });
}

/// Appends a block to the buffer.
fn write_record(chunk: &mut Chunk, original: Original, live: LiveSet, record: u32) {
    let keeps_flags = keeps_flags(live);
    let dead = probe::dead_register(live).filter(|_| !keeps_flags);
    let place = dead.unwrap_or(Gpr::RCX);
    let saved = if dead.is_none() && live.has_register(Gpr::RCX.0) { saves::RCX } else { 0 };
    if saved == 0 {
        chunk.statistics.probes_dead_register += 1;
        chunk.begin_clean_probe(original);
    } else {
        chunk.statistics.probes_spilled += 1;
        chunk.begin_run(kind::PROBE, original, saved, [STORE_LEN, 0, 0, 0]);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    }
    chunk.asm.load(place, offset::NEXT_EVENT);
    let hole = chunk.asm.store_scaled_constant(place, EVENTS_END + 4, record);
    chunk.records.push(hole);
    write_behind_word(chunk, original, place, keeps_flags, saved);
}

/// Writes where the last checks of a version go, behind the function.
pub(crate) fn write_switches(chunk: &mut Chunk) {
    for Switch { label, original, saved, stub } in std::mem::take(&mut chunk.switches) {
        chunk.asm.bind(label);
        if saved != 0 {
            chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
            write_restore(chunk, saved);
        }
        chunk.begin_run(kind::PROBE, original, saves::RAX, [STORE_LEN, 0, 0, 0]);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        chunk.load_original(Gpr::RAX, original);
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(stub));
    }
}

/// Writes the stubs that go to the other version: by way of `go_on`, which looks the target up
/// there, or of `full` if the buffer is. Returns those of [`Stub::SwitchAtCheck`] and
/// [`Stub::Switch`].
pub(crate) fn write_switch_stubs(chunk: &mut Chunk, trigger: Trigger, go_on: u32, full: u32) -> [u32; 2] {
    let other = trigger.other_version();
    let n_checks = if other == Version::Instrumented { offset::N_INSTR } else { offset::N_CHECK };
    let begin = |chunk: &mut Chunk, saves: u8, save_end: [u8; 4]| {
        let start = chunk.position();
        chunk.begin_run(kind::FORWARD, Original(0), saves, save_end);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        chunk.asm.load_dword(Gpr::RCX, n_checks);
        start
    };
    let at_check = begin(chunk, saves::RAX | saves::RCX, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
    chunk.asm.advance_dword(Gpr::RCX, 1);
    let to_common = chunk.asm.jump();
    // The load is the last instruction of its run: none of it sees another `rcx`.
    let plain = begin(chunk, saves::RAX, [STORE_LEN, 0, 0, 0]);
    let common = chunk.position();
    chunk.asm.set_displacement(to_common, common);
    let n_saves = saves::RAX | saves::RCX | saves::FLAGS;
    chunk.begin_run(kind::FORWARD, Original(0), n_saves, [0; 4]);
    chunk.asm.store_dword(offset::CHECKS, Gpr::RCX);
    probe::save_flags(&mut chunk.asm);
    if let Some(run) = chunk.runs.last_mut() {
        run.save_end[2] = (chunk.asm.position() - run.copy) as u8;
    }
    chunk.asm.store_constant(offset::IS_INSTRUMENTED, u32::from(other == Version::Instrumented));
    if trigger.records() {
        // The burst is over.
        chunk.asm.load(Gpr::RAX, offset::NEXT_EVENT);
        chunk.asm.store_scaled_constant(Gpr::RAX, EVENTS_END, Mark::BurstEnd.word() as u32);
        chunk.asm.add_immediate(Gpr::RAX, RECORD_WORDS as i8);
        chunk.asm.store(offset::NEXT_EVENT, Gpr::RAX);
        let is_full = chunk.asm.jump_if(Condition::Z);
        chunk.asm.set_displacement(is_full, full);
    }
    let hole = chunk.asm.jump();
    chunk.asm.set_displacement(hole, go_on);
    [at_check, plain]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_have_numbers() {
        for name in CheckPolicy::PAPER_NAMES {
            let policy = name.parse().expect("a policy");
            for (version, logs) in [(Version::Checking, false), (Version::Instrumented, true)] {
                let trigger = Trigger { version, policy, logs };
                assert_eq!(trigger.number().and_then(Trigger::numbered), Some(trigger), "{name}");
            }
        }
        assert_eq!(Trigger::numbered(3 << 4), None);
    }
}
