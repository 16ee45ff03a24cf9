//! What the code of one function shows about the conventions that it keeps to.

use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow, Transfer};
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use image::{Cfa, Image, Svma};

use super::effects::{Effect, Effects, is_call};
use super::guards::Guards;
use super::set::Set;

/// What a callee may change and does not return: `rcx`, `rsi`, `rdi`, `r8` to `r11`.
pub(super) const SCRATCH: Set = Set::of(&[1, 6, 7, 8, 9, 10, 11]);
/// What a callee must keep, and the stack pointer.
pub(super) const KEPT: Set = Set::of(&[3, 4, 5, 12, 13, 14, 15]);
/// The register that is no argument and no result.
pub(super) const R11: Set = Set::of(&[11]);
/// The number of the stack pointer in unwind information.
const DWARF_RSP: u16 = 7;
/// Compilers read bytes of registers that nobody has set.
const LEAST_RESULT_BYTES: usize = 4;

/// One block of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Of its instructions; of a call, its operands.
    pub effect: Effect,
    /// Registers that it may change.
    pub written: Set,
    pub end: End,
}

/// How control leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// To other blocks of the function.
    Within,
    /// By a call that comes back.
    Call(Callee),
    /// By a jump to a function that returns in place of this one.
    TailCall(Callee),
    /// By a call that does not come back.
    LastCall(Callee),
    Return,
    Trap,
    Unknown,
}

/// The code that a call leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// A block of a function, by their numbers.
    Known(usize, usize),
    /// Code that keeps to the calling convention.
    Conventional,
    /// Any code.
    Any,
}

/// What a function shows.
#[derive(Debug)]
pub(super) struct Evidence {
    pub blocks: Vec<Facts>,
    /// Scratch registers that it may return something in; `None`: it is not certain to return to
    /// its caller.
    pub results: Option<Set>,
    /// Places behind calls of conventional code, and those of them where a scratch register is
    /// read.
    pub n_sites: usize,
    pub n_odd_sites: usize,
    /// Whether it reads `r11` at once.
    pub takes_r11: bool,
}

impl Evidence {
    pub fn new(image: &Image<'_>, flow: &ModuleFlow, function: &FunctionFlow) -> Evidence {
        let cfg = &function.cfg;
        let mut effects = Effects::new();
        let (mut blocks, mut wide) = (Vec::new(), Vec::new());
        let guards = Guards::new(image, function);
        let mut keeps_stack = true;
        for block in cfg.graph.blocks() {
            let (mut effect, mut reads, mut written) = (Effect::default(), Effect::default(), Set::NONE);
            effects.begin();
            for insn in cfg.instructions(image, block) {
                let alone = effects.of(&insn);
                effect = effect.then(match insn.code() {
                    Code::Syscall => Effect::SYSTEM_CALL,
                    _ if is_call(&insn) => effects.of_operands(&insn),
                    _ => alone.reading(guards.reads(&insn)),
                });
                reads = reads.then(effects.of_operands_from(&insn, LEAST_RESULT_BYTES));
                let changed = effects.written(&insn);
                keeps_stack &= !changed.has_register(Register::RSP.number()) || moves_stack_by_rule(&insn);
                written = written | changed;
            }
            blocks.push(Facts { effect, written, end: end(image, flow, function, block) });
            wide.push(reads);
        }
        let results = keeps_stack.then(|| results(image, function, &blocks)).flatten();
        let (n_sites, n_odd_sites) = sites(function, &blocks, &wide);
        let is_called = |kind: &EntryKind| matches!(kind, EntryKind::Primary | EntryKind::Secondary);
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds).filter(|(_, kind)| is_called(kind));
        let takes_r11 = entries.into_iter().any(|(entry, _)| wide[entry.index()].reads.has_register(11));
        Evidence { blocks, results, n_sites, n_odd_sites, takes_r11 }
    }
}

/// Whether an instruction that changes the stack pointer stays on the same stack: it moves it by a
/// constant or downwards, or back to a frame pointer.
fn moves_stack_by_rule(insn: &Instruction) -> bool {
    let is_named = insn.op0_register() == Register::RSP;
    match insn.mnemonic() {
        Mnemonic::Sub | Mnemonic::And | Mnemonic::Lea => is_named,
        Mnemonic::Add => is_named && !matches!(insn.op1_kind(), OpKind::Register | OpKind::Memory),
        Mnemonic::Mov => is_named && insn.op1_register() == Register::RBP,
        Mnemonic::Pop => !is_named,
        _ => insn.is_stack_instruction(),
    }
}

/// Returns scratch registers that are written before a return and not read after that, if every
/// return is known to find the stack as it was on entry.
fn results(image: &Image<'_>, function: &FunctionFlow, blocks: &[Facts]) -> Option<Set> {
    let frames = function.parts.iter().filter_map(|part| image.frame_at(part.start));
    let rows: Vec<_> = frames.flat_map(|frame| image.unwind_rows(frame).unwrap_or_default()).collect();
    let mut effects = Effects::new();
    let mut results = Set::NONE;
    for block in function.cfg.graph.blocks().filter(|block| blocks[block.index()].end == End::Return) {
        let at = function.cfg.block(block).last();
        let row = rows.iter().find(|row| row.range.contains(at))?;
        if !matches!(row.cfa, Cfa::Register { register: DWARF_RSP, offset: 8 }) {
            return None;
        }
        let insns: Vec<Instruction> = function.cfg.instructions(image, block).collect();
        let mut touched_later = Set::NONE;
        for insn in insns.iter().rev() {
            let Effect { reads, kills } = effects.of_operands(insn);
            results = results | (kills - touched_later);
            touched_later = touched_later | reads | kills;
        }
    }
    Some(results & SCRATCH)
}

fn end(image: &Image<'_>, flow: &ModuleFlow, function: &FunctionFlow, block: BlockId) -> End {
    let cfg = &function.cfg;
    let mut ways = cfg.graph.out_edges(block).filter_map(|edge| {
        let facts = cfg.edge_facts(edge);
        (cfg.graph.edge(edge).to.is_none() || facts.kind == EdgeKind::Call).then_some(facts)
    });
    let Some(way) = ways.next() else { return End::Within };
    if ways.next().is_some() {
        return End::Unknown;
    }
    let transfer = cfg.block(block).transfer;
    match way.kind {
        EdgeKind::Return => End::Return,
        EdgeKind::Call => match transfer {
            Transfer::Call(target) => End::Call(callee(image, flow, target)),
            _ => End::Call(Callee::Conventional),
        },
        EdgeKind::Trap => match transfer {
            Transfer::Call(target) => End::LastCall(callee(image, flow, target)),
            Transfer::IndirectCall => End::LastCall(Callee::Conventional),
            Transfer::Trap => End::Trap,
            _ => End::Unknown,
        },
        // A computed jump that leaves may be one within the function whose table was not found.
        EdgeKind::TailCall if transfer != Transfer::IndirectJump => {
            way.target.map_or(End::Unknown, |target| End::TailCall(callee(image, flow, target)))
        }
        _ => End::Unknown,
    }
}

/// Returns who is at an address that is called. Stubs of the linkage table lead to other modules.
fn callee(image: &Image<'_>, flow: &ModuleFlow, at: Svma) -> Callee {
    if image.plt_stubs().binary_search_by_key(&at, |stub| stub.range.start).is_ok() {
        return Callee::Conventional;
    }
    let known = || {
        let id = flow.function_containing(at)?;
        let block = flow.functions[id.index()].cfg.block_at(at)?;
        Some(Callee::Known(id.index(), block.index()))
    };
    known().unwrap_or(Callee::Any)
}

/// Returns how many places there are behind calls of conventional code, and how many of them read a
/// scratch register, as if it were a result. Places that something else leads to as well do not
/// count: the call may not return.
fn sites(function: &FunctionFlow, blocks: &[Facts], wide: &[Effect]) -> (usize, usize) {
    let graph = &function.cfg.graph;
    let mut read = vec![Set::NONE; blocks.len()];
    loop {
        let mut changed = false;
        for block in graph.blocks().rev() {
            let mut behind = graph.successors(block).fold(Set::NONE, |all, next| all | read[next.index()]);
            if matches!(blocks[block.index()].end, End::Call(_)) {
                behind = behind & KEPT;
            }
            let before = wide[block.index()].before(behind);
            changed |= std::mem::replace(&mut read[block.index()], before) != before;
        }
        if !changed {
            break;
        }
    }
    let calls = graph.blocks().filter(|block| blocks[block.index()].end == End::Call(Callee::Conventional));
    let sites = calls.flat_map(|block| graph.successors(block)).filter(|&site| graph.in_edges(site).len() == 1);
    sites.fold((0, 0), |(n, n_odd), site| {
        let is_odd = !(read[site.index()] & SCRATCH).is_empty();
        (n + 1, n_odd + usize::from(is_odd))
    })
}
