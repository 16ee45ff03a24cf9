//! Path numbering: numbers are dense, unique and invertible, and simulated instrumentation counts
//! exactly what a trace contains.

mod random_graphs;

use flow::graph::{BlockId, Digraph, EdgeId};
use flow::loops::Loops;
use flow::order::Order;
use flow::paths::verify::{verify_every_path, verify_placement, verify_plan};
use flow::paths::{
    DEFAULT_MAX_PATHS, EdgeAction, EdgeOrder, Path, PathId, PathPlan, Placement, PlanOptions, Truncation,
    estimate_weights,
};
use proptest::prelude::*;
use random_graphs::{any_graph, config, graph, mixed_graph, structured_graph, weights_for};
use std::collections::{BTreeMap, BTreeSet};

const TRUNCATIONS: [Truncation; 2] = [Truncation::BackEdges, Truncation::LoopHeaders];
/// Functions with at most so many paths are enumerated.
const FEW: u64 = 3_000;

fn plan(graph: &Digraph, truncation: Truncation, order: EdgeOrder<'_>, max_paths: u64) -> PathPlan {
    let plan = PathPlan::new(graph, &PlanOptions { truncation, order, max_paths });
    assert_eq!(verify_plan(&plan), Ok(()));
    assert!(plan.n_paths() <= max_paths.max(graph.n_edges() as u64));
    plan
}

fn placements(plan: &PathPlan, weights: &[u64]) -> [Placement; 2] {
    let placements = [Placement::direct(plan), Placement::spanning_tree(plan, weights)];
    placements.iter().for_each(|placement| assert_eq!(verify_placement(plan, placement), Ok(())));
    placements
}

fn graph_with_weights(max_blocks: usize) -> impl Strategy<Value = (Digraph, Vec<u64>)> {
    mixed_graph(max_blocks).prop_flat_map(|graph| {
        let weights = weights_for(&graph);
        (Just(graph), weights)
    })
}

fn any_limit() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 2..50u64, 1 => 50..FEW, 2 => Just(DEFAULT_MAX_PATHS)]
}

/// All paths by depth-first enumeration, from the graph and the cut edges alone; `None` if there
/// are many.
fn enumerate_paths(plan: &PathPlan) -> Option<BTreeSet<Path>> {
    let graph = plan.graph();
    let is_start =
        |block: &BlockId| graph.is_entry(*block) || graph.in_edges(*block).iter().any(|&edge| plan.is_cut(edge));
    let mut paths = BTreeSet::new();
    let mut pending: Vec<Vec<BlockId>> = graph.blocks().filter(is_start).map(|start| vec![start]).collect();
    while let Some(blocks) = pending.pop() {
        let last = *blocks.last()?;
        for edge in graph.out_edges(last) {
            match graph.edge(edge).to {
                Some(to) if !plan.is_cut(edge) => pending.push(blocks.iter().copied().chain([to]).collect()),
                _ => {
                    paths.insert(Path { start: blocks[0], blocks: blocks.clone(), end: edge });
                }
            }
        }
        if paths.len() + pending.len() > FEW as usize {
            return None;
        }
    }
    Some(paths)
}

/// What instrumented code does with its register and its counters.
struct Machine<'a> {
    placement: &'a Placement,
    register: i64,
    counts: BTreeMap<u64, u64>,
}

impl Machine<'_> {
    fn enter(&mut self, plan: &PathPlan, entry: BlockId) {
        let index = plan.starts().iter().position(|start| start.block == entry).expect("an entry is a start");
        self.register = self.placement.start_registers()[index];
    }

    fn take(&mut self, edge: EdgeId) {
        match self.placement.action(edge) {
            EdgeAction::Pass => {}
            EdgeAction::Add(amount) => self.register = self.register.wrapping_add(amount),
            EdgeAction::End { id_offset, restart } => {
                *self.counts.entry(self.register.wrapping_add(id_offset) as u64).or_default() += 1;
                self.register = restart.unwrap_or(i64::MIN);
            }
        }
    }
}

/// Runs a walk through both placements at once, comparing every prefix and, at the end, every count
/// with the trace.
fn run_walk(plan: &PathPlan, weights: &[u64], choices: &[u32]) {
    let graph = plan.graph();
    let placements = placements(plan, weights);
    let mut machines =
        placements.each_ref().map(|placement| Machine { placement, register: 0, counts: BTreeMap::new() });
    let mut traced: BTreeMap<(Vec<BlockId>, EdgeId), u64> = BTreeMap::new();
    let mut at = None;
    let mut trace = Vec::new();
    for &choice in choices {
        let block = *at.get_or_insert_with(|| {
            let entry = graph.entries()[choice as usize % graph.entries().len()];
            machines.iter_mut().for_each(|machine| machine.enter(plan, entry));
            trace = vec![entry];
            entry
        });
        for machine in &machines {
            let sum = machine.placement.prefix_sum(block, machine.register);
            assert_eq!(plan.decode_partial(block, sum).as_ref(), Some(&trace));
        }
        let out = graph.out_range(block);
        let edge = EdgeId(out.start + (choice >> 8) % out.len() as u32);
        machines.iter_mut().for_each(|machine| machine.take(edge));
        at = graph.edge(edge).to;
        if plan.is_end(edge) {
            *traced.entry((std::mem::take(&mut trace), edge)).or_default() += 1;
        }
        trace.extend(at);
    }
    for machine in &machines {
        let decoded = machine.counts.iter().map(|(&id, &count)| {
            let path = plan.decode(PathId(id)).expect("a counted number is a path");
            ((path.blocks, path.end), count)
        });
        assert_eq!(decoded.collect::<BTreeMap<_, _>>(), traced);
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn numbers_are_dense_unique_and_invertible((graph, weights) in graph_with_weights(40), limit in any_limit()) {
        for truncation in TRUNCATIONS {
            for order in [EdgeOrder::Classic, EdgeOrder::Smart(&weights)] {
                let plan = plan(&graph, truncation, order, limit);
                if plan.n_paths() > FEW {
                    continue;
                }
                prop_assert_eq!(verify_every_path(&plan), Ok(()));
                let decoded: Vec<Path> = (0..plan.n_paths()).filter_map(|id| plan.decode(PathId(id))).collect();
                let paths = enumerate_paths(&plan).expect("few paths");
                prop_assert_eq!(decoded.len(), paths.len());
                prop_assert_eq!(decoded.into_iter().collect::<BTreeSet<_>>(), paths);
            }
        }
    }

    #[test]
    fn smart_and_classic_number_the_same_paths((graph, weights) in graph_with_weights(40)) {
        for truncation in TRUNCATIONS {
            let classic = plan(&graph, truncation, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
            let smart = plan(&graph, truncation, EdgeOrder::Smart(&weights), DEFAULT_MAX_PATHS);
            if !classic.extra_cuts().is_empty() {
                continue;
            }
            prop_assert_eq!(classic.n_paths(), smart.n_paths());
            let n = classic.n_paths();
            for id in (0..n.min(FEW)).chain(n.saturating_sub(FEW)..n) {
                let path = classic.decode(PathId(id)).expect("dense");
                prop_assert!(smart.encode(&path.blocks, path.end).is_some());
            }
        }
    }

    #[test]
    fn smart_order_gives_the_hottest_edge_zero((graph, weights) in graph_with_weights(40)) {
        let plan = plan(&graph, Truncation::BackEdges, EdgeOrder::Smart(&weights), DEFAULT_MAX_PATHS);
        for block in graph.blocks() {
            let hottest = graph.out_edges(block).map(|edge| weights[edge.index()]).max();
            let free = graph.out_edges(block).filter(|&edge| plan.value(edge) == 0);
            prop_assert_eq!(free.map(|edge| weights[edge.index()]).collect::<Vec<_>>(), Vec::from_iter(hottest));
        }
    }

    #[test]
    fn every_prefix_of_every_path_decodes((graph, weights) in graph_with_weights(24), limit in any_limit()) {
        for truncation in TRUNCATIONS {
            let plan = plan(&graph, truncation, EdgeOrder::Smart(&weights), limit);
            let placements = placements(&plan, &weights);
            for id in 0..plan.n_paths().min(300) {
                let path = plan.decode(PathId(id)).expect("dense");
                for placement in &placements {
                    let mut machine = Machine { placement, register: 0, counts: BTreeMap::new() };
                    machine.enter(&plan, path.start);
                    for n in 1..=path.blocks.len() {
                        let at = path.blocks[n - 1];
                        let sum = placement.prefix_sum(at, machine.register);
                        let prefix = plan.decode_partial(at, sum);
                        prop_assert_eq!(prefix.as_deref(), Some(&path.blocks[..n]));
                        if let Some(&next) = path.blocks.get(n) {
                            machine.take(graph.edge_between(at, next).expect("consecutive"));
                        }
                    }
                    machine.take(path.end);
                    prop_assert_eq!(machine.counts, BTreeMap::from([(id, 1)]));
                }
            }
        }
    }

    #[test]
    fn sums_that_no_prefix_has_do_not_decode(graph in mixed_graph(12), limit in 2..100u64) {
        let plan = plan(&graph, Truncation::BackEdges, EdgeOrder::Classic, limit);
        let mut prefixes = BTreeSet::new();
        for path in (0..plan.n_paths()).filter_map(|id| plan.decode(PathId(id))) {
            let mut sum = plan.start_value(path.start).expect("a path starts at a start");
            prefixes.insert((path.start, sum));
            for pair in path.blocks.windows(2) {
                sum += plan.value(graph.edge_between(pair[0], pair[1]).expect("consecutive"));
                prefixes.insert((pair[1], sum));
            }
        }
        for block in graph.blocks() {
            for sum in 0..=plan.n_paths() {
                prop_assert_eq!(plan.decode_partial(block, sum).is_some(), prefixes.contains(&(block, sum)));
            }
        }
    }

    #[test]
    fn instrumentation_counts_what_the_trace_contains(
        (graph, weights) in graph_with_weights(40),
        choices in prop::collection::vec(any::<u32>(), 1..400),
        limit in any_limit(),
    ) {
        for truncation in TRUNCATIONS {
            for order in [EdgeOrder::Classic, EdgeOrder::Smart(&weights)] {
                run_walk(&plan(&graph, truncation, order, limit), &weights, &choices);
            }
        }
    }

    #[test]
    fn spanning_tree_is_never_worse_than_direct((graph, weights) in graph_with_weights(40), limit in any_limit()) {
        let estimated = estimate_weights(&graph, &Loops::new(&graph, &Order::new(&graph)));
        for truncation in TRUNCATIONS {
            for order in [EdgeOrder::Classic, EdgeOrder::Smart(&weights)] {
                let plan = plan(&graph, truncation, order, limit);
                for weights in [&weights, &estimated] {
                    let [direct, tree] = placements(&plan, weights);
                    prop_assert!(tree.weighted_additions(weights) <= direct.weighted_additions(weights));
                }
            }
        }
    }

    #[test]
    fn header_truncation_cuts_exactly_the_edges_into_headers(graph in any_graph(40)) {
        let order = Order::new(&graph);
        let plan = plan(&graph, Truncation::LoopHeaders, EdgeOrder::Classic, u64::MAX);
        let headers: BTreeSet<_> = order.retreating().iter().filter_map(|&edge| graph.edge(edge).to).collect();
        for id in graph.edge_ids() {
            let into_header = graph.edge(id).to.is_some_and(|to| headers.contains(&to));
            prop_assert_eq!(plan.is_cut(id), into_header);
        }
    }

    #[test]
    fn foreign_block_sequences_have_no_number(
        graph in structured_graph(),
        blocks in prop::collection::vec(0..30u32, 1..6),
    ) {
        let plan = plan(&graph, Truncation::BackEdges, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
        let blocks: Vec<BlockId> = blocks.into_iter().map(|block| BlockId(block % graph.n_blocks() as u32)).collect();
        for end in graph.edge_ids() {
            if let Some(id) = plan.encode(&blocks, end) {
                let path = plan.decode(id).expect("a number that was given is a path");
                prop_assert_eq!((path.blocks, path.end), (blocks.clone(), end));
            }
        }
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn large_graphs(
        (graph, weights) in graph_with_weights(2000),
        choices in prop::collection::vec(any::<u32>(), 5000),
    ) {
        for truncation in TRUNCATIONS {
            for max_paths in [1 << 16, DEFAULT_MAX_PATHS, u64::MAX] {
                let plan = plan(&graph, truncation, EdgeOrder::Smart(&weights), max_paths);
                run_walk(&plan, &weights, &choices);
                let stride = (plan.n_paths() / 500).max(1);
                for id in (0..500).map(|i| PathId(i * stride)).filter(|id| id.0 < plan.n_paths()) {
                    let path = plan.decode(id).expect("dense");
                    prop_assert_eq!(plan.encode(&path.blocks, path.end), Some(id));
                }
            }
        }
    }
}

/// The running example of Ball and Larus 1996: six paths from A to F, with the numbers given there.
#[test]
fn ball_larus_example() {
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5];
    let edges = [
        (a, Some(c)),
        (a, Some(b)),
        (b, Some(c)),
        (b, Some(d)),
        (c, Some(d)),
        (d, Some(f)),
        (d, Some(e)),
        (e, Some(f)),
        (f, None),
    ];
    let graph = graph(6, &edges, &[a]);
    let plan = plan(&graph, Truncation::BackEdges, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
    let spelled = |id| {
        let blocks = plan.decode(PathId(id)).expect("six paths").blocks;
        blocks.iter().map(|block| char::from(b'A' + block.0 as u8)).collect::<String>()
    };
    let paths: Vec<String> = (0..plan.n_paths()).map(spelled).collect();
    assert_eq!(paths, ["ACDF", "ACDEF", "ABCDF", "ABCDEF", "ABDF", "ABDEF"]);

    let weights = vec![1; graph.n_edges()];
    let [direct, tree] = placements(&plan, &weights);
    assert_eq!((direct.n_additions(), tree.n_additions()), (3, 3));
}

/// A loop around a diamond: 0 -> 1 (header) -> 2 -> {3, 4} -> 5 -> 1, and 1 -> 6, which leaves.
#[test]
fn loop_around_a_diamond() {
    let edges = [
        (0, Some(1)),
        (1, Some(2)),
        (1, Some(6)),
        (2, Some(3)),
        (2, Some(4)),
        (3, Some(5)),
        (4, Some(5)),
        (5, Some(1)),
        (6, None),
    ];
    let graph = graph(7, &edges, &[0]);
    // Three ways on from the header, each with and without block 0 before it.
    assert_eq!(plan(&graph, Truncation::BackEdges, EdgeOrder::Classic, DEFAULT_MAX_PATHS).n_paths(), 6);
    // Block 0 alone, and the three ways on from the header.
    let plan = plan(&graph, Truncation::LoopHeaders, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
    assert_eq!(plan.n_paths(), 4);
    let starts: Vec<u32> = plan.starts().iter().map(|start| start.block.0).collect();
    assert_eq!(starts, [0, 1]);
}

/// Two loops in a row, 1..=2 and 3..=3, inside an outer loop 0..=4: edges weigh as much as the loop
/// that they stay in.
#[test]
fn estimated_weights_follow_loop_depth() {
    let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3), (3, 4), (4, 0)];
    let mut edges = edges.map(|(from, to)| (from, Some(to))).to_vec();
    edges.push((4, None));
    let graph = graph(5, &edges, &[0]);
    let weights = estimate_weights(&graph, &Loops::new(&graph, &Order::new(&graph)));
    let weight = |from, to| weights[graph.edge_between(BlockId(from), BlockId(to)).expect("an edge").index()];
    let once = 2 * weights[graph.n_edges() - 1];
    assert_eq!(weight(1, 2), 64 * once, "in the first inner loop");
    assert_eq!(weight(3, 3), 32 * once, "around the second, as one of two ways on");
    assert_eq!(weight(0, 1), 8 * once, "from the outer loop into the first");
    assert_eq!(weight(2, 3), 4 * once, "from the first into the second, as one of two ways on");
    assert_eq!(weight(4, 0), 4 * once, "around the outer loop, as one of two ways on");
}

/// `n` diamonds in a row, each closed by a join block.
fn ladder(n: u32) -> Digraph {
    let mut edges = Vec::new();
    for rung in 0..n {
        let top = 3 * rung;
        edges.extend([(top, Some(top + 1)), (top, Some(top + 2))]);
        edges.extend([(top + 1, Some(top + 3)), (top + 2, Some(top + 3))]);
    }
    edges.push((3 * n, None));
    graph(3 * n as usize + 1, &edges, &[0])
}

#[test]
fn ladder_of_diamonds_has_a_power_of_two_paths() {
    for n in [0, 1, 5, 31, 32] {
        let plan = plan(&ladder(n), Truncation::BackEdges, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
        assert_eq!(plan.n_paths(), 1 << n);
        assert_eq!(plan.log2_paths_before_extra_cuts(), f64::from(n));
        assert_eq!(plan.extra_cuts(), []);
    }
    let plan = plan(&ladder(33), Truncation::BackEdges, EdgeOrder::Classic, DEFAULT_MAX_PATHS);
    assert_eq!(plan.extra_cuts().len(), 2, "one join block is relieved of its two edges");
    assert_eq!(plan.log2_paths_before_extra_cuts(), 33.0);
}

#[test]
fn huge_ladders_get_few_cuts() {
    for (n, max_cuts) in [(5_000, 550), (10_000, 1_100)] {
        let graph = ladder(n);
        let weights = estimate_weights(&graph, &Loops::new(&graph, &Order::new(&graph)));
        for order in [EdgeOrder::Classic, EdgeOrder::Smart(&weights)] {
            let plan = plan(&graph, Truncation::BackEdges, order, DEFAULT_MAX_PATHS);
            assert!((plan.log2_paths_before_extra_cuts() - f64::from(n)).abs() < 1e-3);
            assert!(plan.extra_cuts().len() <= max_cuts, "{} cuts", plan.extra_cuts().len());
            run_walk(&plan, &weights, &vec![0x1234_5678; 3 * n as usize]);
        }
    }
}

/// When one arm of each diamond almost never runs, cutting those arms beats cutting where all paths
/// meet.
#[test]
fn cold_edges_are_cut_first() {
    let graph = ladder(64);
    let weights: Vec<u64> = graph
        .edges()
        .iter()
        .map(|edge| if edge.from.0 % 3 == 2 || edge.to.is_some_and(|to| to.0 % 3 == 2) { 1 } else { 10_000 })
        .collect();
    let plan = plan(&graph, Truncation::BackEdges, EdgeOrder::Smart(&weights), DEFAULT_MAX_PATHS);
    assert!(!plan.extra_cuts().is_empty());
    assert!(plan.extra_cuts().iter().all(|edge| weights[edge.index()] == 1));
}

#[test]
fn a_limit_below_the_number_of_edges_is_raised_to_it() {
    for n in [3, 5, 50] {
        let graph = ladder(n);
        let [none, raised] = [0, graph.n_edges() as u64]
            .map(|max_paths| plan(&graph, Truncation::BackEdges, EdgeOrder::Classic, max_paths));
        assert_eq!(none, raised);
    }
}

/// Deep, wide and tangled functions: no recursion, no quadratic step.
#[test]
fn extreme_shapes() {
    let n = 100_000;
    let chain: Vec<_> = (0..n).map(|block| (block, (block + 1 < n).then_some(block + 1))).collect();
    let with_exits: Vec<_> = chain.iter().copied().chain((0..n - 1).map(|block| (block, None))).collect();
    let to_last: Vec<_> = chain.iter().copied().chain((0..n - 2).map(|block| (block, Some(n - 1)))).collect();
    let to_first: Vec<_> = chain.iter().copied().chain((1..n).map(|block| (block, Some(0)))).collect();
    let to_self: Vec<_> = chain.iter().copied().chain((0..n).map(|block| (block, Some(block)))).collect();
    let switch: Vec<_> = (1..n).flat_map(|arm| [(0, Some(arm)), (arm, Some(0)), (arm, None)]).collect();
    for edges in [chain, with_exits, to_last, to_first, to_self, switch] {
        let graph = graph(n as usize, &edges, &[0]);
        let weights = estimate_weights(&graph, &Loops::new(&graph, &Order::new(&graph)));
        for truncation in TRUNCATIONS {
            let plan = plan(&graph, truncation, EdgeOrder::Smart(&weights), DEFAULT_MAX_PATHS);
            placements(&plan, &weights);
            assert!(plan.decode(PathId(plan.n_paths() - 1)).is_some());
        }
    }
}
