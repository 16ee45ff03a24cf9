//! Counts of a program that is many times slower than the model says, where bursts say nothing of
//! that because watching takes nearly all of their time, and blocks are counted natively.

use fixtures::program::{Chance, Program, Stmt};
use profile::builder::{Options, SpotCount, Taken, TimeModel};

use crate::replay::{At, Piece, Replayer, callers_at};

const N_BLOCKS: usize = 400_000;
const N_TICKS: u64 = 500;
const BLOCKS_PER_BURST: usize = 150;
const INSN_NS: u32 = 1000;
const WATCH_RECORD_NS: f64 = 10_000.0;
const MODEL: TimeModel =
    TimeModel { log_error: 0.3, watch_record_ns: WATCH_RECORD_NS, watch_error: 0.5, ..TimeModel::EXACT };

fn program() -> Program {
    let work = |n_insns| Stmt::Work { n_insns, ns: n_insns * INSN_NS };
    let seldom = |percent| Stmt::If { percent, first: vec![work(2)], second: vec![work(1)] };
    let inner = Stmt::While { percent: 90, body: vec![work(6), Stmt::Call { function: 1 }, seldom(3), seldom(1)] };
    let outer = Stmt::While { percent: 100, body: vec![work(4), inner, seldom(20)] };
    Program::compile(&[vec![outer], vec![Stmt::If { percent: 50, first: vec![work(5)], second: vec![work(2)] }]])
}

/// How native counts are taken: at how many ticks, and what they are multiplied by.
#[derive(Clone, Copy)]
struct Native {
    one_tick_in: u64,
    falsified: f64,
}

/// The estimated over the true number of blocks, and the factor that all counts together are said
/// to be right within.
fn judge(slowness: f64, native: Option<Native>) -> (f64, f64) {
    let program = program();
    let trace = program.run(&mut Chance(5), N_BLOCKS);
    let mut times = vec![0];
    for &block in &trace {
        times.push(times[times.len() - 1] + program.behaviours[block as usize].ns);
    }
    let total_ns = times[times.len() - 1];
    let n_insns: u64 = trace.iter().map(|&block| u64::from(program.code.blocks[block as usize].n_insns)).sum();
    let model = TimeModel { cycle_ns: total_ns as f64 / n_insns as f64 / slowness, ..MODEL };
    let period_ns = total_ns / N_TICKS;
    let at = |ns: u64| times.partition_point(|&start| start <= ns) - 1;
    let positions: Vec<usize> = (0..N_TICKS - 1).map(|tick| at(tick * period_ns + period_ns / 3)).collect();
    let callers = callers_at(&program, &trace, &positions);
    let mut replayer = Replayer::new(&program, Options { times: model, ..Options::SAMPLED });
    let first = replayer.first_block();
    for ((&position, callers), tick) in positions.iter().zip(&callers).zip(0..) {
        let last = (position + BLOCKS_PER_BURST).min(trace.len() - 1);
        let watch_ns = WATCH_RECORD_NS * (last + 1 - position) as f64;
        let native_ns = (times[last + 1] - times[position]) as f64 + watch_ns;
        let piece = Piece { last, last_ran: true, taken: Taken::ALL, native_ns };
        let here = At { position, is_mid_block: true, cpu_ns: period_ns + watch_ns as u64 };
        replayer.tick(&trace, callers, here, Some(piece));
        replayer.builder.choose_spots();
        let Some(Native { falsified, .. }) = native.filter(|native| tick % native.one_tick_in == 0) else { continue };
        // A third of the time between two ticks, at a place that bursts do not depend on.
        let (from, to) = (at(tick * period_ns + period_ns / 2), at(tick * period_ns + period_ns * 5 / 6));
        for (block, _) in replayer.builder.spots().into_iter().take(4) {
            let n = trace[from..to].iter().filter(|&&begun| begun == block.0 - first.0).count();
            let count = SpotCount { block, hits: n as f64 * falsified, native_ns: (times[to] - times[from]) as f64 };
            replayer.builder.count_spot(&count);
        }
    }
    let profile = replayer.profile();
    let estimated: f64 = profile.blocks.iter().map(|block| block.count.value).sum();
    (estimated / trace.len() as f64, (1.96 * profile.scale_error).exp())
}

#[test]
fn counts_do_not_rest_on_the_model_where_blocks_are_counted_natively() {
    for slowness in [0.2, 1.0, 8.0] {
        let (without, _) = judge(slowness, None);
        assert!(
            slowness == 1.0 || without.ln() / f64::ln(slowness) > 0.5,
            "{slowness}: {without} is as the model has it"
        );
        let (with, factor) = judge(slowness, Some(Native { one_tick_in: 3, falsified: 1.0 }));
        assert!((0.85..1.18).contains(&with), "{slowness}: {with}");
        assert!((1.0 / factor..factor).contains(&with) && factor < 1.5, "{slowness}: {with}, but within {factor}");
    }
}

#[test]
fn it_is_the_native_counts_that_decide() {
    let (ratio, _) = judge(1.0, Some(Native { one_tick_in: 3, falsified: 3.0 }));
    assert!((2.4..3.6).contains(&ratio), "{ratio}");
}

#[test]
fn few_native_counts_leave_a_wide_factor() {
    let (_, many) = judge(4.0, Some(Native { one_tick_in: 3, falsified: 1.0 }));
    let (ratio, few) = judge(4.0, Some(Native { one_tick_in: 30, falsified: 1.0 }));
    assert!(few > 1.1 * many, "{few} and {many}");
    assert!((1.0 / few..few).contains(&ratio), "{ratio}, but within {few}");
}
