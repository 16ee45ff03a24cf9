//! Counts of a complete trace, by means that share nothing with the builder: every frame keeps its
//! whole path in a list.

use std::collections::BTreeMap;

use fixtures::program::Program;
use profile::code::NO_LOOP;
use profile::model::{BlockEnd, EdgeKind};

/// A path: blocks, and where a back edge leads to.
pub type PathKey = (Vec<u32>, Option<u32>);

#[derive(Debug, Default, PartialEq)]
pub struct Truth {
    pub blocks: BTreeMap<u32, u64>,
    pub edges: BTreeMap<(u32, u32, EdgeKind), u64>,
    pub paths: BTreeMap<PathKey, u64>,
    /// By site and function.
    pub calls: BTreeMap<(u32, u32), u64>,
    pub entries: BTreeMap<u32, u64>,
    /// By functions from the root, recursion folded.
    pub contexts: BTreeMap<Vec<u32>, u64>,
    pub loop_entries: BTreeMap<u32, u64>,
    pub n_path_ends: u64,
}

struct Frame {
    path: Vec<u32>,
    context: Vec<u32>,
}

impl Truth {
    /// Of a trace that begins at the entry of the program, which does not count as an entry.
    pub fn of(program: &Program, trace: &[u32]) -> Truth {
        let blocks = &program.code.blocks;
        let mut truth = Truth::default();
        let mut stack: Vec<Frame> = Vec::new();
        let Some(&first) = trace.first() else { return truth };
        let mut frame = Frame { path: vec![first], context: vec![blocks[first as usize].function] };
        *truth.blocks.entry(first).or_default() += 1;
        for pair in trace.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            *truth.blocks.entry(to).or_default() += 1;
            let (before, after) = (&blocks[from as usize], &blocks[to as usize]);
            let is_tail = before.end == BlockEnd::Jump && before.function != after.function;
            match before.end {
                BlockEnd::Call | BlockEnd::IndirectCall => {
                    let callee = truth.enter(from, after.function, to, &frame.context);
                    stack.push(std::mem::replace(&mut frame, callee));
                }
                BlockEnd::Return => {
                    truth.end_path(frame.path, None);
                    frame = stack.pop().expect("the program returns to what called");
                    let call = *frame.path.last().expect("paths have blocks");
                    truth.step(program, &mut frame, call, to, EdgeKind::PastCall);
                }
                _ if is_tail => {
                    truth.end_path(frame.path, None);
                    let caller = stack.last().map_or(&[][..], |caller| &caller.context);
                    let caller = caller.to_vec();
                    frame = truth.enter(from, after.function, to, &caller);
                }
                end => {
                    let kind = match end {
                        BlockEnd::IndirectJump => EdgeKind::Table,
                        BlockEnd::Next => EdgeKind::FallThrough,
                        BlockEnd::Branch if before.end_address() == after.address => EdgeKind::FallThrough,
                        _ => EdgeKind::Taken,
                    };
                    truth.step(program, &mut frame, from, to, kind);
                }
            }
        }
        truth
    }

    fn enter(&mut self, site: u32, function: u32, entry: u32, caller: &[u32]) -> Frame {
        *self.calls.entry((site, function)).or_default() += 1;
        *self.entries.entry(function).or_default() += 1;
        let mut context = caller.to_vec();
        match context.iter().position(|&each| each == function) {
            Some(position) => context.truncate(position + 1),
            None => {
                context.push(function);
                *self.contexts.entry(context.clone()).or_default() += 1;
            }
        }
        Frame { path: vec![entry], context }
    }

    fn step(&mut self, program: &Program, frame: &mut Frame, from: u32, to: u32, kind: EdgeKind) {
        *self.edges.entry((from, to, kind)).or_default() += 1;
        let around = loops_around(program, from);
        for each in loops_around(program, to) {
            if !around.contains(&each) {
                *self.loop_entries.entry(each).or_default() += 1;
            }
        }
        if program.code.cuts.contains(&(from, to)) {
            self.end_path(std::mem::take(&mut frame.path), Some(to));
        }
        frame.path.push(to);
    }

    fn end_path(&mut self, path: Vec<u32>, back_to: Option<u32>) {
        *self.paths.entry((path, back_to)).or_default() += 1;
        self.n_path_ends += 1;
    }
}

fn loops_around(program: &Program, block: u32) -> Vec<u32> {
    let mut around = Vec::new();
    let mut next = program.code.blocks[block as usize].innermost_loop;
    while next != NO_LOOP {
        around.push(next);
        next = program.code.loops[next as usize].parent;
    }
    around
}
