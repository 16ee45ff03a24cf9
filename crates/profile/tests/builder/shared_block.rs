//! Time of a block that two paths share and that is slow on one of them.

use std::sync::Arc;

use fixtures::program::Chance;
use profile::builder::{BlockRef, Builder, Burst, Options, Place, Taken, Tick};
use profile::code::{CodeBlock, CodeFunction, CodeLoop, ModuleCode, NO_LOOP};
use profile::estimate::Estimate;
use profile::model::BlockEnd::{self, Branch, Jump, Next, Return};

const SIZE: u32 = 16;
const ENTRY: u32 = 0;
const HEADER: u32 = 1;
const SLOW: u32 = 3;
const SHARED: u32 = 4;
const EXIT: u32 = 5;
const USUAL: u32 = 2;
const N_TICKS: u64 = 500;
/// Of all ticks, which are all in the shared block, one in so many is on the usual path.
const ONE_IN: u64 = 5;
/// Iterations that a burst goes through.
const N_ITERATIONS: u64 = 120;

/// A loop with two arms that join again.
fn code() -> ModuleCode {
    let ends: [(BlockEnd, u32); 6] =
        [(Next, 0), (Branch, SLOW), (Jump, SHARED), (Next, 0), (Branch, HEADER), (Return, 0)];
    let address = |index: u32| 0x1000 + u64::from(SIZE * index);
    let block = |(index, &(end, target)): (usize, &(BlockEnd, u32))| CodeBlock {
        address: address(index as u32),
        size: SIZE,
        last: SIZE - 4,
        n_insns: 4,
        function: 0,
        end,
        target: if matches!(end, Branch | Jump) { address(target) } else { 0 },
        innermost_loop: if (HEADER..=SHARED).contains(&(index as u32)) { 0 } else { NO_LOOP },
        is_entry: index as u32 == ENTRY,
    };
    let code = ModuleCode {
        functions: vec![CodeFunction { address: address(ENTRY), size: u64::from(SIZE * (EXIT + 1)), is_stub: false }],
        blocks: ends.iter().enumerate().map(block).collect(),
        loops: vec![CodeLoop { header: HEADER, parent: NO_LOOP }],
        cuts: vec![(SHARED, HEADER)],
        insns: Vec::new(),
    };
    code.check().expect("sound code");
    code
}

/// The share that the slow path is stated to have of the time of all, if these iterations are slow.
fn slow_share(is_slow: impl Fn(u64) -> bool) -> Estimate {
    let mut builder = Builder::new(Options::SAMPLED);
    let module = builder.module("a", "");
    let code = Arc::new(code());
    let first = builder.set_code(module, code.clone()).expect("numbers");
    let thread = builder.thread(1, 1, "a");
    let mut iteration = 0;
    for tick in 0..N_TICKS {
        iteration += 50;
        while is_slow(iteration) == (tick % ONE_IN == 0) {
            iteration += 1;
        }
        let mut blocks = vec![SHARED];
        for next in iteration + 1..=iteration + N_ITERATIONS {
            blocks.extend([HEADER, if is_slow(next) { SLOW } else { USUAL }, SHARED]);
        }
        let blocks: Vec<BlockRef> = blocks.into_iter().map(|block| BlockRef(first.0 + block)).collect();
        let address = code.blocks[SHARED as usize].address + 4;
        builder.tick(&Tick {
            thread,
            cpu_ns: 1000,
            outcome: "burst",
            is_kernel: false,
            place: Place { module: Some(module), address },
            stack: &[],
            burst: Some(Burst {
                blocks: &blocks,
                starts_mid_block: true,
                last_ran: true,
                taken: Taken::ALL,
                spent_ns: 10.0,
                n_system_calls: 0,
            }),
        });
    }
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    let is_slow_path = |path: &&profile::model::Path| {
        path.blocks.iter().any(|id| profile.blocks[id.index()].address == code.blocks[SLOW as usize].address)
    };
    let slow = profile.paths.iter().find(is_slow_path).expect("the slow path was seen");
    slow.self_ns.scaled(1.0 / profile.functions[0].self_ns.value)
}

const TRUTH: f64 = 1.0 - 1.0 / ONE_IN as f64;

#[test]
fn what_follows_tells_which_path_waits() {
    for period in [2, 8, 32] {
        let share = slow_share(|iteration| iteration % period == 1);
        assert!((share.value - TRUTH).abs() < share.margin().min(0.1), "one in {period}: {share:?}");
    }
}

#[test]
fn where_chance_chooses_the_path_the_error_says_that_it_is_not_known() {
    let share = slow_share(|iteration| Chance(iteration).below(8) == 0);
    assert!((share.value - TRUTH).abs() < share.margin(), "{share:?}");
    assert!(share.margin() > 0.5, "nothing can tell: {share:?}");
}
