//! Ticks without bursts, code that comes late, and input that makes no sense.

use std::sync::Arc;

use fixtures::program::{Program, Stmt};
use profile::builder::{BlockRef, Builder, Burst, Coverage, Options, Place, Taken, Tick};
use profile::model::{ModuleId, ThreadId};
use proptest::collection::vec;
use proptest::prelude::*;

fn program() -> Program {
    let main = vec![Stmt::While { percent: 90, body: vec![Stmt::Call { function: 1 }] }];
    Program::compile(&[main, vec![Stmt::Work { n_insns: 5, ns: 1 }]])
}

fn at(module: ModuleId, address: u64) -> Place {
    Place { module: Some(module), address }
}

fn plain(thread: ThreadId, place: Place, stack: &[Place]) -> Tick<'_> {
    Tick { thread, cpu_ns: 100, outcome: "no copy", is_kernel: false, place, stack, burst: None }
}

#[test]
fn ticks_are_known_by_code_that_comes_later() {
    let program = program();
    let (main, leaf) = (program.code.functions[0].address, program.code.functions[1].address);
    let mut builder = Builder::new(Options::SAMPLED);
    let module = builder.module("a", "1");
    let thread = builder.thread(1, 2, "a");
    for offset in 0..4 {
        builder.tick(&plain(thread, at(module, leaf + offset), &[at(module, main + offset)]));
    }
    let before = builder.profile();
    assert_eq!(before.verify(), []);
    assert_eq!(before.functions.len(), 1, "all code of an unknown module is one function");
    builder.set_code(module, program.code.clone());
    builder.tick(&plain(thread, at(module, leaf), &[at(module, main)]));
    let after = builder.profile();
    assert_eq!(after.verify(), []);
    let times: Vec<(u64, f64)> = after.functions.iter().map(|row| (row.address, row.self_ns.value)).collect();
    assert_eq!(times, [(main, 0.0), (leaf, 500.0)]);
    assert_eq!(after.contexts.len(), 2);
    assert_eq!(after.contexts[1].self_ns.value, 500.0);
    assert_eq!(after.ticks["no copy"], 5);
    assert_eq!(after.threads[0].cpu_ns, 500);
}

#[test]
fn kernel_time_is_by_system_call() {
    let program = program();
    let mut builder = Builder::new(Options::SAMPLED);
    let module = builder.module("a", "1");
    builder.set_code(module, program.code.clone());
    let thread = builder.thread(1, 2, "a");
    let place = at(module, program.code.functions[1].address);
    builder.tick(&Tick { is_kernel: true, ..plain(thread, place, &[]) });
    builder.tick(&plain(thread, Place { module: None, address: 77 }, &[]));
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    assert_eq!(profile.system_calls.len(), 1);
    assert_eq!(profile.system_calls[0].kernel_ns.value, 100.0);
    assert_eq!(profile.contexts[0].kernel_ns.value, 100.0);
    let user: f64 = profile.functions.iter().map(|row| row.self_ns.value).sum();
    assert_eq!(user, 100.0);
    assert_eq!(profile.modules[1].path, "[anonymous]");
}

proptest! {
    #[test]
    fn nonsense_gives_a_sound_profile(
        bursts in vec((vec(0u32..12, 0..40), vec(0u64..0x1100, 0..4), any::<[bool; 3]>(), -9.0f64..1e9), 1..20),
        max_strata in 0usize..3,
        max_path_nodes in 0usize..9,
    ) {
        let program = program();
        for coverage in [Coverage::Sampled, Coverage::Complete] {
            let mut builder = Builder::new(Options { coverage, block_of_ticks: 2, max_strata, max_path_nodes, ..Options::SAMPLED });
            let module = builder.module("a", "1");
            builder.set_code(module, program.code.clone());
            builder.set_code(ModuleId(9), Arc::default());
            for (blocks, stack, [starts_mid_block, last_ran, is_kernel], native_ns) in &bursts {
                let refs: Vec<BlockRef> = blocks.iter().map(|&block| BlockRef(block)).collect();
                let stack: Vec<Place> = stack.iter().map(|&address| at(module, address)).collect();
                let place = at(ModuleId(blocks.len() as u32 % 3), 0x1000 + u64::from(*last_ran));
                let taken = Taken::ALL;
                let burst = Burst { blocks: &refs, starts_mid_block: *starts_mid_block, last_ran: *last_ran, taken, spent_ns: *native_ns, n_system_calls: 0 };
                let tick = plain(ThreadId(7), place, &stack);
                builder.tick(&Tick { is_kernel: *is_kernel, burst: Some(burst), ..tick });
            }
            prop_assert_eq!(builder.profile().verify(), []);
        }
    }
}
