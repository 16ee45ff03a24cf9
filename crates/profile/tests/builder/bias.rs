//! Complete traces replayed as if sampled: the estimator's mean is the truth, and its intervals
//! hold it as often as they say.
//!
//! The program has code that takes 40 times as long per check as other code, in stretches both
//! longer and shorter than bursts, and paths that span calls. The estimate that ignores where ticks
//! fall is shown to be wrong on it.

use std::collections::BTreeMap;

use fixtures::program::{Chance, Program, Stmt};
use profile::builder::{Coverage, Options, Taken};
use profile::model::BlockEnd;
use profile::{Estimate, Profile};

use crate::replay::{At, Piece, Replayer, callers_at};
use crate::truth::Truth;

const N_BLOCKS: usize = 400_000;
const N_RUNS: u64 = 60;
/// Rarer events say nothing about means and intervals.
const MIN_SEEN_PER_RUN: u64 = 20;
const N_TICKS: u64 = 3000;

/// The first block of the second function.
const FIRST_SHORT_PATH: u32 = 18;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Block(u32),
    Edge(u32, u32),
    Path(Vec<u32>, Option<u32>),
    Entry(u32),
}

/// Estimates of one event over all runs.
#[derive(Debug, Default)]
struct Runs {
    sum: f64,
    squares: f64,
    n_covered: u64,
    raw_sum: f64,
    seen: u64,
}

fn work(n_insns: u32, ns: u32) -> Stmt {
    Stmt::Work { n_insns, ns }
}

fn program() -> Program {
    let either = |first: Stmt, second: Stmt| Stmt::If { percent: 30, first: vec![first], second: vec![second] };
    let main = vec![Stmt::While {
        percent: 99,
        body: vec![
            Stmt::Call { function: 1 },
            either(Stmt::Call { function: 2 }, work(4, 2)),
            Stmt::Switch(vec![vec![Stmt::Call { function: 3 }], vec![work(2, 1)], vec![Stmt::Call { function: 2 }]]),
        ],
    }];
    let slow = vec![Stmt::While { percent: 95, body: vec![either(work(4, 40), work(2, 40))] }];
    let fast = vec![Stmt::While { percent: 98, body: vec![either(work(3, 1), work(5, 1))] }];
    let caller = vec![
        Stmt::While { percent: 80, body: vec![work(3, 2), Stmt::Call { function: 4 }, either(work(1, 9), work(2, 1))] },
        Stmt::Call { function: 4 },
    ];
    let leaf = vec![either(work(5, 3), Stmt::While { percent: 40, body: vec![work(2, 2)] })];
    Program::compile(&[vec![Stmt::While { percent: 100, body: main }], slow, fast, caller, leaf])
}

/// How bursts are taken: those of Arnold and Grove skip as many checks as the number of the tick
/// says, up to `stride - 1`.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    n_checks: u32,
    stride: u32,
    is_full: bool,
}

impl Bursts {
    /// The checks until the end of a burst, and what of it counts.
    fn plan(self, tick: u64) -> (u32, Taken) {
        let n_skipped = (tick % u64::from(self.stride)) as u32;
        let stride = if self.is_full { self.stride } else { 1 };
        (n_skipped + 1 + (self.n_checks - 1) * stride, Taken { n_skipped, stride })
    }
}

#[test]
fn estimates_are_unbiased_and_intervals_hold() {
    let worst_raw = judge(Bursts { n_checks: 40, stride: 1, is_full: false });
    assert!(worst_raw > 1.5, "the program does not show what strata are for");
}

#[test]
fn so_are_those_that_skip_checks_first() {
    judge(Bursts { n_checks: 40, stride: 17, is_full: false });
}

#[test]
fn so_are_those_that_count_one_interval_in_three() {
    judge(Bursts { n_checks: 40, stride: 3, is_full: true });
}

/// Returns the worst factor that estimates would be off by without weights.
fn judge(bursts: Bursts) -> f64 {
    let program = program();
    let trace = program.run(&mut Chance(7), N_BLOCKS);
    let times = start_times(&program, &trace);
    let truth = truth_by_what(&program, &Truth::of(&program, &trace), bursts);
    let mut runs: BTreeMap<What, Runs> = BTreeMap::new();
    for seed in 0..N_RUNS {
        let profile = sample(&program, &trace, &times, bursts, &mut Chance(seed * 1000 + 1));
        let found = by_what(&program, &profile);
        let raw_scale = raw_scale(&truth, &found);
        for (what, &exact) in &truth {
            let estimate = found.get(what).copied().unwrap_or_default();
            runs.entry(what.clone()).or_default().add(exact, estimate, raw_scale);
        }
    }
    report(&truth, &runs)
}

/// Prints a table of the frequent events and checks it.
fn report(truth: &BTreeMap<What, f64>, runs: &BTreeMap<What, Runs>) -> f64 {
    let (mut n_events, mut n_off, mut worst_raw, mut covered) = (0, 0, 1.0f64, 0.0);
    println!("{:>10} {:>8} {:>6} {:>8} {:>6}  event", "exact", "mean", "z", "raw", "95 %");
    for (what, exact) in truth {
        let run = &runs[what];
        if run.seen < MIN_SEEN_PER_RUN * N_RUNS {
            continue;
        }
        let (mean, error) = run.mean_and_error();
        let z = (mean - exact) / error;
        let (ratio, raw_ratio) = (mean / exact, run.raw_sum / N_RUNS as f64 / exact);
        let coverage = run.n_covered as f64 / N_RUNS as f64;
        println!("{exact:>10} {ratio:>8.3} {z:>6.1} {raw_ratio:>8.3} {coverage:>6.2}  {what:?}");
        n_events += 1;
        covered += coverage;
        worst_raw = worst_raw.max(raw_ratio.max(1.0 / raw_ratio));
        n_off += u32::from(z.abs() > 4.0 && (ratio - 1.0).abs() > 0.02);
    }
    let coverage = covered / f64::from(n_events);
    println!("{n_events} events, {n_off} off, mean coverage {coverage:.3}, worst raw {worst_raw:.2}");
    assert!(n_events > 40, "too few events to tell");
    assert_eq!(n_off, 0, "means differ from the truth");
    assert!((0.90..0.995).contains(&coverage), "intervals hold the truth in {coverage}");
    worst_raw
}

impl Runs {
    fn add(&mut self, exact: f64, estimate: Estimate, raw_scale: f64) {
        self.sum += estimate.value;
        self.squares += estimate.value * estimate.value;
        let (low, high) = estimate.interval();
        self.n_covered += u64::from(low <= exact && exact <= high);
        self.raw_sum += estimate.seen as f64 * raw_scale;
        self.seen += estimate.seen;
    }

    fn mean_and_error(&self) -> (f64, f64) {
        let n = N_RUNS as f64;
        let mean = self.sum / n;
        (mean, ((self.squares / n - mean * mean).max(0.0) / (n - 1.0)).sqrt())
    }
}

/// What raw counts of blocks are multiplied by so that they add up to the truth.
fn raw_scale(truth: &BTreeMap<What, f64>, found: &BTreeMap<What, Estimate>) -> f64 {
    let is_block = |what: &What| matches!(what, What::Block(_));
    let exact: f64 = truth.iter().filter(|(what, _)| is_block(what)).map(|(_, exact)| exact).sum();
    let seen: f64 = found.iter().filter(|(what, _)| is_block(what)).map(|(_, found)| found.seen as f64).sum();
    exact / seen
}

/// One sampled run.
fn sample(program: &Program, trace: &[u32], times: &[u64], bursts: Bursts, chance: &mut Chance) -> Profile {
    let total_ns = times[times.len() - 1];
    let period_ns = total_ns / N_TICKS;
    let hits: Vec<u64> = (0..N_TICKS).map(|tick| tick * period_ns + chance.below(period_ns)).collect();
    let positions: Vec<usize> = hits.iter().map(|&hit| times.partition_point(|&start| start <= hit) - 1).collect();
    let callers = callers_at(program, trace, &positions);
    let options = Options { coverage: Coverage::Sampled, block_of_ticks: 10, ..Options::SAMPLED };
    let mut replayer = Replayer::new(program, options);
    for (((&hit, &position), callers), tick) in hits.iter().zip(&positions).zip(&callers).zip(0..) {
        let at = At { position, is_mid_block: times[position] < hit, cpu_ns: period_ns };
        let (n_checks, taken) = bursts.plan(tick);
        let (last, is_full) = end_of_burst(program, trace, position, n_checks);
        let noise = 0.7 + chance.below(600) as f64 / 1000.0;
        let native_ns = (times[if is_full { last } else { last + 1 }] - hit) as f64 * noise;
        replayer.tick(trace, callers, at, Some(Piece { last, last_ran: !is_full, taken, native_ns }));
    }
    replayer.profile()
}

/// Where the checks of a burst are used up, or the trace ends.
fn end_of_burst(program: &Program, trace: &[u32], start: usize, n_wanted: u32) -> (usize, bool) {
    let mut n_checks = 0;
    for position in start + 1..trace.len() {
        let (from, to) = (trace[position - 1], trace[position]);
        let is_back = program.code.cuts.binary_search(&(from, to)).is_ok();
        if is_back || program.code.blocks[to as usize].is_entry {
            n_checks += 1;
            if n_checks == n_wanted {
                return (position, true);
            }
        }
    }
    (trace.len() - 1, false)
}

/// When each block of the trace starts, and when the last one ends.
fn start_times(program: &Program, trace: &[u32]) -> Vec<u64> {
    let mut now = 0;
    let mut times = vec![0];
    for &block in trace {
        now += program.behaviours[block as usize].ns;
        times.push(now);
    }
    times
}

fn truth_by_what(program: &Program, truth: &Truth, bursts: Bursts) -> BTreeMap<What, f64> {
    let blocks = truth.blocks.iter().map(|(&block, &count)| (What::Block(block), count));
    let edges = truth.edges.iter().map(|(&(from, to, _), &count)| (What::Edge(from, to), count));
    // Paths of the first function span more checks than a burst has; with a call on it, a path
    // spans more than one interval.
    let has_call = |path: &[u32]| path.iter().any(|&block| program.code.blocks[block as usize].end == BlockEnd::Call);
    let is_short = |path: &[u32]| path[0] >= FIRST_SHORT_PATH && !(bursts.is_full && has_call(path));
    let paths = truth.paths.iter().filter(|((path, _), _)| is_short(path));
    let paths = paths.map(|((path, back), &count)| (What::Path(path.clone(), *back), count));
    let entries = truth.entries.iter().map(|(&function, &count)| (What::Entry(function), count));
    blocks.chain(edges).chain(paths).chain(entries).map(|(what, count)| (what, count as f64)).collect()
}

fn by_what(program: &Program, profile: &Profile) -> BTreeMap<What, Estimate> {
    let index_of = |address: u64| program.code.block_at(address).expect("a block of the program");
    let index = |block: profile::model::BlockId| index_of(profile.blocks[block.index()].address);
    let blocks = profile.blocks.iter().map(|row| (What::Block(index_of(row.address)), row.count));
    let edges = profile.edges.iter().map(|row| (What::Edge(index(row.from), index(row.to)), row.count));
    let paths = profile.paths.iter().map(|row| {
        let blocks = row.blocks.iter().map(|&block| index(block)).collect();
        (What::Path(blocks, row.back_to.map(index)), row.count)
    });
    let functions = &program.code.functions;
    let entries = profile.functions.iter().map(|row| {
        let function = functions.iter().position(|each| each.address == row.address).expect("a function");
        (What::Entry(function as u32), row.entries)
    });
    blocks.chain(edges).chain(paths).chain(entries).collect()
}
