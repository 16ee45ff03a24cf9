//! What queries say about a small program, computed by hand.

use profile::model::{
    BlockEnd, BlockId, Call, Context, ContextId, ContextPath, Edge, EdgeId, EdgeKind, LoopId, PathId, ThreadId,
};
use profile::query::{self, CallSites, Class, Classes, ContextOptions, Metric, PathRank, TreeStatistics};
use profile::{Estimate, Profile};

use crate::fixture::*;

#[test]
fn the_fixture_is_sound() {
    assert_eq!(program().verify(), []);
}

#[test]
fn totals_split_user_and_kernel() {
    let totals = query::totals(&program());
    assert_eq!((totals.user_ns.value, totals.kernel_ns.value, totals.cpu_ns.value), (900.0, 100.0, 1000.0));
}

#[test]
fn functions_have_their_own_time_and_that_of_callees() {
    let rows = query::functions(&program());
    let seen: Vec<_> = rows.iter().map(|row| (row.function, row.self_share.value, row.total_share.value)).collect();
    assert_eq!(seen, [(WORK, 0.6, 0.85), (LEAF, 0.2, 0.25), (MAIN, 0.1, 1.0)]);
    assert_eq!(rows[1].kernel_ns.value, 50.0);
}

#[test]
fn paths_are_ranked_by_time_and_by_flow() {
    let by_time = query::paths(&program(), None, PathRank::Time);
    let order: Vec<_> = by_time.iter().map(|row| row.path).collect();
    assert_eq!(order, [PathId(0), PathId(1), PathId(3), PathId(2)]);
    let by_flow = query::paths(&program(), Some(WORK), PathRank::Flow);
    let flows: Vec<_> = by_flow.iter().map(|row| (row.path, row.flow.value, row.share_of_function.value)).collect();
    let expected = [(PathId(0), 126.0, 0.63), (PathId(1), 54.0, 0.27), (PathId(2), 14.0, 0.07), (PathId(3), 6.0, 0.03)];
    assert_eq!(flows, expected);
    assert_eq!((by_flow[0].time_share.value, by_flow[0].flow_share.value), (0.3, 0.63));
    assert_eq!(query::paths(&program(), Some(MAIN), PathRank::Time), []);
}

#[test]
fn paths_are_hot_and_dense_by_their_share_of_a_metric() {
    // 100 paths with 600 instructions: 63 with 5 each, 27 with 7, 7 with 9, and 3 with 11, which
    // are cold.
    let found = query::hotness(&program(), Metric::Executions, 0.05);
    let class = |n, instructions, metric| Class { n, n_paths: n, instructions, metric };
    let expected = Classes {
        all: class(4, 600.0, 100.0),
        hot: class(3, 567.0, 97.0),
        cold: class(1, 33.0, 3.0),
        dense: class(1, 315.0, 63.0),
        sparse: class(2, 252.0, 34.0),
    };
    assert_eq!(found.paths, expected);
    let order: Vec<_> = found.hot_paths.iter().map(|row| row.path).collect();
    assert_eq!(order, [PathId(0), PathId(1), PathId(2)]);
    assert_eq!((found.functions.dense.n, found.functions.dense.n_paths, found.functions.cold.n), (1, 4, 0));
    assert_eq!(found.paths_through_hot_block, 3.0);
    let by_time = query::hotness(&program(), Metric::Time, 0.04);
    assert_eq!((by_time.metric, by_time.paths.hot.n, by_time.paths.dense.n), (600.0, 3, 1));
    let by_instructions = query::hotness(&program(), Metric::Instructions, 0.1);
    assert_eq!((by_instructions.metric, by_instructions.paths.hot.n, by_instructions.paths.sparse.n), (600.0, 3, 0));
    let by_branches = query::hotness(&program(), Metric::Branches, 0.1);
    assert_eq!((by_branches.metric, by_branches.paths.hot.n), (200.0, 2));
    assert_eq!(query::hotness(&Profile::default(), Metric::Time, 0.01).paths, Classes::default());
}

fn context_path(path: u32) -> ContextPath {
    let (count, self_ns) = (Estimate::exact(3), Estimate::default());
    ContextPath { context: ContextId(1), path: PathId(path), count, self_ns, misses: 0 }
}

#[test]
fn a_path_is_hot_in_a_context() {
    let mut profile = program();
    // The same path in the context of its function, and in another one of it.
    profile.contexts.push(Context { parent: None, ..profile.contexts[1].clone() });
    let (dear, cheap) = (context_path(1), ContextPath { context: ContextId(3), ..context_path(1) });
    profile.context_paths = vec![ContextPath { misses: 90, ..dear }, ContextPath { misses: 10, ..cheap }];
    profile.paths[1].misses = 100;
    let found = query::hotness_by_context(&profile, Metric::Misses, 0.5);
    assert_eq!((found.metric, found.paths.all.n, found.paths.hot.n, found.paths.cold.metric), (100.0, 2, 1, 10.0));
    assert_eq!((found.hot_paths[0].path, found.hot_paths[0].context), (PathId(1), Some(ContextId(1))));
    let (apart, together) = (found, query::hotness(&profile, Metric::Misses, 0.5));
    assert_eq!((together.hot_paths[0].metric, together.hot_paths[0].context), (100.0, None));
    assert_eq!(apart.functions, together.functions);
    assert_eq!(apart.paths_through_hot_block, together.paths_through_hot_block);
}

#[test]
fn the_tree_has_a_shape() {
    let profile = Profile { context_paths: vec![context_path(1)], ..program() };
    assert_eq!(profile.verify(), []);
    let found = query::tree_statistics(&profile, Metric::Executions, 0.5);
    let expected = TreeStatistics {
        n_nodes: 3,
        n_roots: 1,
        n_leaves: 1,
        n_functions: 3,
        n_back_edges: 1,
        mean_degree: 1.0,
        mean_height: 3.0,
        max_height: 3,
        max_replication: 1,
        most_replicated: Some(MAIN),
        call_sites: Some(CallSites { n_used: 1, n_on_one_path: 1 }),
        metric: 16.0,
        n_hot: 1,
        hot_metric: 10.0,
    };
    assert_eq!(found, expected);
    let on_two = Profile { context_paths: vec![context_path(1), context_path(3)], ..program() };
    let found = query::tree_statistics(&on_two, Metric::Executions, 0.5);
    assert_eq!(found.call_sites, Some(CallSites { n_used: 1, n_on_one_path: 0 }));
    assert_eq!(query::tree_statistics(&Profile::default(), Metric::Time, 0.5), TreeStatistics::default());
    assert_eq!(query::tree_statistics(&on_two, Metric::Instructions, 0.5).metric, 3.0 * (7.0 + 11.0));
    let contexts = query::contexts_of_paths(&on_two, &[PathId(3), PathId(0)]);
    assert_eq!(contexts, [vec![&context_path(3)], vec![]]);
}

#[test]
fn edges_have_probabilities() {
    let rows = query::edges(&program(), Some(WORK));
    let seen: Vec<_> = rows.iter().map(|row| (row.edge, row.probability.value)).collect();
    let expected = [(EdgeId(4), 0.9), (EdgeId(2), 0.7), (EdgeId(1), 0.3), (EdgeId(3), 1.0), (EdgeId(5), 0.1)];
    assert_eq!(seen, expected);
    assert_eq!(rows[0].share.value, 90.0 / 240.0);
}

#[test]
fn regions_have_the_instructions_since_the_branch_before() {
    let rows = query::regions(&program(), None);
    let seen: Vec<_> = rows.iter().map(|row| (row.block, row.count.value, row.n_insns)).collect();
    // To w2 control comes from the branch in w0, or with the two instructions of w1 in 30 of 100
    // cases.
    assert_eq!(seen, [(W0, 100.0, 4.0), (W2, 100.0, 1.6)]);
    assert_eq!(query::regions(&program(), Some(MAIN)), []);
}

#[test]
fn a_cycle_without_branches_holds_nobody_up() {
    let mut profile = program();
    profile.blocks[M0.index()].end = BlockEnd::Jump;
    profile.edges.push(Edge { from: M1, to: M0, kind: EdgeKind::Taken, is_back: true, count: Estimate::exact(3) });
    assert_eq!(query::regions(&profile, None), query::regions(&program(), None));
}

#[test]
fn branches_have_bias_and_entropy() {
    let rows = query::branches(&program(), None);
    let seen: Vec<_> = rows.iter().map(|row| (row.block, row.bias.value)).collect();
    assert_eq!(seen, [(W0, 0.7), (W2, 0.9)]);
    assert!((rows[0].entropy_bits - 0.881_290_899).abs() < 1e-9);
    // After history 0 the outcome is sure, after history 1 it is open: (8 * 0 + 8 * 1) / 16.
    assert_eq!((rows[0].conditional_entropy_bits, rows[0].n_outcomes), (Some(0.5), 16));
    assert_eq!((rows[1].conditional_entropy_bits, rows[1].n_outcomes), (None, 0));
}

#[test]
fn a_branch_that_leaves_the_function_is_taken() {
    let mut profile = program();
    profile.blocks[L0.index()].end = BlockEnd::Branch;
    profile.calls[2] = Call { site: L0, callee: WORK, is_tail: true, count: Estimate::exact(2) };
    let rows = query::branches(&profile, Some(LEAF));
    assert_eq!((rows[0].taken.value, rows[0].bias.value, rows[0].entropy_bits), (2.0, 1.0, 0.0));
}

#[test]
fn loops_have_trips_and_cost() {
    let rows = query::loops(&program(), None);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.id, row.depth, row.mean_trips.map(|trips| trips.value)), (LoopId(0), 0, Some(10.0)));
    assert_eq!(row.ns_per_iteration.map(|ns| ns.value), Some(4.5));
    assert_eq!((row.share.value, row.share_of_function.value), (0.45, 0.75));
    assert_eq!(query::loops(&program(), Some(LEAF)), []);
}

#[test]
fn calls_know_their_neighbours() {
    let rows = query::calls(&program());
    let seen: Vec<_> = rows.iter().map(|row| (row.caller, row.callee, row.count.value)).collect();
    assert_eq!(seen, [(MAIN, WORK, 10.0), (WORK, LEAF, 5.0), (LEAF, WORK, 2.0)]);
    assert_eq!(rows[0].share_of_callee.value, 10.0 / 12.0);
    let around = query::neighbours(&program(), WORK);
    let seen = |rows: &[query::Neighbour]| {
        rows.iter().map(|row| (row.function, row.count.value, row.total_ns.value)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&around.callers), [(MAIN, 10.0, 850.0), (LEAF, 2.0, 0.0)]);
    assert_eq!(seen(&around.callees), [(LEAF, 5.0, 250.0)]);
}

#[test]
fn the_context_tree_is_pruned_by_share() {
    let all = query::context_tree(&program(), ContextOptions { min_share: 0.0, root: None });
    let seen: Vec<_> = all.iter().map(|node| (node.context, node.depth, node.total_ns.value)).collect();
    assert_eq!(seen, [(ContextId(0), 0, 1000.0), (ContextId(1), 1, 850.0), (ContextId(2), 2, 250.0)]);
    let large = query::context_tree(&program(), ContextOptions { min_share: 0.3, root: None });
    assert_eq!(large.len(), 2);
    assert_eq!((large[1].n_pruned, large[1].pruned_ns.value), (1, 250.0));
    let below = query::context_tree(&program(), ContextOptions { min_share: 0.0, root: Some(LEAF) });
    assert_eq!(below.iter().map(|node| (node.context, node.depth)).collect::<Vec<_>>(), [(ContextId(2), 0)]);
}

#[test]
fn methods_count_entries_and_back_edges() {
    let rows = query::methods(&program());
    let seen: Vec<_> = rows.iter().map(|row| (row.function, row.count.value)).collect();
    assert_eq!(seen, [(WORK, 102.0), (LEAF, 5.0), (MAIN, 1.0)]);
}

#[test]
fn a_function_in_detail() {
    let detail = query::function_detail(&program(), WORK);
    assert_eq!(detail.hottest_path, Some(PathId(0)));
    let on_path = |row: &query::BlockDetail| (row.block, row.is_on_hottest_path);
    let seen: Vec<(BlockId, bool)> = detail.blocks.iter().map(on_path).collect();
    assert_eq!(seen, [(W0, true), (W1, false), (W2, true), (W3, false)]);
    assert_eq!(detail.blocks[0].edges, [EdgeId(2), EdgeId(1)]);
    assert_eq!(detail.blocks.iter().map(|row| row.self_ns.value).collect::<Vec<_>>(), [350.0, 110.0, 90.0, 50.0]);
}

#[test]
fn system_calls_are_summed_by_site() {
    let rows = query::system_call_sites(&program());
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].n_contexts, rows[0].kernel_ns.value, rows[0].share.value), (2, 100.0, 0.1));
    assert_eq!(query::threads(&program()), [ThreadId(1), ThreadId(0)]);
}
