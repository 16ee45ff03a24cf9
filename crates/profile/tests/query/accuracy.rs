//! The accuracy of a sampled profile, computed by hand. Its rows are in another order than those of
//! the exact one.

use fixtures::random;
use profile::accuracy::compare;
use profile::{Estimate, Profile, scale};
use proptest::prelude::*;

use crate::fixture::*;

/// A tenth of the program, with errors: half of `w0 -> w2` is missing, `w2` was never sampled, the
/// rarest paths neither.
fn sampled() -> Profile {
    let mut profile = program();
    profile.modules.insert(0, profile::model::Module { path: "/lib/other".to_owned(), ..Default::default() });
    profile.functions.iter_mut().for_each(|row| row.module.0 += 1);
    let set = |estimate: &mut Estimate, value: f64| estimate.value = value;
    for (edge, value) in [1.0, 3.0, 3.5, 3.0, 0.0, 0.0].into_iter().enumerate() {
        set(&mut profile.edges[edge].count, value);
    }
    for (path, value) in [6.3, 0.1, 0.7, 0.0].into_iter().enumerate() {
        set(&mut profile.paths[path].count, value);
    }
    for (block, value) in [1.0, 1.0, 6.5, 3.0, 8.5, 0.0, 0.0].into_iter().enumerate() {
        set(&mut profile.blocks[block].count, value);
    }
    for (context, value) in [0.5, 0.25, 0.25].into_iter().enumerate() {
        set(&mut profile.contexts[context].entries, value);
    }
    profile.edges.reverse();
    profile.paths.reverse();
    profile.calls.remove(0);
    profile
}

fn assert_near(value: impl Into<Option<f64>>, expected: f64) {
    let value = value.into().expect("a figure");
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn each_metric_by_hand() {
    let accuracy = compare(&program(), &sampled());
    // Shares of edges: 10, 30, 70, 30, 90, 10 of 240 against 1, 3, 3.5, 3, 0, 0 of 10.5.
    let edges = 10.0 / 240.0 + 30.0 / 240.0 + 70.0 / 240.0 + 30.0 / 240.0;
    assert_near(accuracy.edge_overlap, edges);
    // Blocks: 10, 10, 100, 30, 100, 10, 5 of 265 against 1, 1, 6.5, 3, 8.5, 0, 0 of 20.
    assert_near(accuracy.block_overlap, 10.0 / 265.0 * 2.0 + 6.5 / 20.0 + 30.0 / 265.0 + 100.0 / 265.0);
    // Calls: 10, 5, 2 of 17 against 0, 5, 2 of 7.
    assert_near(accuracy.call_overlap, 7.0 / 17.0);
    // Entries of contexts: 1, 10, 5 of 16 against 1/2, 1/4, 1/4.
    assert_near(accuracy.context_overlap, 1.0 / 16.0 + 0.25 + 0.25);
    assert_near(accuracy.context_time_overlap, 1.0);
    // Paths: 63, 27, 7, 3 of 100 against 6.3, 0.1, 0.7, 0 of 7.1.
    assert_near(accuracy.path_overlap, 0.63 + 0.1 / 7.1 + 0.07);
    // Bias of w0: 0.7 against 3.5 / 6.5; of w2: 0.9 against 0.5, since it was not sampled. Both ran
    // 100 times.
    assert_near(accuracy.relative_overlap, (2.0 - (0.7 - 3.5 / 6.5) - 0.4) / 2.0);
    // All four paths are hot (3 % at least), three were sampled: 126 + 54 + 14 of 200.
    assert_near(accuracy.wall_weight, 194.0 / 200.0);
    // Branches w0 and w2: 100 each against 6.5 and 8.5, scaled by 200 / 15.
    assert_near(accuracy.branches.element_wise, (100.0 / 7.5) / 100.0);
    // Methods: 1, 12 + 90, 5 against 1, 12, 5 scaled by 108 / 18.
    assert_near(accuracy.methods.element_wise, (5.0 + 30.0 + 25.0) / 108.0);
    assert_near(accuracy.methods.hot, 0.0);
    // Calls: 10, 5, 2 against 0, 5, 2 scaled by 17 / 7; the hottest is missing.
    assert_near(accuracy.calls.element_wise, (10.0 + (85.0 / 7.0 - 5.0) + (34.0 / 7.0 - 2.0)) / 17.0);
    assert_near(accuracy.calls.hot, 1.0);
}

#[test]
fn paths_without_branches_have_no_flow() {
    let mut exact = program();
    exact.paths[0].n_branches = 0;
    let mut sampled = exact.clone();
    sampled.paths.remove(0);
    assert_near(compare(&exact, &sampled).wall_weight, 1.0);
}

#[test]
fn there_is_no_figure_without_something_to_judge_by() {
    let mut exact = program();
    exact.paths.clear();
    exact.contexts.iter_mut().for_each(|row| row.self_ns.value = 0.0);
    let accuracy = compare(&exact, &sampled());
    assert_eq!((accuracy.path_overlap, accuracy.wall_weight, accuracy.context_time_overlap), (None, None, None));
    assert!(accuracy.context_overlap.is_some() && accuracy.edge_overlap.is_some());
}

proptest! {
    #[test]
    fn a_profile_agrees_with_itself_at_any_scale_and_order(seed: u64) {
        let profile = random::profile(seed, random::Size::SMALL);
        let accuracy = compare(&profile, &scale(&profile.sorted(), 0.25));
        for overlap in [
            accuracy.block_overlap,
            accuracy.edge_overlap,
            accuracy.call_overlap,
            accuracy.context_overlap,
            accuracy.context_time_overlap,
            accuracy.path_overlap,
            accuracy.relative_overlap,
            accuracy.wall_weight,
        ] {
            prop_assert!(overlap.is_none_or(|overlap| (overlap - 1.0).abs() < 1e-9));
        }
        for errors in [accuracy.branches, accuracy.methods, accuracy.calls] {
            prop_assert!(errors.element_wise < 1e-9 && errors.hot == 0.0);
        }
    }

    #[test]
    fn metrics_stay_in_range(a: u64, b: u64) {
        let [a, b] = [a, b].map(|seed| random::profile(seed, random::Size::SMALL));
        let accuracy = compare(&a, &b);
        for overlap in [accuracy.edge_overlap, accuracy.path_overlap, accuracy.relative_overlap, accuracy.wall_weight] {
            prop_assert!(overlap.is_none_or(|overlap| (0.0..=1.0 + 1e-9).contains(&overlap)));
        }
        prop_assert!((0.0..=2.0 + 1e-9).contains(&accuracy.branches.element_wise));
        prop_assert!((0.0..=1.0).contains(&accuracy.branches.hot));
    }
}
