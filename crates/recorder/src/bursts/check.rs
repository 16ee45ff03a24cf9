//! Checks burst logs: consecutive blocks of a burst must be joined by an edge, a call, a return or
//! an indirect transfer.
//!
//! What joins two blocks is read off the control-flow graph of the first one's function, not off
//! the copy that ran:
//!
//! * a fall-through, jump or branch leads to one of its targets; a direct call to its callee;
//! * a jump through a resolved table leads to an entry of the table; any other indirect jump, to a
//!   block start;
//! * an indirect call leads to an entry of a function;
//! * a return leads behind a call. If the call was made in the same burst, behind that one, unless
//!   a longjmp or an exception came between, which counts apart; exceptions return to landing pads.
//!
//! The first record must follow from the interrupted address, and the end of the burst from the
//! last record.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::BlockId;
use flow::{FunctionFlow, Transfer};
use image::Svma;
use wire::sample::EndReason;

use crate::translation::block_index::BlockIndex;

/// A module at its place in one process.
#[derive(Debug)]
pub struct CheckedModule {
    pub name: String,
    /// Addresses in the process.
    pub start: u64,
    pub end: u64,
    /// Address in the process less address in the file.
    pub bias: u64,
    pub blocks: Arc<BlockIndex>,
}

/// What checking has found.
#[derive(Debug, Default, Clone)]
pub struct Findings {
    pub n_bursts: u64,
    pub n_blocks: u64,
    /// Instructions of the blocks.
    pub n_instructions: u64,
    /// Pairs whose first block lies in a module that is not known to the checker.
    pub n_unknown: u64,
    /// Returns over frames whose calls were in the burst: longjmp, exceptions, context switches.
    pub n_nonlocal: u64,
    pub n_false: u64,
    /// The first few false pairs, in words.
    pub examples: Vec<String>,
    /// Pairs by what joined them.
    pub joints: BTreeMap<&'static str, u64>,
}

const MAX_EXAMPLES: usize = 20;

/// One burst in addresses of the process.
#[derive(Debug)]
pub struct Burst<'a> {
    pub start_pc: u64,
    pub blocks: &'a [u64],
    pub end_reason: EndReason,
    pub end_pc: u64,
}

enum Verdict {
    Joined(&'static str),
    Unknown,
    False(String),
}

/// Checks one burst against the modules of its process, which are sorted by address.
pub fn check(modules: &[CheckedModule], burst: &Burst<'_>, findings: &mut Findings) {
    findings.n_bursts += 1;
    findings.n_blocks += burst.blocks.len() as u64;
    findings.n_instructions += burst.blocks.iter().map(|&block| instructions_at(modules, block)).sum::<u64>();
    let mut calls: Vec<u64> = Vec::new();
    if let Some(&first) = burst.blocks.first() {
        let verdict = joins_start(modules, burst.start_pc, first, &mut calls);
        note(modules, findings, verdict, burst.start_pc, first);
    }
    for pair in burst.blocks.windows(2) {
        let verdict = joins(modules, pair[0], pair[1], &mut calls, findings);
        note(modules, findings, verdict, pair[0], pair[1]);
    }
    let last = burst.blocks.last().copied();
    let verdict = ends(modules, burst, last, &mut calls, findings);
    note(modules, findings, verdict, last.unwrap_or(burst.start_pc), burst.end_pc);
}

fn note(modules: &[CheckedModule], findings: &mut Findings, verdict: Verdict, from: u64, to: u64) {
    match verdict {
        Verdict::Joined(how) => *findings.joints.entry(how).or_default() += 1,
        Verdict::Unknown => findings.n_unknown += 1,
        Verdict::False(why) => {
            findings.n_false += 1;
            if findings.examples.len() < MAX_EXAMPLES {
                findings.examples.push(format!("{} -> {}: {why}", name(modules, from), name(modules, to)));
            }
        }
    }
}

fn name(modules: &[CheckedModule], pc: u64) -> String {
    match module_at(modules, pc) {
        Some(module) => format!("{}+{:#x}", module.name, pc.wrapping_sub(module.bias)),
        None => format!("{pc:#x}"),
    }
}

fn module_at(modules: &[CheckedModule], pc: u64) -> Option<&CheckedModule> {
    modules.iter().find(|module| module.start <= pc && pc < module.end)
}

/// Instructions of the block that starts there.
fn instructions_at(modules: &[CheckedModule], start: u64) -> u64 {
    let Some(module) = module_at(modules, start) else { return 0 };
    let mut found = module.blocks.at(Svma(start.wrapping_sub(module.bias)));
    found.next().map_or(0, |(function, block)| u64::from(function.cfg.block(block).n_insns))
}

fn joins_start(modules: &[CheckedModule], start_pc: u64, first: u64, calls: &mut Vec<u64>) -> Verdict {
    let Some(module) = module_at(modules, start_pc) else { return Verdict::Unknown };
    let at = Svma(start_pc.wrapping_sub(module.bias));
    if first == start_pc && module.blocks.at(at).next().is_some() {
        return Verdict::Joined("start of burst");
    }
    match module.blocks.containing(at) {
        Some((function, block)) => {
            let mut none = Findings::default();
            joined_from(modules, module, function, block, first, calls, &mut none)
        }
        None => Verdict::False("the burst starts outside all blocks".to_owned()),
    }
}

fn joins(modules: &[CheckedModule], from: u64, to: u64, calls: &mut Vec<u64>, findings: &mut Findings) -> Verdict {
    let Some(module) = module_at(modules, from) else { return Verdict::Unknown };
    let mut verdict = Verdict::False("no block starts there".to_owned());
    for (function, block) in module.blocks.at(Svma(from.wrapping_sub(module.bias))) {
        verdict = joined_from(modules, module, function, block, to, calls, findings);
        if matches!(verdict, Verdict::Joined(_)) {
            break;
        }
    }
    verdict
}

fn joined_from(
    modules: &[CheckedModule],
    module: &CheckedModule,
    function: &FunctionFlow,
    id: BlockId,
    to: u64,
    calls: &mut Vec<u64>,
    findings: &mut Findings,
) -> Verdict {
    let block = function.cfg.block(id);
    let next = block.range.end.0.wrapping_add(module.bias);
    let direct = |target: Svma| target.0.wrapping_add(module.bias);
    let when = |condition: bool, how: &'static str| {
        if condition { Verdict::Joined(how) } else { Verdict::False(format!("not joined by the {how} of the block")) }
    };
    match block.transfer {
        Transfer::Next => when(to == next, "fall-through"),
        Transfer::Jump(target) => when(to == direct(target), "jump"),
        Transfer::Branch(target) => when(to == direct(target) || to == next, "branch"),
        Transfer::Call(target) => {
            calls.push(next);
            when(to == direct(target), "call")
        }
        Transfer::IndirectCall => {
            calls.push(next);
            starts_block(modules, to, true, "indirect call")
        }
        Transfer::IndirectJump => {
            let edges = function.cfg.graph.out_edges(id).map(|edge| function.cfg.edge_facts(edge));
            let table: Vec<u64> = edges
                .filter(|facts| facts.kind == EdgeKind::JumpTable)
                .filter_map(|facts| facts.target.map(direct))
                .collect();
            if table.is_empty() {
                starts_block(modules, to, false, "indirect jump")
            } else {
                when(table.contains(&to), "jump table")
            }
        }
        Transfer::Return => returns(modules, to, calls, findings),
        Transfer::Trap => Verdict::False("the block does not end by going on".to_owned()),
    }
}

fn starts_block(modules: &[CheckedModule], to: u64, must_be_entry: bool, how: &'static str) -> Verdict {
    let Some(module) = module_at(modules, to) else { return Verdict::Unknown };
    let mut starts = module.blocks.at(Svma(to.wrapping_sub(module.bias)));
    let fits = |(function, block): (&FunctionFlow, BlockId)| {
        let entries = function.cfg.graph.entries().iter().zip(&function.cfg.entry_kinds);
        let mut entries = entries.filter(|&(&entry, _)| entry == block);
        !must_be_entry || entries.any(|(_, &kind)| kind != EntryKind::LandingPad)
    };
    match starts.any(fits) {
        true => Verdict::Joined(how),
        false => Verdict::False(format!("an {how} to no {}", if must_be_entry { "entry" } else { "block" })),
    }
}

fn returns(modules: &[CheckedModule], to: u64, calls: &mut Vec<u64>, findings: &mut Findings) -> Verdict {
    if calls.last() == Some(&to) {
        calls.pop();
        return Verdict::Joined("return to its call");
    }
    let Some(module) = module_at(modules, to) else { return Verdict::Unknown };
    let at = Svma(to.wrapping_sub(module.bias));
    if let Some(depth) = calls.iter().rposition(|&site| site == to) {
        calls.truncate(depth);
        findings.n_nonlocal += 1;
        return Verdict::Joined("return past calls");
    }
    if !calls.is_empty() {
        calls.clear();
        findings.n_nonlocal += 1;
    }
    if module.blocks.return_sites.contains_key(&at) {
        return Verdict::Joined("return");
    }
    starts_block(modules, to, false, "return to a block")
}

/// The end of a burst, as far as it says where control went.
fn ends(
    modules: &[CheckedModule],
    burst: &Burst<'_>,
    last: Option<u64>,
    calls: &mut Vec<u64>,
    findings: &mut Findings,
) -> Verdict {
    let from = last.unwrap_or(burst.start_pc);
    let inside = |pc: u64| {
        let Some(module) = module_at(modules, from) else { return Verdict::Unknown };
        let at = Svma(pc.wrapping_sub(module.bias));
        let start = Svma(from.wrapping_sub(module.bias));
        let of_last = module.blocks.at(start).any(|(function, block)| {
            let range = function.cfg.block(block).range;
            range.start <= at && at <= range.end
        });
        let of_start = module.blocks.containing(start).is_some_and(|(function, block)| {
            let range = function.cfg.block(block).range;
            range.start <= at && at <= range.end
        });
        match of_last || of_start {
            true => Verdict::Joined("end inside the block"),
            false => Verdict::False("the burst ends outside its last block".to_owned()),
        }
    };
    match burst.end_reason {
        EndReason::Full | EndReason::BufferFull if last == Some(burst.end_pc) => Verdict::Joined("end at a check"),
        EndReason::Full => Verdict::False("the last record is not where the burst ended".to_owned()),
        // A signal can be anywhere on the way to the next block; dying says nothing about where.
        EndReason::None | EndReason::Signal | EndReason::Asked | EndReason::Died | EndReason::NewContext => {
            Verdict::Joined("end by force")
        }
        EndReason::SystemCall | EndReason::Instruction | EndReason::Unloading | EndReason::EventsFull => {
            inside(burst.end_pc)
        }
        EndReason::NoCopy | EndReason::Outside | EndReason::BufferFull => {
            if matches!(inside(burst.end_pc), Verdict::Joined(_)) {
                return Verdict::Joined("end inside the block");
            }
            match last {
                Some(last) => match joins(modules, last, burst.end_pc, calls, findings) {
                    // Where there is no copy there may be no known block either.
                    Verdict::False(why) if why.starts_with("an indirect") => Verdict::Unknown,
                    verdict => verdict,
                },
                None => Verdict::Unknown,
            }
        }
    }
}
