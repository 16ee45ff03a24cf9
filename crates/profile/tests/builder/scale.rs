//! Absolute counts when watching takes nearly all of the time of bursts: right within the factor
//! that the profile states.

use fixtures::program::{Chance, Program, Stmt};
use profile::builder::{Options, Taken, TimeModel};
use profile::query::scale_factor;

use crate::replay::{At, Piece, Replayer, callers_at};

const N_BLOCKS: usize = 400_000;
const N_TICKS: u64 = 1000;
const BLOCKS_PER_BURST: usize = 100;
const WATCH_RECORD_NS: f64 = 60.0;

/// Without the time of a cycle.
const MODEL: TimeModel = TimeModel {
    cycle_ns: 0.0,
    surprise_ns: 0.0,
    log_error: 0.3,
    watch_record_ns: WATCH_RECORD_NS,
    watch_error: 0.5,
    ..TimeModel::EXACT
};

fn work(n_insns: u32, ns: u32) -> Stmt {
    Stmt::Work { n_insns, ns }
}

/// Its work takes `insn_ns` per instruction.
fn program(insn_ns: u32) -> Program {
    let work = |n_insns| work(n_insns, n_insns * insn_ns);
    let inner = Stmt::While { percent: 80, body: vec![work(6), Stmt::Call { function: 1 }, work(3)] };
    let outer = Stmt::While { percent: 100, body: vec![work(4), inner] };
    Program::compile(&[vec![outer], vec![Stmt::If { percent: 50, first: vec![work(5)], second: vec![work(2)] }]])
}

/// The estimated over the true number of blocks, and the factor that it is said to be right within.
/// The program is slower than the model says, and watching more expensive.
fn judge(program: &Program, slowness: f64, watch_excess: f64) -> (f64, f64) {
    let trace = program.run(&mut Chance(5), N_BLOCKS);
    let mut times = vec![0];
    for &block in &trace {
        times.push(times[times.len() - 1] + program.behaviours[block as usize].ns);
    }
    let total_ns = times[times.len() - 1];
    let n_insns: u64 = trace.iter().map(|&block| u64::from(program.code.blocks[block as usize].n_insns)).sum();
    let model = TimeModel { cycle_ns: total_ns as f64 / n_insns as f64 / slowness, ..MODEL };
    let period_ns = total_ns / N_TICKS;
    let hits = (0..N_TICKS - 1).map(|tick| tick * period_ns + period_ns / 3);
    let positions: Vec<usize> = hits.map(|hit| times.partition_point(|&start| start <= hit) - 1).collect();
    let callers = callers_at(program, &trace, &positions);
    let mut replayer = Replayer::new(program, Options { times: model, ..Options::SAMPLED });
    for (&position, callers) in positions.iter().zip(&callers) {
        let last = (position + BLOCKS_PER_BURST).min(trace.len() - 1);
        let native_ns = (times[last + 1] - times[position]) as f64;
        let watch_ns = watch_excess * WATCH_RECORD_NS * (last + 1 - position) as f64;
        let at = At { position, is_mid_block: true, cpu_ns: period_ns + watch_ns as u64 };
        replayer.tick(
            &trace,
            callers,
            at,
            Some(Piece { last, last_ran: true, taken: Taken::ALL, native_ns: native_ns + watch_ns }),
        );
    }
    let profile = replayer.profile();
    let estimated: f64 = profile.blocks.iter().map(|block| block.count.value).sum();
    (estimated / trace.len() as f64, scale_factor(&profile))
}

#[test]
fn code_about_as_fast_as_the_model_says() {
    let program = program(1);
    for (slowness, watch_excess) in [(0.7, 1.0), (1.0, 0.7), (1.0, 1.0), (1.0, 1.3), (1.5, 1.0)] {
        let (ratio, factor) = judge(&program, slowness, watch_excess);
        println!("{slowness} {watch_excess}: {ratio:.3} within {factor:.3}");
        assert!((1.0 / factor..factor).contains(&ratio), "{ratio}, but within {factor}");
        assert!((1.5..4.0).contains(&factor), "{factor}");
    }
}

#[test]
fn code_that_waits_for_memory() {
    let (ratio, factor) = judge(&program(100), 30.0, 1.0);
    println!("{ratio:.3} within {factor:.3}");
    assert!((1.0 / factor..factor).contains(&ratio), "{ratio}, but within {factor}");
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}
