//! Differences beyond the error bars, and none within them.

use fixtures::random::{self, Random};
use profile::diff::FunctionChange;
use profile::model::{CpuTime, Function, ModuleId};
use profile::{Estimate, Profile, diff, query};
use proptest::prelude::*;

use crate::fixture::*;

/// The program with standard errors of a tenth.
fn sampled() -> Profile {
    let mut profile = program();
    let unsure = |estimate: &mut Estimate| estimate.variance = (estimate.value / 10.0).powi(2);
    for row in &mut profile.functions {
        [&mut row.entries, &mut row.self_ns].into_iter().for_each(unsure);
    }
    profile.edges.iter_mut().for_each(|row| unsure(&mut row.count));
    for row in &mut profile.paths {
        [&mut row.count, &mut row.self_ns].into_iter().for_each(unsure);
    }
    for row in &mut profile.loops {
        [&mut row.entries, &mut row.iterations, &mut row.self_ns].into_iter().for_each(unsure);
    }
    profile.unseen_at_most = 3.0;
    profile
}

fn rebuilt(mut profile: Profile) -> Profile {
    profile.modules[0].build_id = "bb".to_owned();
    profile.functions.iter_mut().for_each(|row| row.address += 0x500);
    profile.blocks.iter_mut().for_each(|row| row.address += 0x500);
    profile
}

#[test]
fn the_same_profile_has_not_changed() {
    let changes = diff(&sampled(), &sampled());
    assert_eq!((changes.functions.len(), changes.paths.len(), changes.loops.len()), (3, 4, 1));
    assert_eq!(changes.branches.len(), 2);
    assert!(!changes.cpu_ns.is_significant);
    for row in &changes.functions {
        assert_eq!((row.before, row.share.p_value, row.entries.is_significant), (row.after, 1.0, false));
    }
    assert!(changes.paths.iter().all(|row| !row.share.is_significant && !row.count.is_significant));
}

#[test]
fn a_change_beyond_the_error_bars_is_found_and_one_within_is_not() {
    let mut after = sampled();
    after.functions[LEAF.index()].self_ns.value = 1200.0;
    after.functions[MAIN.index()].entries.value = 1.1;
    let changes = diff(&sampled(), &after);
    let hottest = &changes.functions[0];
    assert_eq!(hottest.after, Some(LEAF));
    assert!(hottest.share.is_significant && 4.0 < hottest.share.z);
    assert!((hottest.share.difference() - (0.6 - 0.2)).abs() < 1e-12);
    let main = changes.functions.iter().find(|row| row.after == Some(MAIN)).unwrap();
    assert!(!main.entries.is_significant);
}

#[test]
fn a_rebuilt_program_is_matched_by_name() {
    let changes = diff(&sampled(), &rebuilt(sampled()));
    assert_eq!(changes.functions.len(), 3);
    assert!(changes.functions.iter().all(|row| row.before == row.after && row.share.p_value == 1.0));
    // Sizes are the same, so that blocks are compared by their place in the function.
    assert_eq!((changes.paths.len(), changes.branches.len(), changes.loops.len()), (4, 2, 1));
}

#[test]
fn functions_of_another_size_are_not_compared_inside() {
    let mut after = rebuilt(sampled());
    after.functions[WORK.index()].size += 16;
    let changes = diff(&sampled(), &after);
    assert_eq!(changes.functions.len(), 3);
    assert_eq!((changes.paths.len(), changes.branches.len(), changes.loops.len()), (0, 0, 0));
}

#[test]
fn functions_of_one_name_are_taken_together() {
    let mut before = sampled();
    before.functions[LEAF.index()].name = "work".to_owned();
    let changes = diff(&before, &rebuilt(before.clone()));
    assert_eq!(changes.functions.len(), 2);
    assert_eq!(changes.functions.iter().map(|row| row.share.before.value).fold(0.0, f64::max), 0.8);
    assert_eq!(changes.paths.len(), 0);
}

#[test]
fn a_flipped_branch_is_found() {
    let mut after = sampled();
    (after.edges[1].count, after.edges[2].count) = (after.edges[2].count, after.edges[1].count);
    let changes = diff(&sampled(), &after);
    assert_eq!((changes.branches[0].before, changes.branches[0].after), (W0, W0));
    assert!(changes.branches[0].bias.is_significant);
    assert!((changes.branches[0].bias.difference() + 0.4).abs() < 1e-12);
    assert!(!changes.branches[1].bias.is_significant);
}

#[test]
fn what_was_not_seen_may_have_happened() {
    let mut after = sampled();
    after.paths.remove(3);
    let changes = diff(&sampled(), &after);
    let gone = changes.paths.iter().find(|row| row.after.is_none()).unwrap();
    assert_eq!(gone.count.before.value, 3.0);
    assert!(!gone.count.is_significant, "3 before, at most 3 after");
    let exact = diff(&program(), &Profile { unseen_at_most: 0.0, paths: Vec::new(), ..program() });
    assert!(exact.paths.iter().all(|row| row.count.is_significant));
}

/// The sum of twelve uniform numbers is nearly normal.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| f64::from(random.below(1 << 20)) / f64::from(1 << 20)).sum::<f64>() - 6.0
}

/// 500 functions measured with known errors; the first `n_changed` of the second run are half as
/// slow again.
fn measured(random: &mut Random, n_changed: usize) -> Profile {
    let mut profile = Profile { modules: vec![profile::model::Module::default()], ..Profile::default() };
    for number in 0..500 {
        let truth = 1000.0 * if number < n_changed { 1.5 } else { 1.0 };
        let value = truth + 50.0 * normal(random);
        profile.functions.push(Function {
            module: ModuleId(0),
            address: number as u64,
            size: 1,
            name: format!("f{number}"),
            entries: Estimate { value, variance: 2500.0, seen: 100 },
            self_ns: Estimate::default(),
        });
    }
    profile
}

#[test]
fn few_significant_changes_are_chance() {
    let mut random = Random(1);
    for _ in 0..20 {
        let changes = diff(&measured(&mut random, 0), &measured(&mut random, 50));
        let is_real = |row: &&FunctionChange| row.before.is_some_and(|id| id.0 < 50);
        let (real, chance): (Vec<_>, Vec<_>) =
            changes.functions.iter().filter(|row| row.entries.is_significant).partition(is_real);
        // Seven standard errors are not missed. Of 450 others, 22 would pass p < 5 %; about 50 /
        // 0.95 * 0.05 = 3 are expected here.
        assert_eq!(real.len(), 50);
        assert!(chance.len() <= 12, "{}", chance.len());
    }
}

proptest! {
    #[test]
    fn any_two_profiles_can_be_compared(a: u64, b: u64) {
        let [a, b] = [a, b].map(|seed| random::profile(seed, random::Size::SMALL));
        let changes = diff(&a, &b);
        let shares = changes.functions.iter().map(|row| row.share).chain(changes.paths.iter().map(|row| row.share));
        for change in shares {
            prop_assert!((0.0..=1.0).contains(&change.p_value));
            prop_assert!(!change.z.is_nan());
        }
    }
}

/// A total that is known exactly makes nothing else surer: neither that a function of two ticks is
/// gone, nor that a run of a few percent more CPU time is slower.
#[test]
fn the_kernels_account_is_no_sample() {
    let measured = |ns: f64| {
        let mut profile = sampled();
        for row in &mut profile.functions {
            // Of 50 ticks in all.
            row.self_ns.seen = (row.self_ns.value / 20.0) as u64;
        }
        query::account(&mut profile, CpuTime { user_ns: ns, system_ns: 100.0 }, true);
        profile
    };
    let (mut before, mut after) = (measured(900.0), measured(950.0));
    before.functions[LEAF.index()].self_ns = Estimate { value: 40.0, variance: 800.0, seen: 2 };
    after.functions[LEAF.index()].self_ns = Estimate::default();
    let changes = diff(&before, &after);
    assert!(!changes.cpu_ns.is_significant, "{:?}", changes.cpu_ns);
    let leaf = changes.functions.iter().find(|row| row.before == Some(LEAF)).unwrap();
    assert!(!leaf.share.is_significant, "{:?}", leaf.share);
}
