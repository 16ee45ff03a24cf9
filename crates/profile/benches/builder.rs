//! How fast bursts are taken in, in records, and how fast code is read.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fixtures::program::{Chance, Program, Stmt};
use profile::builder::{BlockRef, Builder, Burst, Options, Place, Taken, Tick};
use profile::code::{CodeBlock, CodeFunction, NO_LOOP};
use profile::model::BlockEnd;
use profile::{ModuleCode, Profile};

const RECORDS_PER_BURST: usize = 2000;
const N_RECORDS: usize = 1_000_000;

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("records");
    group.throughput(Throughput::Elements(N_RECORDS as u64)).sample_size(10);
    let work = Stmt::Work { n_insns: 4, ns: 1 };
    let branch = Stmt::If { percent: 40, first: vec![work.clone()], second: vec![work.clone()] };
    let hot_loop = vec![Stmt::While { percent: 99, body: vec![branch.clone()] }];
    let calls = vec![Stmt::While { percent: 95, body: vec![branch.clone(), Stmt::Call { function: 2 }] }];
    let leaf = vec![branch.clone(), Stmt::While { percent: 50, body: vec![work] }];
    let forever = |function| vec![Stmt::While { percent: 100, body: vec![Stmt::Call { function }] }];
    let programs = [
        ("hot loop", Program::compile(&[forever(1), hot_loop])),
        ("calls and loops", Program::compile(&[forever(1), calls, leaf])),
        ("large and flat", large_and_flat()),
    ];
    for (name, program) in programs {
        let trace: Vec<BlockRef> = program.run(&mut Chance(1), N_RECORDS).into_iter().map(BlockRef).collect();
        let mut builder = prepared(&program);
        take_in(&mut builder, &program, &trace);
        group.bench_function(name, |bencher| bencher.iter(|| take_in(&mut builder, &program, &trace)));
        let profile = builder.profile();
        eprintln!("{name}: {} blocks, {} paths", profile.blocks.len(), profile.paths.len());
    }
    group.finish();
}

/// Many functions that each burst runs a little of.
fn large_and_flat() -> Program {
    let work = |n_insns| Stmt::Work { n_insns, ns: 1 };
    let way = |percent| Stmt::If { percent, first: vec![work(1)], second: vec![work(2)] };
    let leaf = |index: u32| {
        let body = vec![way(index % 100), way(50), way((index * 7) % 100)];
        vec![Stmt::While { percent: index % 70, body }]
    };
    let main = vec![Stmt::While { percent: 100, body: vec![Stmt::CallAny((1..2000).collect())] }];
    let functions: Vec<Vec<Stmt>> = std::iter::once(main).chain((1..2000).map(leaf)).collect();
    Program::compile(&functions)
}

fn prepared(program: &Program) -> Builder {
    let mut builder = Builder::new(Options::SAMPLED);
    let module = builder.module("program", "");
    builder.set_code(module, program.code.clone());
    builder.thread(1, 1, "program");
    builder
}

fn take_in(builder: &mut Builder, program: &Program, trace: &[BlockRef]) {
    let module = builder.module("program", "");
    let thread = builder.thread(1, 1, "program");
    for blocks in trace.chunks(RECORDS_PER_BURST) {
        let address = program.code.blocks[blocks[0].0 as usize].address;
        builder.tick(&Tick {
            thread,
            cpu_ns: 1_000_000,
            outcome: "burst",
            is_kernel: false,
            place: Place { module: Some(module), address },
            stack: &[],
            burst: Some(Burst {
                blocks,
                starts_mid_block: true,
                last_ran: false,
                taken: Taken::ALL,
                spent_ns: 10_000.0,
                n_system_calls: 0,
            }),
        });
    }
}

fn profile_of_many_events(criterion: &mut Criterion) {
    let program = large_and_flat();
    let trace: Vec<BlockRef> = program.run(&mut Chance(1), N_RECORDS).into_iter().map(BlockRef).collect();
    let mut builder = prepared(&program);
    take_in(&mut builder, &program, &trace);
    let mut group = criterion.benchmark_group("profile");
    group.sample_size(10);
    group.bench_function("large and flat", |bencher| bencher.iter(|| -> Profile { builder.profile() }));
    group.finish();
}

fn code(criterion: &mut Criterion) {
    const N_BLOCKS: u32 = 1_500_000;
    let block = |index: u32| CodeBlock {
        address: 0x1000 + u64::from(index) * 16,
        size: 16,
        last: 12,
        n_insns: 4,
        function: index / 30,
        end: BlockEnd::Next,
        target: 0,
        innermost_loop: NO_LOOP,
        is_entry: index.is_multiple_of(30),
    };
    let function = |index: u32| CodeFunction { address: 0x1000 + u64::from(index) * 480, size: 480, is_stub: false };
    let functions = (0..N_BLOCKS / 30).map(function).collect();
    let code = ModuleCode { functions, blocks: (0..N_BLOCKS).map(block).collect(), ..ModuleCode::default() };
    let bytes = Arc::new(code.to_bytes());
    let mut group = criterion.benchmark_group("code");
    group.throughput(Throughput::Bytes(bytes.len() as u64)).sample_size(10);
    group.bench_function("from_bytes", |bencher| bencher.iter(|| ModuleCode::from_bytes(black_box(&bytes))));
    group.bench_function("to_bytes", |bencher| bencher.iter(|| black_box(&code).to_bytes()));
    group.finish();
}

criterion_group!(benches, records, profile_of_many_events, code);
criterion_main!(benches);
