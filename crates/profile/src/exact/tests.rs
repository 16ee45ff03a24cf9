//! Profiles from counts, compared with what was put in, and with direct counts of random walks.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{CodePlace, ExactBuilder, Samples};
use crate::code::{CodeBlock, CodeFunction, CodeLoop, ModuleCode, NO_LOOP};
use crate::error::Error;
use crate::estimate::Estimate;
use crate::model::{BlockEnd, Edge, EdgeKind, ModuleId, Profile};

const BLOCK_BYTES: u64 = 16;

fn address(block: u32) -> u64 {
    0x1000 + BLOCK_BYTES * u64::from(block)
}

/// One function of blocks that end as told; `target` is a block.
fn function(ends: &[(BlockEnd, u32)], loops: &[CodeLoop], innermost: &[u32], cuts: &[(u32, u32)]) -> Arc<ModuleCode> {
    let block = |(index, (&(end, target), &innermost_loop)): (u32, (&(BlockEnd, u32), &u32))| CodeBlock {
        address: address(index),
        size: BLOCK_BYTES as u32,
        last: 8,
        n_insns: 3,
        function: 0,
        end,
        target: if matches!(end, BlockEnd::Jump | BlockEnd::Branch) { address(target) } else { 0 },
        innermost_loop,
        is_entry: index == 0,
    };
    let code = ModuleCode {
        functions: vec![CodeFunction { address: address(0), size: BLOCK_BYTES * ends.len() as u64, is_stub: false }],
        blocks: (0..).zip(ends.iter().zip(innermost)).map(block).collect(),
        loops: loops.to_vec(),
        cuts: cuts.to_vec(),
        insns: Vec::new(),
    };
    code.check().expect("test code");
    Arc::new(code)
}

/// 0 enters the loop of 1 and 2; 1 leaves it for 3; 2 goes back.
fn counting_loop() -> Arc<ModuleCode> {
    let ends = [(BlockEnd::Next, 0), (BlockEnd::Branch, 3), (BlockEnd::Jump, 1), (BlockEnd::Return, 0)];
    function(&ends, &[CodeLoop { header: 1, parent: NO_LOOP }], &[NO_LOOP, 0, 0, NO_LOOP], &[(2, 1)])
}

fn edges(profile: &Profile) -> Vec<(u32, u32, EdgeKind, bool, f64)> {
    let row = |edge: &Edge| (edge.from.0, edge.to.0, edge.kind, edge.is_back, edge.count.value);
    profile.edges.iter().map(row).collect()
}

#[test]
fn everything_follows_from_paths() {
    let mut builder = ExactBuilder::new();
    let module = builder.module("program", "", counting_loop()).expect("sound code");
    builder.path(module, &[0, 1, 2], Some(1), 2).expect("a path");
    builder.path(module, &[1, 2], Some(1), 5).expect("a path");
    builder.path(module, &[1, 3], None, 2).expect("a path");
    builder.entries(module, 0, 2).expect("a function");
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    let counts: Vec<Estimate> = profile.blocks.iter().map(|block| block.count).collect();
    assert_eq!(counts, [2, 9, 7, 2].map(Estimate::exact));
    use EdgeKind::{FallThrough, Taken};
    let expected = [
        (0, 1, FallThrough, false, 2.0),
        (1, 2, FallThrough, false, 7.0),
        (1, 3, Taken, false, 2.0),
        (2, 1, Taken, true, 7.0),
    ];
    assert_eq!(edges(&profile), expected);
    let [each] = &profile.loops[..] else { panic!("one loop") };
    assert_eq!((each.entries, each.iterations), (Estimate::exact(2), Estimate::exact(9)));
    assert_eq!(profile.paths.iter().map(|path| path.n_branches).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(profile.functions[0].entries, Estimate::exact(2));
    assert_eq!((profile.unseen_at_most, profile.unobserved_flow), (0.0, Estimate::exact(0)));
}

#[test]
fn samples_have_errors_and_sums_of_them_bounds() {
    let mut builder = ExactBuilder::new();
    let module = builder.module("program", "", counting_loop()).expect("sound code");
    // Of 4 samples at each of 3 ticks: (2, 0, 1), (1, 4, 3) and (1, 0, 0).
    for (blocks, back_to, n, squares) in
        [(&[0, 1, 2][..], Some(1), 3, 5), (&[1, 2], Some(1), 8, 26), (&[1, 3], None, 1, 1)]
    {
        let path = builder.path(module, blocks, back_to, n).expect("a path");
        builder.path_squares(path, squares).expect("a module");
    }
    let profile = builder.profile_of_samples(Samples { n_ticks: 3, per_tick: 4 });
    assert_eq!(profile.verify(), []);
    let near = |estimate: Estimate, variance: f64| assert!((estimate.variance - variance).abs() < 1e-9, "{estimate:?}");
    let paths: Vec<Estimate> = profile.paths.iter().map(|path| path.count).collect();
    assert_eq!(paths.iter().map(|count| count.value).collect::<Vec<_>>(), [3.0, 8.0, 1.0]);
    near(paths[0], 1.5 * (5.0 - 3.0));
    near(paths[1], 1.5 * (26.0 - 64.0 / 3.0));
    near(paths[2], 1.0);
    let blocks: Vec<Estimate> = profile.blocks.iter().map(|block| block.count).collect();
    near(blocks[0], paths[0].variance);
    near(blocks[2], (paths[0].error() + paths[1].error()).powi(2));
    near(blocks[1], (paths[0].error() + paths[1].error() + paths[2].error()).powi(2));
    let back = profile.edges.iter().find(|edge| edge.is_back).expect("a back edge");
    near(back.count, blocks[2].variance);
    assert!((profile.unseen_at_most - 12.0).abs() < 1e-9);
}

#[test]
fn errors_of_samples_are_those_of_repeated_runs() {
    const N_TICKS: u64 = 100;
    const PER_TICK: u64 = 8;
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    // At a third of the ticks half of the samples are of the path, at a tenth all of them.
    let mut run = || {
        let counts = (0..N_TICKS).map(|_| match random() % 30 {
            0..10 => PER_TICK / 2,
            10..13 => PER_TICK,
            _ => 0,
        });
        let (count, squares) = counts.fold((0, 0), |(count, squares), n| (count + n, squares + n * n));
        let mut builder = ExactBuilder::new();
        let module = builder.module("program", "", counting_loop()).expect("sound code");
        let path = builder.path(module, &[1, 2], Some(1), count).expect("a path");
        builder.path_squares(path, squares).expect("a module");
        builder.profile_of_samples(Samples { n_ticks: N_TICKS, per_tick: PER_TICK as u32 }).paths[0].count
    };
    let runs: Vec<Estimate> = (0..1000).map(|_| run()).collect();
    let mean = runs.iter().map(|count| count.value).sum::<f64>() / 1000.0;
    let truth = runs.iter().map(|count| (count.value - mean).powi(2)).sum::<f64>() / 999.0;
    let estimated = runs.iter().map(|count| count.variance).sum::<f64>() / 1000.0;
    // The variance of 1000 runs is known to 1/sqrt(500), or 4.5 %.
    assert!((estimated / truth - 1.0).abs() < 4.0 * 0.045, "{estimated} for {truth}");
}

#[test]
fn a_direction_that_was_never_taken_has_a_row() {
    let mut builder = ExactBuilder::new();
    let module = builder.module("program", "", counting_loop()).expect("sound code");
    builder.path(module, &[0, 1, 3], None, 4).expect("a path");
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    assert_eq!(profile.blocks.len(), 4, "the loop's body is where the branch did not go");
    assert!(edges(&profile).contains(&(1, 2, EdgeKind::FallThrough, false, 0.0)));
    assert!(!edges(&profile).iter().any(|edge| (edge.0, edge.1) == (2, 1)), "what did not run has no branches");
    assert_eq!(profile.loops[0].entries, Estimate::exact(4));
}

#[test]
fn blocks_and_stretches_are_on_no_path() {
    let mut builder = ExactBuilder::new();
    let module = builder.module("program", "", counting_loop()).expect("sound code");
    builder.block(module, 3, 1).expect("a block");
    builder.edge(module, 1, 3, 1).expect("an edge");
    builder.stretch(module, &[2], Some(1), 3).expect("a stretch");
    builder.unobserved(3);
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    assert_eq!((profile.paths.len(), profile.unobserved_flow), (0, Estimate::exact(3)));
    assert_eq!(
        edges(&profile),
        [(0, 2, EdgeKind::Taken, false, 1.0), (1, 0, EdgeKind::Taken, true, 3.0)],
        "rows of blocks 1 to 3"
    );
}

#[test]
fn calls_lead_to_functions_that_need_not_have_been_counted() {
    let mut builder = ExactBuilder::new();
    let caller = builder.module("program", "", counting_loop()).expect("sound code");
    let library = builder.module("library", "", counting_loop()).expect("sound code");
    assert_eq!(builder.module("library", "", counting_loop()), Ok(library), "a module is the same each time");
    let (site, callee) = (CodePlace { module: caller, index: 3 }, CodePlace { module: library, index: 0 });
    builder.call(site, callee, true, 6).expect("a call");
    let profile = builder.profile();
    assert_eq!(profile.verify(), []);
    let [call] = &profile.calls[..] else { panic!("one call") };
    assert_eq!((profile.functions[call.callee.index()].module, call.count), (library, Estimate::exact(6)));
}

#[test]
fn counts_of_what_is_not_there_are_refused() {
    let mut builder = ExactBuilder::new();
    let module = builder.module("program", "", counting_loop()).expect("sound code");
    let is_refused = |result: Result<(), Error>| assert!(matches!(result, Err(Error::BadCode(_))), "{result:?}");
    is_refused(builder.block(module, 4, 1));
    is_refused(builder.block(ModuleId(1), 0, 1));
    is_refused(builder.edge(module, 0, 4, 1));
    is_refused(builder.path(module, &[], None, 1).map(drop));
    is_refused(builder.path(module, &[0, 1], Some(4), 1).map(drop));
    is_refused(builder.entries(module, 1, 1));
    let (site, callee) = (CodePlace { module, index: 4 }, CodePlace { module, index: 1 });
    is_refused(builder.call(site, CodePlace { module, index: 0 }, false, 1));
    is_refused(builder.call(CodePlace { module, index: 0 }, callee, false, 1));
    assert_eq!(builder.profile().blocks, []);
}

/// Branches forward over the next block, and one back from the last but one block to a header:
/// where the walk goes is up to `choices`.
fn walk_code(n_blocks: u32, header: u32) -> Arc<ModuleCode> {
    let latch = n_blocks - 2;
    let mut ends: Vec<(BlockEnd, u32)> = (0..latch).map(|block| (BlockEnd::Branch, block + 2)).collect();
    ends.extend([(BlockEnd::Branch, header), (BlockEnd::Return, 0)]);
    let innermost: Vec<u32> =
        (0..n_blocks).map(|block| if (header..=latch).contains(&block) { 0 } else { NO_LOOP }).collect();
    function(&ends, &[CodeLoop { header, parent: NO_LOOP }], &innermost, &[(latch, header)])
}

/// What a walk did.
#[derive(Debug, Default)]
struct Truth {
    blocks: BTreeMap<u32, u64>,
    edges: BTreeMap<(u32, u32), u64>,
    n_entries_of_loop: u64,
}

fn walk(
    builder: &mut ExactBuilder,
    truth: &mut Truth,
    code: &ModuleCode,
    header: u32,
    choices: &mut dyn Iterator<Item = bool>,
) {
    let end = code.blocks.len() as u32 - 1;
    let is_inside = |block: u32| (header..end).contains(&block);
    let mut path = vec![0];
    let mut at = 0;
    truth.n_entries_of_loop += u64::from(is_inside(0));
    loop {
        *truth.blocks.entry(at).or_default() += 1;
        if at == end {
            builder.path(ModuleId(0), &path, None, 1).expect("a path of the code");
            return;
        }
        let is_taken = choices.next().unwrap_or(false);
        let to = match (is_taken, at == end - 1) {
            (true, true) => header,
            (true, false) => at + 2,
            (false, _) => at + 1,
        };
        *truth.edges.entry((at, to)).or_default() += 1;
        truth.n_entries_of_loop += u64::from(!is_inside(at) && is_inside(to));
        if code.is_cut(at, to) {
            builder.path(ModuleId(0), &path, Some(to), 1).expect("a path of the code");
            path.clear();
        }
        path.push(to);
        at = to;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, rng_seed: RngSeed::Fixed(0x5740_be01), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// The loop can be entered at its header and, over it, at the block behind.
    #[test]
    fn random_walks_are_counted(
        n_blocks in 3..12u32,
        header in 0.0..1.0f64,
        runs in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..60), 0..8),
    ) {
        let header = (header * f64::from(n_blocks - 2)) as u32;
        let code = walk_code(n_blocks, header);
        let mut builder = ExactBuilder::new();
        builder.module("program", "", code.clone()).expect("sound code");
        let mut truth = Truth::default();
        for choices in &runs {
            walk(&mut builder, &mut truth, &code, header, &mut choices.iter().copied());
        }
        let profile = builder.profile();
        prop_assert_eq!(profile.verify(), []);
        let index = |block: u64| ((block - address(0)) / BLOCK_BYTES) as u32;
        for block in &profile.blocks {
            let expected = truth.blocks.get(&index(block.address)).copied().unwrap_or(0);
            prop_assert_eq!(block.count, Estimate::exact(expected));
        }
        prop_assert!(truth.blocks.len() <= profile.blocks.len());
        for edge in &profile.edges {
            let [from, to] = [edge.from, edge.to].map(|block| index(profile.blocks[block.index()].address));
            let expected = truth.edges.get(&(from, to)).copied().unwrap_or(0);
            prop_assert_eq!(edge.count, Estimate::exact(expected));
        }
        prop_assert!(truth.edges.len() <= profile.edges.len());
        if let Some(each) = profile.loops.first() {
            prop_assert_eq!(each.entries, Estimate::exact(truth.n_entries_of_loop));
        }
        let n_path_blocks: f64 = profile.paths.iter().map(|path| path.count.value * path.blocks.len() as f64).sum();
        prop_assert_eq!(n_path_blocks, truth.blocks.values().sum::<u64>() as f64);
    }
}
