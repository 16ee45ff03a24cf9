//! Which registers are needed across calls and returns, for code that keeps to the calling
//! convention.
//!
//! [`Liveness`] by itself says that calls and ways out need every register, because functions of
//! one module may have agreed on anything (`-fipa-ra`, hand-written assembly). So a register that a
//! function does not use at all is alive in all of it. Copies that are never left have probes in
//! every loop and at every call, and pay for each register that they have to save. This module
//! looks at the whole module at once:
//!
//! * **What callees read.** A direct call needs what is alive at the start of its callee. An
//!   unknown callee may read the registers of the convention, and `rax` and `r10` (number of vector
//!   arguments, static chain); not `r11`; and of these only what may have been set since a call
//!   before has overwritten it.
//! * **What callers use.** A return needs what is alive behind any direct call of the function,
//!   tail calls included. Unknown callers use `rax`, `rdx` and what a callee must keep. So a value
//!   that a caller leaves in a register, because it knows that its callee does not touch it, is
//!   alive in all of the callee.
//! * **What is not known** is alive, behind a jump whose targets are unknown. But a register that
//!   the callee may have changed is a result only if somebody is known to read it.
//!
//! **Who keeps to the convention.** The rest is evidence, and whatever lacks it needs every
//! register:
//!
//! * A return is one to the caller if unwind information says that the stack is as it was on entry,
//!   and nothing loads the stack pointer from elsewhere. Switches of stacks are thereby left out:
//!   they return with arguments of whom they start.
//! * A register that is written before a return and then not read by the function is a result, or
//!   one that it restores.
//! * Where registers that are no results are read behind more than a few calls of unknown
//!   functions, before they are written, the module has another convention. `r11` is an argument if
//!   a function of the module reads it at once.
//! * The dynamic linker has entries with conventions of their own, which other modules call.
//!
//! Code that is generated at run time may have any convention, too; control comes from there by
//! addresses and natively, not in copies that are never left. Flags are as in
//! [`FlagConventions`](crate::liveness::FlagConventions).

use std::collections::VecDeque;

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use image::{Image, Svma, SymbolSource};

use crate::callgraph::FunctionId;
use crate::cfg::{EdgeKind, EntryKind};
use crate::executor::Executor;
use crate::graph::BlockId;
use crate::liveness::{Effect, Effects, KEPT, LiveSet, Liveness};
use crate::stack::StackHeights;
use crate::transfer::Transfer;
use crate::{FunctionFlow, ModuleFlow};

const RSP: u8 = 4;
const ALL: LiveSet = LiveSet::ALL_REGISTERS;
/// What a callee may change and does not return: `rcx`, `rsi`, `rdi`, `r8` to `r11`.
const SCRATCH: LiveSet = LiveSet::of_numbers(&[1, 6, 7, 8, 9, 10, 11]);
/// One place in so many may read a register that its callee has not set: the analysis goes ways
/// that are never taken.
const LEAST_CONVENTIONAL: usize = 50;
/// Reads of fewer bytes say nothing: compilers write as few before.
const LEAST_RESULT_BYTES: usize = 4;
/// A system call, which overwrites `rcx` and `r11`.
pub const AT_SYSTEM_CALL: Effect = Effect {
    needs: LiveSet::of_numbers(&[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15]),
    kills: LiveSet::of_numbers(&[1, 11]),
};
/// What nobody passes to a function.
const NO_ARGUMENT: LiveSet = LiveSet::of_numbers(&[11]);

/// The liveness of all functions, by index, with the registers that are known to be needed.
#[must_use]
pub fn known_needs(image: &Image<'_>, flow: &ModuleFlow, executor: &impl Executor) -> Vec<Liveness> {
    let functions: Vec<&FunctionFlow> = flow.functions.iter().collect();
    let bodies = executor.map(&functions, |function| Body::new(image, flow, function));
    let habits = bodies.iter().fold(Habits::default(), |habits, body| habits.and(body.habits));
    let is_linker =
        image.symbols().iter().any(|symbol| symbol.source == SymbolSource::Dynsym && symbol.name == "__tls_get_addr");
    let shares = flow.shares_code();
    let at_return = bodies.iter().zip(shares).map(|(body, shares)| match body.results {
        Some(results) if !is_linker && !shares => !SCRATCH.registers() & ALL | habits.results() | results,
        _ => ALL,
    });
    let at_return: Vec<LiveSet> = at_return.collect();
    let callers = callers(&bodies);
    let clobbers = clobbers(&bodies, &callers);
    let set = (0..bodies.len()).map(|index| set_before_ends(flow, &bodies, &clobbers, habits, index)).collect();
    let module = Conventions { flow, bodies, callers, habits, clobbers, set, at_return };
    let known = Solution::new(&module, Question::ReadByCallees { has_unknown: false });
    let all = Solution::new(&module, Question::ReadByCallees { has_unknown: true });
    let read = Solution::new(&module, Question::ReadByCallers { callees: &known });
    let alive = Solution::new(&module, Question::Alive { callees: &all, callers: &read });
    (0..functions.len()).map(|index| alive.liveness(index)).collect()
}

/// What a function shows by itself.
#[derive(Debug)]
struct Body {
    /// Of each block, but for what happens in a callee.
    effects: Vec<Effect>,
    /// Registers that each block may change, without what callees change.
    written: Vec<LiveSet>,
    ends: Vec<End>,
    /// What it leaves in registers that are not results otherwise; `None` if it may return to
    /// somebody else.
    results: Option<LiveSet>,
    habits: Habits,
}

/// What becomes of control at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Control stays in the function.
    Inside,
    /// A call that returns here.
    Call(To),
    /// A tail call: the callee returns to this function's caller.
    TailCall(To),
    /// A call that never returns.
    LastCall(To),
    Return,
    /// The program ends here, if it is not a fault that somebody expects.
    Trap,
    /// It is not known where control goes.
    Unknown,
}

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Block(FunctionId, BlockId),
    /// Unknown code that keeps to the calling convention.
    Stranger,
    /// Code that is no known block and may do anything.
    Anything,
}

/// What a module does with registers of the convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Habits {
    /// Places behind calls of strangers.
    n_sites: usize,
    /// Those where a register is read that is no result.
    n_odd_sites: usize,
    /// Registers that nobody passes to a function, and that one reads at once.
    arguments: LiveSet,
}

impl Habits {
    fn and(self, other: Habits) -> Habits {
        Habits {
            n_sites: self.n_sites + other.n_sites,
            n_odd_sites: self.n_odd_sites + other.n_odd_sites,
            arguments: self.arguments | other.arguments,
        }
    }

    /// Registers beside `rax` and `rdx` that strangers return.
    fn results(self) -> LiveSet {
        if self.n_odd_sites * LEAST_CONVENTIONAL > self.n_sites { SCRATCH } else { LiveSet::NONE }
    }
}

impl Body {
    fn new(image: &Image<'_>, flow: &ModuleFlow, function: &FunctionFlow) -> Body {
        let cfg = &function.cfg;
        let mut effects = Effects::default();
        let (mut of_blocks, mut plain, mut of_written) = (Vec::new(), Vec::new(), Vec::new());
        let mut keeps_stack = true;
        for block in cfg.graph.blocks() {
            let (mut all, mut read, mut written) = (Effect::default(), Effect::default(), LiveSet::NONE);
            effects.start_block();
            for insn in cfg.instructions(image, block) {
                let operands = effects.of_operands(&insn);
                let is_call = Transfer::of(&insn).is_call();
                all = all.then(match insn.code() {
                    _ if is_call => operands,
                    Code::Syscall => AT_SYSTEM_CALL,
                    _ => effects.of_in(cfg, &insn),
                });
                read = read.then(effects.of_operands_from(&insn, LEAST_RESULT_BYTES));
                written = written | effects.written(&insn);
                keeps_stack &= keeps_stack_pointer(&insn, operands);
            }
            of_blocks.push(all);
            plain.push(read);
            of_written.push(written);
        }
        let ends: Vec<End> = cfg.graph.blocks().map(|block| end(image, flow, function, block)).collect();
        let habits = habits(function, &plain, &ends);
        let results = if keeps_stack { results(image, function, &ends, &mut effects) } else { None };
        Body { effects: of_blocks, written: of_written, ends, results, habits }
    }
}

/// Whether an instruction moves the stack pointer by constants only, or back to where a frame
/// pointer says.
fn keeps_stack_pointer(insn: &Instruction, effect: Effect) -> bool {
    let writes_it = effect.kills.has_register(RSP) || insn.op0_register() == Register::RSP;
    let by_constant = |op: u32| insn.op_kind(op) != OpKind::Register && insn.op_kind(op) != OpKind::Memory;
    match insn.mnemonic() {
        Mnemonic::Push | Mnemonic::Call | Mnemonic::Ret | Mnemonic::Leave | Mnemonic::Cmp | Mnemonic::Test => true,
        Mnemonic::Pop => insn.op0_register() != Register::RSP,
        Mnemonic::Xchg | Mnemonic::Xadd => ![insn.op0_register(), insn.op1_register()].contains(&Register::RSP),
        Mnemonic::Sub | Mnemonic::Add | Mnemonic::And if insn.op0_register() == Register::RSP => {
            insn.mnemonic() != Mnemonic::Add || by_constant(1)
        }
        Mnemonic::Lea if insn.op0_register() == Register::RSP => true,
        Mnemonic::Mov if insn.op0_register() == Register::RSP => insn.op1_register() == Register::RBP,
        _ => !writes_it,
    }
}

/// Registers that the function writes before it returns and does not read after that; `None` if not
/// all of its returns are known to be to its caller.
fn results(image: &Image<'_>, function: &FunctionFlow, ends: &[End], effects: &mut Effects) -> Option<LiveSet> {
    let heights = StackHeights::around(image, function.parts.iter().map(|part| part.start));
    let cfg = &function.cfg;
    let mut results = LiveSet::NONE;
    for (block, _) in cfg.graph.blocks().zip(ends).filter(|(_, end)| **end == End::Return) {
        if heights.at_entry(cfg.block(block).last()) != Some(true) {
            return None;
        }
        let insns: Vec<Instruction> = cfg.instructions(image, block).collect();
        let mut read = LiveSet::NONE;
        let mut written = LiveSet::NONE;
        for insn in insns.iter().rev() {
            let effect = effects.of_operands(insn);
            results = results | effect.kills & !read & !written;
            written = written | effect.kills;
            read = read | effect.needs;
        }
    }
    Some(results & SCRATCH)
}

fn end(image: &Image<'_>, flow: &ModuleFlow, function: &FunctionFlow, block: BlockId) -> End {
    let cfg = &function.cfg;
    let to = |target: Option<Svma>| match target {
        None => To::Stranger,
        Some(target) if is_stub(image, target) => To::Stranger,
        Some(target) => {
            let id = flow.function_containing(target);
            let block = id.and_then(|id| flow.functions[id.index()].cfg.block_at(target));
            id.zip(block).map_or(To::Anything, |(id, block)| To::Block(id, block))
        }
    };
    let edges = cfg.graph.out_edges(block).map(|edge| (cfg.graph.edge(edge).to, cfg.edge_facts(edge)));
    let mut leaving = edges.filter(|(to, facts)| to.is_none() || facts.kind == EdgeKind::Call).map(|(_, facts)| facts);
    let first = leaving.next().map(|facts| (facts.kind, facts.target));
    match (first, cfg.block(block).transfer) {
        (None, _) => End::Inside,
        _ if leaving.next().is_some() => End::Unknown,
        (Some((EdgeKind::Call, _)), Transfer::Call(target)) => End::Call(to(Some(target))),
        (Some((EdgeKind::Call, _)), _) => End::Call(To::Stranger),
        (Some((EdgeKind::Trap, _)), Transfer::Call(target)) => End::LastCall(to(Some(target))),
        (Some((EdgeKind::Trap, _)), Transfer::IndirectCall) => End::LastCall(To::Stranger),
        (Some((EdgeKind::Trap, _)), Transfer::Trap) => End::Trap,
        (Some((EdgeKind::Return, _)), _) => End::Return,
        // It may be a jump inside the function that has not been recognized.
        (Some((EdgeKind::TailCall, _)), Transfer::IndirectJump) => End::Unknown,
        (Some((EdgeKind::TailCall, Some(target))), _) => End::TailCall(to(Some(target))),
        _ => End::Unknown,
    }
}

fn is_stub(image: &Image<'_>, at: Svma) -> bool {
    image.plt_stubs().binary_search_by_key(&at, |stub| stub.range.start).is_ok()
}

/// What the function itself reads behind calls of strangers, and at its entries.
fn habits(function: &FunctionFlow, plain: &[Effect], ends: &[End]) -> Habits {
    let cfg = &function.cfg;
    let mut read = vec![LiveSet::NONE; cfg.blocks.len()];
    loop {
        let mut changed = false;
        for block in cfg.graph.blocks().collect::<Vec<_>>().into_iter().rev() {
            let behind = cfg.graph.successors(block).fold(LiveSet::NONE, |live, next| live | read[next.index()]);
            let is_call = matches!(ends[block.index()], End::Call(_));
            let before = plain[block.index()].before(if is_call { behind & KEPT } else { behind });
            changed |= std::mem::replace(&mut read[block.index()], before) != before;
        }
        if !changed {
            break;
        }
    }
    let calls = cfg.graph.blocks().filter(|block| ends[block.index()] == End::Call(To::Stranger));
    // What others lead to as well may be there because the call does not return.
    let behind =
        calls.flat_map(|block| cfg.graph.successors(block)).filter(|&site| cfg.graph.in_edges(site).len() == 1);
    let (odd, even): (Vec<BlockId>, Vec<BlockId>) = behind.partition(|site| !(read[site.index()] & SCRATCH).is_empty());
    let known = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
    let known = known.filter(|(_, kind)| matches!(kind, EntryKind::Primary | EntryKind::Secondary));
    let arguments = known.fold(LiveSet::NONE, |all, (entry, _)| all | plain[entry.index()].needs);
    Habits { n_sites: odd.len() + even.len(), n_odd_sites: odd.len(), arguments: arguments & NO_ARGUMENT }
}

/// By function: who calls it, or jumps to it.
fn callers(bodies: &[Body]) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); bodies.len()];
    for (caller, body) in bodies.iter().enumerate() {
        for end in &body.ends {
            let (End::Call(to) | End::TailCall(to) | End::LastCall(to)) = *end else { continue };
            if let To::Block(callee, _) = to {
                callers[callee.index()].push(caller);
            }
        }
    }
    callers.iter_mut().for_each(Vec::dedup);
    callers
}

/// By function: what it and its callees may change.
fn clobbers(bodies: &[Body], callers: &[Vec<usize>]) -> Vec<LiveSet> {
    let own = |body: &Body| {
        let is_open = |end: &End| match *end {
            End::Call(to) | End::TailCall(to) | End::LastCall(to) => !matches!(to, To::Block(..)),
            End::Unknown => true,
            End::Inside | End::Return | End::Trap => false,
        };
        let open = if body.ends.iter().any(is_open) { !KEPT & ALL } else { LiveSet::NONE };
        body.written.iter().fold(open, |all, &written| all | written)
    };
    let mut clobbers: Vec<LiveSet> = bodies.iter().map(own).collect();
    let mut pending: Vec<usize> = (0..bodies.len()).collect();
    while let Some(callee) = pending.pop() {
        for &caller in &callers[callee] {
            let more = clobbers[caller] | clobbers[callee];
            if std::mem::replace(&mut clobbers[caller], more) != more {
                pending.push(caller);
            }
        }
    }
    clobbers
}

/// Registers that may have been set at the end of each block of a function, since a call has
/// overwritten them.
fn set_before_ends(
    flow: &ModuleFlow,
    bodies: &[Body],
    clobbers: &[LiveSet],
    habits: Habits,
    index: usize,
) -> Vec<LiveSet> {
    let (cfg, body) = (&flow.functions[index].cfg, &bodies[index]);
    if body.ends.contains(&End::Unknown) {
        return vec![ALL; cfg.blocks.len()];
    }
    let mut at_start = vec![LiveSet::NONE; cfg.blocks.len()];
    cfg.graph.entries().iter().for_each(|entry| at_start[entry.index()] = ALL);
    let mut pending: Vec<BlockId> = cfg.graph.blocks().collect();
    while let Some(block) = pending.pop() {
        let before = at_start[block.index()] | body.written[block.index()];
        let behind = match body.ends[block.index()] {
            End::Call(To::Block(callee, _)) => {
                let results = bodies[callee.index()].results.unwrap_or(ALL);
                before & !clobbers[callee.index()] | results | habits.results() | !SCRATCH & ALL
            }
            End::Call(_) => habits.results() | !SCRATCH & ALL,
            _ => before,
        };
        for next in cfg.graph.successors(block) {
            let more = at_start[next.index()] | behind;
            if std::mem::replace(&mut at_start[next.index()], more) != more {
                pending.push(next);
            }
        }
    }
    at_start.iter().zip(&body.written).map(|(&start, &written)| start | written).collect()
}

/// What there is to know of a module's functions.
struct Conventions<'a> {
    flow: &'a ModuleFlow,
    bodies: Vec<Body>,
    callers: Vec<Vec<usize>>,
    habits: Habits,
    /// By function: what it and its callees may change.
    clobbers: Vec<LiveSet>,
    /// By function and block: what may have been set at its end.
    set: Vec<Vec<LiveSet>>,
    /// By function: what its unknown callers need.
    at_return: Vec<LiveSet>,
}

/// What is asked of the module. Each question is answered for every block, by the least set that
/// agrees with itself.
#[derive(Clone, Copy)]
enum Question<'a> {
    /// What is read before it is written by the function and its callees; and by whatever is behind
    /// jumps to unknown places, or not.
    ReadByCallees { has_unknown: bool },
    /// What is read by the callers, too, as far as that is known.
    ReadByCallers { callees: &'a Solution<'a> },
    /// What may be needed.
    Alive { callees: &'a Solution<'a>, callers: &'a Solution<'a> },
}

/// The answer.
struct Solution<'a> {
    module: &'a Conventions<'a>,
    question: Question<'a>,
    /// By function: what its callers need.
    at_return: Vec<LiveSet>,
    /// By function and block.
    live_in: Vec<Vec<LiveSet>>,
}

impl<'a> Solution<'a> {
    fn new(module: &'a Conventions<'a>, question: Question<'a>) -> Solution<'a> {
        let live_in = module.flow.functions.iter().map(|function| vec![LiveSet::NONE; function.cfg.blocks.len()]);
        let mut this = Solution { module, question, at_return: module.at_return.clone(), live_in: live_in.collect() };
        this.settle();
        this
    }

    fn settle(&mut self) {
        let n_functions = self.live_in.len();
        let mut queue: VecDeque<usize> = (0..n_functions).collect();
        let mut is_queued = vec![true; n_functions];
        while let Some(index) = queue.pop_front() {
            is_queued[index] = false;
            let changed = self.solve(index);
            let stale: Vec<usize> = match self.question {
                Question::ReadByCallees { .. } if changed => self.module.callers[index].clone(),
                Question::ReadByCallees { .. } => Vec::new(),
                Question::ReadByCallers { .. } | Question::Alive { .. } => self.demand(index),
            };
            for other in stale {
                if !std::mem::replace(&mut is_queued[other], true) {
                    queue.push_back(other);
                }
            }
        }
    }

    /// Works backwards through a function. Whether anything has changed.
    fn solve(&mut self, index: usize) -> bool {
        let n_blocks = self.live_in[index].len();
        let mut has_changed = false;
        loop {
            let mut changed = false;
            for block in (0..n_blocks as u32).rev().map(BlockId) {
                let live = self.module.bodies[index].effects[block.index()].before(self.at_end(index, block));
                changed |= std::mem::replace(&mut self.live_in[index][block.index()], live) != live;
            }
            has_changed |= changed;
            if !changed {
                return has_changed;
            }
        }
    }

    /// What is alive at the end of a block: before a call, but for its operands.
    fn at_end(&self, index: usize, block: BlockId) -> LiveSet {
        let body = &self.module.bodies[index];
        let set = self.module.set[index][block.index()];
        let inside = || self.behind(index, block);
        match body.ends[block.index()] {
            End::Inside => inside(),
            End::Call(to @ To::Block(..)) => self.needed_by(to, set) | KEPT | inside(),
            End::Call(to) => self.needed_by(to, set) | inside() & self.module.habits.results(),
            // A conditional one has two ways to go on.
            End::TailCall(to) => self.needed_by(to, set) | self.at_return[index] | inside(),
            End::LastCall(to) => self.needed_by(to, set) | KEPT,
            End::Return => self.at_return[index],
            // A handler may look at all of them, and have the program go on behind the instruction.
            End::Trap => ALL,
            End::Unknown if self.has_unknown() || body.results.is_none() => ALL,
            End::Unknown => inside(),
        }
    }

    /// What is alive behind a block, in the function.
    fn behind(&self, index: usize, block: BlockId) -> LiveSet {
        let next = self.module.flow.functions[index].cfg.graph.successors(block);
        next.fold(LiveSet::NONE, |live, next| live | self.live_in[index][next.index()])
    }

    fn has_unknown(&self) -> bool {
        match self.question {
            Question::ReadByCallees { has_unknown } => has_unknown,
            Question::ReadByCallers { .. } => false,
            Question::Alive { .. } => true,
        }
    }

    /// What a callee needs of what may have been set.
    fn needed_by(&self, to: To, set: LiveSet) -> LiveSet {
        let Conventions { habits, .. } = self.module;
        match (to, self.question) {
            (To::Block(callee, block), Question::ReadByCallees { .. }) => self.live_in[callee.index()][block.index()],
            (To::Block(callee, block), Question::ReadByCallers { callees } | Question::Alive { callees, .. }) => {
                callees.live_in[callee.index()][block.index()]
            }
            (To::Stranger, _) => (!NO_ARGUMENT & ALL | habits.arguments) & set | KEPT,
            (To::Anything, _) => ALL,
        }
    }

    /// Has callees keep what the function needs behind their calls. Who needs more than before.
    fn demand(&mut self, index: usize) -> Vec<usize> {
        let mut stale = Vec::new();
        for (block, &end) in self.module.bodies[index].ends.iter().enumerate() {
            let block = BlockId(block as u32);
            let (callee, demanded) = match (end, self.question) {
                (End::Call(To::Block(callee, _)), Question::Alive { callers, .. }) => {
                    let kept = !self.module.clobbers[callee.index()];
                    (callee.index(), self.behind(index, block) & kept | callers.behind(index, block))
                }
                (End::Call(To::Block(callee, _)), _) => (callee.index(), self.behind(index, block)),
                (End::TailCall(To::Block(callee, _)), _) => (callee.index(), self.at_return[index]),
                _ => continue,
            };
            let known = self.at_return[callee];
            if known | demanded != known {
                self.at_return[callee] = known | demanded;
                stale.push(callee);
            }
        }
        stale
    }

    fn liveness(&self, index: usize) -> Liveness {
        let function = &self.module.flow.functions[index];
        let ends = function.cfg.graph.blocks().map(|block| self.at_end(index, block)).collect();
        function.liveness.with_registers(&self.live_in[index], ends)
    }
}
