//! Copies that are never left, at work: what they count is what single-stepping the original
//! counts.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use emit::{Cache, Cell, CellKind, Counting, Events, Metric, ModuleCopy, Options, Probe};
use flow::paths::{EdgeOrder, PathId, PathPlan, PlanOptions, Truncation, max_paths_with_restarts};
use flow::{ModuleFlow, Sequential};
use image::{Image, Svma};
use wire::exact;
use wire::thread::offset;

use crate::execution::{LO, Placed, SOURCE, defines, make_executable, place};
use crate::fixture::{build, parse};

pub const AREA_AT: u64 = 0x1000_0000_0000;

/// What the program and its copy have counted.
struct Counted {
    /// Executions of instructions of the original, by address.
    hits: HashMap<u64, u64>,
    cells: Vec<u64>,
    paths: HashMap<u64, u64>,
    /// Sums of squares, if paths are sampled.
    squares: HashMap<u64, u64>,
    printed: String,
}

fn program(optimization: &str, n_cells: u32) -> Vec<u8> {
    let mut defines = defines();
    let values = [
        ("AREA_AT", AREA_AT),
        ("AREA_BYTES", 1 << exact::AREA_BITS),
        ("CELLS", exact::CELLS.into()),
        ("N_CELLS", n_cells.into()),
        ("PATHS", exact::PATHS.into()),
        ("PATHS_BYTES", exact::PATHS_BYTES.into()),
        ("PATH_METRIC", exact::PATH_METRIC.into()),
        ("GATE", offset::GATE.into()),
        ("SAMPLES_WANTED", offset::SAMPLES_WANTED.into()),
        ("ENDS_TO_SKIP", offset::ENDS_TO_SKIP.into()),
        ("ENDS_BETWEEN", offset::ENDS_BETWEEN.into()),
        ("SAMPLING_TICK", offset::SAMPLING_TICK.into()),
        ("NEXT_EVENT", offset::NEXT_EVENT.into()),
        ("EVENTS_END", wire::events::EVENTS_END.into()),
        ("EVENTS_EMPTY", wire::events::EMPTY),
    ];
    defines.extend(values.iter().map(|(name, value)| format!("-D{name}={value:#x}ul")));
    defines.push(format!("-DTARGET_NUMBER={}", offset::TARGET));
    let mut flags = vec!["-static", "-no-pie", optimization, "-Wl,--build-id=none", "-w"];
    flags.extend(defines.iter().map(String::as_str));
    build("c", SOURCE, &flags)
}

/// What a run is to do beside.
#[derive(Clone, Copy)]
struct Wanted {
    /// Steps in the copy after which it is left.
    max_steps: u32,
    /// Paths to sample, if they are sampled, and path ends before each.
    samples: u32,
    ends_between: u32,
}

const ALL_SAMPLES: Wanted = Wanted { max_steps: 0, samples: u32::MAX, ends_between: 0 };

fn run(program: &[u8], copy: &ModuleCopy, wanted: Wanted) -> Counted {
    let Placed { code, entries, runs } = place(copy);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    for (name, bytes) in [("program", program), ("copy", &code), ("entries", &entries), ("runs", &runs)] {
        std::fs::write(path(name), bytes).expect("a file in the temporary folder");
    }
    make_executable(&path("program"));
    let arguments = ["copy", "entries", "runs", "hits", "cells", "paths"].map(path);
    let Wanted { max_steps, samples, ends_between } = wanted;
    let numbers = [max_steps, samples, ends_between].map(|number| number.to_string());
    let output = Command::new(path("program")).args(arguments).args(numbers).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{:?} after {printed}", output.status);
    let read = |name: &str| std::fs::read(path(name)).expect("what the program wrote");
    let words = |name: &str| -> Vec<u64> {
        read(name).as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    };
    let hits = words("hits").into_iter().map(|pair| (LO + (pair & 0xffff_ffff), pair >> 32)).collect();
    let table = words("paths");
    // A trace has paths more than once.
    let mut paths: HashMap<u64, u64> = HashMap::new();
    for &[key, count, _] in table.as_chunks::<3>().0 {
        *paths.entry(key).or_default() += count;
    }
    let squares = table.as_chunks::<3>().0.iter().map(|&[key, _, squares]| (key, squares)).collect();
    Counted { hits, cells: words("cells"), paths, squares, printed }
}

/// How paths are numbered.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Estimate,
    /// Weights without any sense.
    Guide,
}

fn analyze(image: &Image<'_>, by: By) -> ModuleFlow {
    let mut flow = flow::analyze(image, &Sequential);
    for function in flow.functions.iter_mut().filter(|_| by == By::Guide) {
        let n_edges = function.cfg.graph.n_edges() as u64;
        function.observed =
            Some((0..n_edges).map(|edge| (edge + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect());
    }
    flow
}

fn translate(image: &Image<'_>, counting: Counting, by: By) -> (ModuleFlow, ModuleCopy) {
    let flow = analyze(image, by);
    let copy = emit::translate(
        image,
        &flow,
        Options { cluster: 0, probe: Probe::Exact(counting), events: Events::default() },
        &Sequential,
    );
    (flow, copy)
}

/// Cells with the number of their first counter.
fn numbered(copy: &ModuleCopy) -> impl Iterator<Item = (Cell, usize)> + '_ {
    copy.cells().iter().scan(0, |next, &cell| {
        let first = *next;
        *next += cell.n_cells() as usize;
        Some((cell, first))
    })
}

fn counted(optimization: &str, counting: Counting, max_steps: u32) -> (Vec<u8>, ModuleCopy, Counted) {
    counted_by(optimization, counting, By::Estimate, Wanted { max_steps, ..ALL_SAMPLES })
}

fn counted_by(optimization: &str, counting: Counting, by: By, wanted: Wanted) -> (Vec<u8>, ModuleCopy, Counted) {
    // The number of cells is part of the program but changes nothing about it.
    let draft = program(optimization, 0x7fff_ffff);
    let n_cells = translate(&parse(&draft), counting, by).1.n_cells();
    let file = program(optimization, n_cells);
    let (_, copy) = translate(&parse(&file), counting, by);
    assert_eq!(copy.n_cells(), n_cells);
    let result = run(&file, &copy, wanted);
    (file, copy, result)
}

/// Every block of the program must have been counted as often as it was stepped through. What only
/// the original runs is left out.
fn compare_blocks(image: &Image<'_>, blocks: &BTreeMap<u64, u64>, hits: &HashMap<u64, u64>, left_out: &[&str]) {
    let harness = image.sections().iter().find(|section| section.name == "harness").expect("a section").range;
    let is_left_out = |at: u64| {
        let named = image.symbols().iter().filter(|symbol| left_out.contains(&&*symbol.name));
        harness.contains(Svma(at)) || named.into_iter().any(|symbol| at.wrapping_sub(symbol.address.0) < symbol.size)
    };
    let flow = flow::analyze(image, &Sequential);
    let mut n_compared = 0;
    for block in flow.functions.iter().flat_map(|function| &function.cfg.blocks) {
        let at = block.range.start.0;
        let (counted, expected) = (blocks.get(&at).copied().unwrap_or(0), hits.get(&at).copied().unwrap_or(0));
        if !is_left_out(at) {
            assert_eq!(counted, expected, "block at {at:#x}");
            n_compared += u32::from(expected > 0);
        }
    }
    assert!(n_compared > 300, "only {n_compared} blocks ran");
}

/// The block whose executions the cell counts, or some of them.
fn counted_block(cell: Cell) -> Option<u32> {
    match cell.kind {
        CellKind::Block => Some(cell.at),
        CellKind::InnerEdge => Some(cell.to),
        _ => None,
    }
}

fn check_blocks(optimization: &str) {
    let (file, copy, result) = counted(optimization, Counting::Blocks, 0);
    let mut blocks = BTreeMap::new();
    for (cell, number) in numbered(&copy) {
        if let Some(block) = counted_block(cell) {
            *blocks.entry(LO + u64::from(block)).or_default() += result.cells[number];
        }
    }
    compare_blocks(&parse(&file), &blocks, &result.hits, &[]);
}

#[test]
fn blocks_are_counted_exactly() {
    check_blocks("-O2");
    check_blocks("-O0");
}

#[test]
fn nothing_is_counted_on_request() {
    let (_, copy, result) = counted("-O2", Counting::Nothing, 0);
    assert!(numbered(&copy).all(|(cell, _)| cell.kind == CellKind::Target));
    assert!(result.paths.is_empty());
}

/// Blocks from the paths that were counted, for every function that counts paths.
fn blocks_of_paths(
    flow: &ModuleFlow,
    copy: &ModuleCopy,
    truncation: Truncation,
    result: &Counted,
) -> BTreeMap<u64, u64> {
    let mut blocks = BTreeMap::new();
    for (cell, number) in numbered(copy) {
        let ids: Vec<(u64, u64)> = match cell.kind {
            CellKind::Paths => (0..u64::from(cell.to)).map(|id| (id, result.cells[number + id as usize])).collect(),
            CellKind::HashedPaths => {
                let mine = result.paths.iter().filter(|(key, _)| *key >> 32 == u64::from(cell.to) + 1);
                mine.map(|(key, &count)| (key & 0xffff_ffff, count)).collect()
            }
            _ => {
                if let Some(block) = counted_block(cell) {
                    *blocks.entry(LO + u64::from(block)).or_default() += result.cells[number];
                }
                continue;
            }
        };
        let function = flow.function_at(Svma(LO + u64::from(cell.at))).expect("a function with cells");
        let graph = &function.cfg.graph;
        let weights = function.path_weights();
        let options = PlanOptions {
            truncation,
            order: EdgeOrder::Smart(&weights),
            max_paths: max_paths_with_restarts(function.cfg.return_sites().len()),
        };
        let plan = PathPlan::new(graph, &options);
        for (id, count) in ids.into_iter().filter(|&(id, count)| count > 0 && id < plan.n_paths()) {
            let path = plan.decode(PathId(id)).expect("a path of the plan");
            for block in path.blocks {
                *blocks.entry(function.cfg.block(block).range.start.0).or_default() += count;
            }
        }
    }
    blocks
}

/// Paths with misses of a cache.
fn misses() -> Counting {
    Counting::PathMetric(Metric::Misses(Cache::new(1 << 10, 2, 32).expect("a cache")))
}

#[test]
fn paths_are_counted_exactly() {
    let ways = [
        ("-O2", Counting::Paths, By::Estimate),
        ("-O0", Counting::Paths, By::Estimate),
        ("-O2", Counting::Paths, By::Guide),
        ("-O2", Counting::HeaderPaths, By::Estimate),
        ("-O2", Counting::PATH_CYCLES, By::Estimate),
        ("-O2", misses(), By::Estimate),
        ("-O2", Counting::SampledPaths, By::Estimate),
        ("-O2", Counting::TracedPaths, By::Estimate),
        ("-O0", Counting::TracedPaths, By::Estimate),
    ];
    for (optimization, counting, by) in ways {
        let (file, copy, result) = counted_by(optimization, counting, by, ALL_SAMPLES);
        let image = parse(&file);
        let flow = analyze(&image, by);
        if by == By::Guide {
            assert_eq!(emit_verify::verify(&image, &flow, &copy), Ok(()));
        }
        let blocks = blocks_of_paths(&flow, &copy, counting.truncation(), &result);
        // A path that longjmp cuts off is never counted, and one that it begins is not counted
        // here; nor one that begins behind a call which takes its arguments off the stack.
        let left_out = ["drops", "jumps", "jump_out", "longjmp", "__longjmp", "__libc_siglongjmp", "_longjmp_unwind"];
        compare_blocks(&image, &blocks, &result.hits, &left_out);
    }
}

#[test]
fn as_many_paths_are_sampled_as_wanted() {
    let (file, copy, all) = counted("-O2", Counting::SampledPaths, 0);
    let sampled = |samples, ends_between| run(&file, &copy, Wanted { max_steps: 0, samples, ends_between });
    let n_of = |result: &Counted| result.paths.values().sum::<u64>();
    let n_all = n_of(&all);
    assert!(n_all > 200, "only {n_all} paths ended");
    assert_eq!(n_of(&sampled(0, 0)), 0);
    for (samples, ends_between) in [(100, 0), (30, 3), (u32::MAX, 16)] {
        let result = sampled(samples, ends_between);
        let n_possible = n_all / u64::from(ends_between + 1);
        assert_eq!(n_of(&result), n_possible.min(samples.into()), "{samples},{ends_between}");
        for (key, count) in &result.paths {
            assert!(all.paths.get(key) >= Some(count), "{key:#x} was sampled {count} times");
            // All at one tick.
            assert_eq!(result.squares[key], count * count, "{key:#x}");
        }
    }
}

#[test]
fn recovery_from_every_step() {
    let ways = [
        (Counting::Blocks, 250),
        (Counting::Paths, 250),
        (Counting::PATH_CYCLES, 250),
        (misses(), 60),
        (Counting::SampledPaths, 120),
        (Counting::TracedPaths, 120),
    ];
    for (counting, n_steps) in ways {
        let (_, _, result) = counted("-O2", counting, n_steps);
        assert_eq!(result.printed.matches("same after any of").count(), 13, "{}", result.printed);
        let all_steps = format!("same after any of {n_steps} steps");
        assert!(result.printed.matches(&all_steps).count() >= 3, "{}", result.printed);
    }
}
