//! The paths of exact mode, and where it notes that branches go, against those of a program that is
//! run one instruction at a time.
//!
//! `stepper.c` says which instructions each thread executed, and with what stack pointer. From that
//! and the control flow of the program follows which paths each activation of a function took: no
//! counter, no copy and no return table is involved. What both sides agree not to know is left out:
//! paths that were under way when the program ended, or when `longjmp` or an exception went past
//! the function; and the rest of a path behind a return site that `longjmp` led to.
//!
//! The full trace has the same paths in the same order, thread by thread, and from them follow the
//! blocks in the order in which they ran.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Command;

use flow::callgraph::FunctionId;
use flow::graph::{BlockId, EdgeId};
use flow::paths::{EdgeOrder, PathPlan, PlanOptions, Truncation, estimate_weights, max_paths_with_restarts};
use flow::{ModuleFlow, Sequential, Transfer};
use image::{Image, Svma};
use profile::model::{NotedValue, ValueKind};

use crate::build::{Executable, Program};
use crate::exact::{counted, counted_with};
use crate::full_trace;

/// Addresses of a path's blocks, and where its back edge leads.
pub type PathKey = (Vec<u64>, Option<u64>);
type Paths = BTreeMap<PathKey, u64>;
/// How often conditional jumps went on where: by their addresses, and those.
type Branches = BTreeMap<(u64, u64), u64>;

/// One executed instruction.
#[derive(Clone, Copy, Debug)]
struct Step {
    thread: u64,
    at: Svma,
    /// Stack pointer before it.
    stack: u64,
}

#[test]
fn loops() {
    expect_same_paths("stepped/loops.c", 15);
}

#[test]
fn recursion() {
    expect_same_paths("stepped/recursion.c", 15);
}

#[test]
fn jumps_out_of_functions() {
    expect_same_paths("stepped/jumps.c", 10);
}

#[test]
fn signal_handlers() {
    expect_same_paths("stepped/handlers.c", 10);
}

#[test]
fn threads() {
    expect_same_paths("stepped/threads.c", 10);
}

#[test]
fn computed_jumps_and_calls() {
    expect_same_paths("stepped/dispatch.c", 20);
}

#[test]
fn exceptions() {
    expect_same_paths("stepped/exceptions.cpp", 20);
}

/// At both levels of optimization at least `n_paths` paths must have run, all as often as exact
/// mode says.
#[track_caller]
fn expect_same_paths(source: &'static str, n_paths: usize) {
    let stepper = Program::new("stepper.c").build();
    for level in ["-O0", "-O2"] {
        // Symbols are bound when the program is loaded, which is not stepped.
        let executable = Program::new(source).flags(&[level, "-Wl,-z,now"]).build();
        let bytes = fs::read(&executable.command_line()[0]).expect("the program");
        let image = Image::parse(&bytes).expect("an ELF file");
        let flow = flow::analyze(&image, &Sequential);
        let steps = steps(&stepper, &executable);
        let what = format!("{source} {level}");
        for (option, truncation) in
            [("--exact=paths", Truncation::BackEdges), ("--exact=header-paths", Truncation::LoopHeaders)]
        {
            let Walked { paths: expected, .. } = paths_of(&flow, truncation, &steps);
            assert!(expected.len() >= n_paths, "{what}: only {} paths", expected.len());
            compare(&format!("{what} {option}"), &expected, &recorded_paths(&executable, option));
        }
        expect_same_branches(&what, &branches_of(&flow, &steps), &noted_branches(&executable));
        let Walked { paths, ended, ran } = paths_of(&flow, Truncation::BackEdges, &steps);
        compare(&format!("{what} --exact=trace"), &paths, &recorded_paths(&executable, "--exact=trace"));
        let found = full_trace::paths(&executable);
        expect_same_order(&format!("{what}: paths"), ended.into_values().collect(), found);
        // Where control leaves functions by other ways than it came, signals arrive, or the system
        // call that makes a thread goes on natively, paths do not tell all of the order.
        if ["stepped/loops.c", "stepped/recursion.c", "stepped/dispatch.c"].contains(&source) {
            expect_same_order(&format!("{what}: blocks"), ran.into_values().collect(), full_trace::blocks(&executable));
        }
    }
}

/// What each thread did must be the same; which thread is which is not known.
#[track_caller]
fn expect_same_order<T: Ord + std::fmt::Debug>(what: &str, mut expected: Vec<Vec<T>>, mut found: Vec<Vec<T>>) {
    for threads in [&mut expected, &mut found] {
        threads.retain(|thread| !thread.is_empty());
        threads.sort();
    }
    assert_eq!(found.len(), expected.len(), "{what}: threads");
    for (expected, found) in expected.iter().zip(&found) {
        let differing = expected.iter().zip(found).position(|(expected, found)| expected != found);
        let at = differing.unwrap_or(expected.len().min(found.len()));
        let lens = (expected.len(), found.len());
        assert!(expected == found, "{what}: {lens:?}, at {at}: {:x?} is {:x?}", expected.get(at), found.get(at));
    }
}

#[track_caller]
fn compare(what: &str, expected: &Paths, found: &Paths) {
    let differing = |key: &&PathKey| expected.get(*key) != found.get(*key);
    let differences: Vec<String> = expected
        .keys()
        .chain(found.keys())
        .filter(differing)
        .map(|key| {
            format!("{:x?} -> {:x?}: stepped {:?}, counted {:?}", key.0, key.1, expected.get(key), found.get(key))
        })
        .collect();
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

/// What exact mode counts in the program itself.
fn recorded_paths(executable: &Executable, option: &str) -> Paths {
    let profile = counted(executable, option);
    let address = |block: &profile::model::BlockId| profile.blocks[block.index()].address;
    let is_own = |path: &&profile::model::Path| {
        let module = profile.functions[path.function.index()].module;
        profile.modules[module.index()].path.ends_with("/program")
    };
    let keyed = profile.paths.iter().filter(is_own).map(|path| {
        let key = (path.blocks.iter().map(address).collect(), path.back_to.as_ref().map(address));
        (key, path.count.value as u64)
    });
    keyed.collect()
}

#[track_caller]
fn expect_same_branches(what: &str, expected: &Branches, found: &Branches) {
    let differing = |key: &&(u64, u64)| expected.get(*key) != found.get(*key);
    let differences = expected.keys().chain(found.keys()).filter(differing);
    let differences: Vec<String> = differences
        .map(|key| format!("{key:x?}: stepped {:?}, noted {:?}", expected.get(key), found.get(key)))
        .collect();
    assert!(differences.is_empty(), "{what}, branches:\n{}", differences.join("\n"));
    assert!(expected.len() > 5, "{what}: only {} ways of branches", expected.len());
}

/// Where the branches of steps lead.
fn branches_of(flow: &ModuleFlow, steps: &[Step]) -> Branches {
    let blocks = flow.functions.iter().flat_map(|function| &function.cfg.blocks);
    let ways: HashMap<Svma, [Svma; 2]> = blocks
        .filter_map(|block| match block.transfer {
            Transfer::Branch(taken) => Some((block.last(), [taken, block.range.end])),
            _ => None,
        })
        .collect();
    let mut threads: BTreeMap<u64, Vec<Svma>> = BTreeMap::new();
    steps.iter().for_each(|step| threads.entry(step.thread).or_default().push(step.at));
    let mut branches = Branches::new();
    for steps in threads.values() {
        for (index, at) in steps.iter().enumerate() {
            let Some(ways) = ways.get(at) else { continue };
            // A handler can run before the program goes on.
            let next = steps[index + 1..].iter().find(|next| ways.contains(next));
            let Svma(next) = *next.expect("every branch leads somewhere");
            *branches.entry((at.0, next)).or_default() += 1;
        }
    }
    branches
}

/// What exact mode notes of the branches of the program itself.
fn noted_branches(executable: &Executable) -> Branches {
    let profile = counted_with(executable, &["--exact=blocks", "--branches", "--compress", "none"]);
    let is_own = |row: &&NotedValue| profile.modules[row.module.index()].path.ends_with("/program");
    let noted = profile.values.iter().filter(|row| row.kind == ValueKind::BranchTarget).filter(is_own);
    noted.filter_map(|row| Some(((row.address, row.value?), row.count.value as u64))).collect()
}

/// Runs a program one instruction at a time.
fn steps(stepper: &Executable, executable: &Executable) -> Vec<Step> {
    let trace = executable.beside("trace");
    let output = Command::new(&stepper.command_line()[0]).arg(&trace).args(executable.command_line()).output();
    let output = output.expect("the stepper starts");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(trace).expect("a trace");
    let (records, rest) = bytes.as_chunks::<24>();
    assert!(rest.is_empty() && records.len() > 500, "{} bytes of trace", bytes.len());
    let word =
        |record: &[u8; 24], index: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[8 * index + byte]));
    records.iter().map(|r| Step { thread: word(r, 0), at: Svma(word(r, 1)), stack: word(r, 2) }).collect()
}

/// The paths that steps follow.
fn paths_of(flow: &ModuleFlow, truncation: Truncation, steps: &[Step]) -> Walked {
    let mut walker = Walker { flow, truncation, plans: HashMap::new(), thread: 0, walked: Walked::default() };
    let mut threads: HashMap<u64, Vec<Activation>> = HashMap::new();
    for step in steps {
        walker.thread = step.thread;
        walker.step(threads.entry(step.thread).or_default(), step);
    }
    // A jump out of the program's file ends a path, too, though nothing follows.
    for (&thread, activations) in &threads {
        walker.thread = thread;
        if let Some(top) = activations.last().filter(|top| top.left_block.is_some() && !walker.is_at_call(top)) {
            walker.count(top, None);
        }
    }
    walker.walked
}

/// What steps amount to.
#[derive(Debug, Default)]
struct Walked {
    paths: Paths,
    /// By thread: whole paths in the order in which they ended.
    ended: BTreeMap<u64, Vec<PathKey>>,
    /// By thread: blocks in the order in which they ran.
    ran: BTreeMap<u64, Vec<u64>>,
}

/// A call of a function that has not returned.
#[derive(Debug)]
struct Activation {
    function: FunctionId,
    /// Where its return address is.
    slot: u64,
    /// Blocks since the path began; the last is the one that control is in.
    path: Vec<BlockId>,
    /// Whether the path began where paths begin.
    is_whole: bool,
    /// The last instruction of the block was executed, with this stack pointer.
    left_block: Option<u64>,
}

struct Walker<'a> {
    flow: &'a ModuleFlow,
    truncation: Truncation,
    plans: HashMap<FunctionId, PathPlan>,
    /// The one whose step it is.
    thread: u64,
    walked: Walked,
}

impl Walker<'_> {
    fn step(&mut self, activations: &mut Vec<Activation>, step: &Step) {
        let Some(function) = self.flow.function_containing(step.at) else { return };
        let cfg = &self.flow.functions[function.index()].cfg;
        if let Some(block) = cfg.block_at(step.at) {
            self.walked.ran.entry(step.thread).or_default().push(step.at.0);
            self.arrive(activations, function, block, step);
        }
        let Some(top) = activations.last_mut() else { return };
        let &block = top.path.last().expect("a path has a block");
        if top.function == function && cfg.block(block).last() == step.at {
            top.left_block = Some(step.stack);
            let stays = cfg.graph.out_edges(block).any(|edge| cfg.graph.edge(edge).to.is_some());
            if cfg.block(block).transfer == Transfer::Return {
                let ended = activations.pop().expect("there is one");
                self.count(&ended, None);
            } else if self.is_at_call(top) && !stays {
                // The analysis knows that the call does not return, and the path ends before it.
                self.count(top, None);
                top.is_whole = false;
            }
        }
    }

    /// Control is at the start of a block.
    fn arrive(&mut self, activations: &mut Vec<Activation>, function: FunctionId, block: BlockId, step: &Step) {
        while let Some(top) = activations.last_mut() {
            if let Some(stack) = top.left_block {
                let edge = self.edge(top, function, block);
                let is_call = self.is_at_call(top);
                match edge {
                    Some(edge) if !is_call || stack == step.stack => return self.follow(top, edge, block),
                    // Control left for another function, whose return will be this one's.
                    None if !is_call => {
                        let ended = activations.pop().expect("there is one");
                        self.count(&ended, None);
                        continue;
                    }
                    _ => {}
                }
            }
            // Left by longjmp or an exception.
            if top.slot < step.stack {
                activations.pop();
                continue;
            }
            break;
        }
        let is_entry = self.flow.functions[function.index()].entry == step.at;
        let is_whole = self.flow.functions[function.index()].cfg.graph.is_entry(block);
        match activations.last_mut().filter(|top| !is_entry && top.function == function) {
            Some(top) => {
                (top.path, top.is_whole, top.left_block) = (vec![block], is_whole, None);
            }
            None => {
                let (path, slot) = (vec![block], step.stack);
                activations.push(Activation { function, slot, path, is_whole, left_block: None });
            }
        }
    }

    fn is_at_call(&self, activation: &Activation) -> bool {
        let cfg = &self.flow.functions[activation.function.index()].cfg;
        let last = activation.path.last().map(|&block| cfg.block(block).transfer);
        matches!(last, Some(Transfer::Call(_) | Transfer::IndirectCall))
    }

    /// The edge to a block of the same function.
    fn edge(&self, from: &Activation, function: FunctionId, to: BlockId) -> Option<EdgeId> {
        let graph = &self.flow.functions[function.index()].cfg.graph;
        let &last = from.path.last()?;
        if from.function == function { graph.edge_between(last, to) } else { None }
    }

    fn follow(&mut self, top: &mut Activation, edge: EdgeId, to: BlockId) {
        top.left_block = None;
        if self.plan(top.function).is_cut(edge) {
            self.count(top, Some(to));
            (top.path, top.is_whole) = (vec![to], true);
        } else {
            top.path.push(to);
        }
    }

    fn count(&mut self, ended: &Activation, back_to: Option<BlockId>) {
        if ended.is_whole {
            let cfg = &self.flow.functions[ended.function.index()].cfg;
            let address = |&block: &BlockId| cfg.block(block).range.start.0;
            let key: PathKey = (ended.path.iter().map(address).collect(), back_to.as_ref().map(address));
            self.walked.ended.entry(self.thread).or_default().push(key.clone());
            *self.walked.paths.entry(key).or_default() += 1;
        }
    }

    fn plan(&mut self, function: FunctionId) -> &PathPlan {
        self.plans.entry(function).or_insert_with(|| {
            let function = &self.flow.functions[function.index()];
            let weights = estimate_weights(&function.cfg.graph, &function.loops);
            let (truncation, order) = (self.truncation, EdgeOrder::Smart(&weights));
            let max_paths = max_paths_with_restarts(function.cfg.return_sites().len());
            PathPlan::new(&function.cfg.graph, &PlanOptions { truncation, order, max_paths })
        })
    }
}
