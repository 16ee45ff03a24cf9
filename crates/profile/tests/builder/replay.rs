//! Gives pieces of a complete trace to a builder, as ticks and bursts.

use fixtures::program::Program;
use profile::Builder;
use profile::builder::{BlockRef, Burst, Options, Place, Taken, Tick};
use profile::model::{BlockEnd, ModuleId, Profile, ThreadId};

use crate::truth::{PathKey, Truth};

/// A builder that knows a program.
pub struct Replayer<'a> {
    pub builder: Builder,
    program: &'a Program,
    module: ModuleId,
    thread: ThreadId,
    first: BlockRef,
}

/// A tick in a trace.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Position of the block that is running, or about to.
    pub position: usize,
    pub is_mid_block: bool,
    pub cpu_ns: u64,
}

/// A burst in a trace.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Position of the last block that it reached.
    pub last: usize,
    pub last_ran: bool,
    pub taken: Taken,
    pub native_ns: f64,
}

impl<'a> Replayer<'a> {
    pub fn new(program: &'a Program, options: Options) -> Replayer<'a> {
        let mut builder = Builder::new(options);
        let module = builder.module("/bin/program", "00");
        let first = builder.set_code(module, program.code.clone()).expect("there are numbers left");
        let thread = builder.thread(1, 1, "program");
        Replayer { builder, program, module, thread, first }
    }

    /// The number of the program's first block.
    pub fn first_block(&self) -> BlockRef {
        self.first
    }

    pub fn place(&self, block: u32, offset: u64) -> Place {
        Place { module: Some(self.module), address: self.program.code.blocks[block as usize].address + offset }
    }

    /// A tick; `callers` are the blocks whose calls are in progress.
    pub fn tick(&mut self, trace: &[u32], callers: &[u32], at: At, piece: Option<Piece>) {
        let calls: Vec<Place> = callers.iter().map(|&call| self.return_place(call)).collect();
        let place = self.place(trace[at.position], u64::from(at.is_mid_block));
        let end = piece.map_or(at.position, |piece| piece.last + 1);
        let blocks: Vec<BlockRef> =
            trace[at.position..end].iter().map(|&block| BlockRef(self.first.0 + block)).collect();
        self.builder.tick(&Tick {
            thread: self.thread,
            cpu_ns: at.cpu_ns,
            outcome: "burst",
            is_kernel: false,
            place,
            stack: &calls,
            burst: piece.map(|piece| Burst {
                blocks: &blocks,
                starts_mid_block: at.is_mid_block,
                last_ran: piece.last_ran,
                taken: piece.taken,
                spent_ns: piece.native_ns,
                n_system_calls: 0,
            }),
        });
    }

    fn return_place(&self, call: u32) -> Place {
        let block = &self.program.code.blocks[call as usize];
        self.place(call, u64::from(block.size) - 1)
    }

    pub fn profile(&self) -> Profile {
        let profile = self.builder.profile();
        assert_eq!(profile.verify(), []);
        profile
    }
}

/// The calls in progress at each of some ascending positions.
pub fn callers_at(program: &Program, trace: &[u32], positions: &[usize]) -> Vec<Vec<u32>> {
    let mut calls = Vec::new();
    let mut found = Vec::with_capacity(positions.len());
    let mut positions = positions.iter().copied().peekable();
    for (position, &block) in trace.iter().enumerate() {
        while positions.next_if_eq(&position).is_some() {
            found.push(calls.clone());
        }
        match program.code.blocks[block as usize].end {
            BlockEnd::Call | BlockEnd::IndirectCall => calls.push(block),
            BlockEnd::Return => {
                calls.pop();
            }
            _ => {}
        }
    }
    found
}

/// A profile's counts in the terms of [`Truth`]; estimates are rounded.
pub fn counts(program: &Program, profile: &Profile) -> Truth {
    let index = |block: profile::model::BlockId| {
        program.code.block_at(profile.blocks[block.index()].address).expect("blocks are those of the program")
    };
    let function = |id: profile::model::FunctionId| function_at(program, profile.functions[id.index()].address);
    let count = |estimate: profile::Estimate| estimate.value.round() as u64;
    let path = |row: &profile::model::Path| -> PathKey {
        (row.blocks.iter().map(|&block| index(block)).collect(), row.back_to.map(index))
    };
    let blocks = profile.blocks.iter().map(|row| (index_of(program, row.address), count(row.count)));
    let edges = profile.edges.iter().map(|row| ((index(row.from), index(row.to), row.kind), count(row.count)));
    let calls = profile.calls.iter().map(|row| ((index(row.site), function(row.callee)), count(row.count)));
    let entries = profile.functions.iter().map(|row| (function_at(program, row.address), count(row.entries)));
    let mut truth = Truth {
        blocks: blocks.collect(),
        edges: edges.collect(),
        paths: profile.paths.iter().map(|row| (path(row), count(row.count))).collect(),
        calls: calls.collect(),
        entries: entries.collect(),
        ..Truth::default()
    };
    let mut contexts: Vec<Vec<u32>> = Vec::new();
    for row in &profile.contexts {
        let mut context = row.parent.map_or_else(Vec::new, |parent| contexts[parent.index()].clone());
        context.push(function(row.function));
        truth.contexts.insert(context.clone(), count(row.entries));
        contexts.push(context);
    }
    for row in &profile.loops {
        let header = index(row.header);
        let key = program.code.loops.iter().position(|each| each.header == header).expect("a loop") as u32;
        truth.loop_entries.insert(key, count(row.entries));
    }
    truth.n_path_ends = truth.paths.values().sum::<u64>() + count(profile.unobserved_flow);
    truth.without_zeros()
}

fn function_at(program: &Program, address: u64) -> u32 {
    let functions = &program.code.functions;
    functions.iter().position(|each| each.address == address).expect("a function of the program") as u32
}

fn index_of(program: &Program, address: u64) -> u32 {
    program.code.block_at(address).expect("blocks are those of the program")
}

impl Truth {
    fn without_zeros(mut self) -> Truth {
        self.blocks.retain(|_, count| *count != 0);
        self.edges.retain(|_, count| *count != 0);
        self.paths.retain(|_, count| *count != 0);
        self.entries.retain(|_, count| *count != 0);
        self.contexts.retain(|_, count| *count != 0);
        self.loop_entries.retain(|_, count| *count != 0);
        self
    }
}
