//! Merging is addition by key: neither order nor grouping matters, and nothing is lost.

use fixtures::random::{self, Size};
use profile::model::{Function, Module, ModuleId};
use profile::{Estimate, Merger, Profile, merge, scale};
use proptest::prelude::*;

fn sum(profiles: &[&Profile]) -> Profile {
    let mut merger = Merger::default();
    profiles.iter().for_each(|profile| merger.add(profile));
    merger.finish()
}

/// Every estimate of a profile, table by table.
fn totals(profile: &Profile) -> [Estimate; 10] {
    [
        profile.functions.iter().map(|row| row.entries + row.self_ns).sum(),
        profile.blocks.iter().map(|row| row.count).sum(),
        profile.edges.iter().map(|row| row.count).sum(),
        profile.paths.iter().map(|row| row.count + row.self_ns).sum(),
        profile.calls.iter().map(|row| row.count).sum(),
        profile.contexts.iter().map(|row| row.entries + row.self_ns + row.kernel_ns).sum(),
        profile.recursions.iter().map(|row| row.count).sum(),
        profile.context_paths.iter().map(|row| row.count + row.self_ns).sum(),
        profile.loops.iter().map(|row| row.entries + row.iterations + row.self_ns).sum(),
        profile.system_calls.iter().map(|row| row.kernel_ns).sum(),
    ]
}

proptest! {
    #[test]
    fn order_does_not_matter(a: u64, b: u64) {
        let (a, b) = (random::profile(a, Size::SMALL), random::profile(b, Size::SMALL));
        prop_assert_eq!(sum(&[&a, &b]), sum(&[&b, &a]));
    }

    #[test]
    fn grouping_does_not_matter(a: u64, b: u64, c: u64) {
        let [a, b, c] = [a, b, c].map(|seed| random::profile(seed, Size::SMALL));
        let mut left = a.clone();
        merge(&mut left, &b);
        merge(&mut left, &c);
        let mut right = b.clone();
        merge(&mut right, &c);
        merge(&mut right, &a);
        prop_assert_eq!(&left, &right);
        prop_assert_eq!(left, sum(&[&c, &a, &b]));
    }

    #[test]
    fn nothing_is_lost(a: u64, b: u64) {
        let (a, b) = (random::profile(a, Size::SMALL), random::profile(b, Size::SMALL));
        let merged = sum(&[&a, &b]);
        prop_assert_eq!(merged.verify(), []);
        for ((merged, a), b) in totals(&merged).into_iter().zip(totals(&a)).zip(totals(&b)) {
            prop_assert_eq!(merged, a + b);
        }
        prop_assert_eq!(merged.unobserved_flow, a.unobserved_flow + b.unobserved_flow);
        prop_assert_eq!(merged.ticks["burst"], a.ticks["burst"] + b.ticks["burst"]);
        prop_assert_eq!(merged.unseen_at_most, a.unseen_at_most.max(b.unseen_at_most));
        prop_assert_eq!(merged.scale_error, a.scale_error.max(b.scale_error));
        prop_assert_eq!(merged.mix_error, a.mix_error.max(b.mix_error));
        let n_outcomes = |profile: &Profile| profile.histories.iter().map(|row| row.n_taken + row.n_not_taken).sum::<u64>();
        prop_assert_eq!(n_outcomes(&merged), n_outcomes(&a) + n_outcomes(&b));
        let n_visits = |profile: &Profile| profile.loops.iter().flat_map(|row| &row.trips).sum::<u64>();
        prop_assert_eq!(n_visits(&merged), n_visits(&a) + n_visits(&b));
    }

    #[test]
    fn nothing_is_neutral(a: u64) {
        let a = random::profile(a, Size::SMALL);
        let alone = sum(&[&a]);
        prop_assert_eq!(&alone, &a.sorted());
        prop_assert_eq!(&alone, &alone.sorted());
        prop_assert_eq!(alone, sum(&[&Profile::default(), &a]));
    }

    #[test]
    fn twice_as_much_is_scaled_by_two(a: u64) {
        let a = random::profile(a, Size::SMALL).sorted();
        let (sum, scaled) = (sum(&[&a, &a]), scale(&a, 2.0));
        prop_assert_eq!(sum.edges.len(), scaled.edges.len());
        for (sum, scaled) in sum.edges.iter().zip(&scaled.edges) {
            prop_assert_eq!(sum.count.value, scaled.count.value);
            // Two runs are surer than one counted twice.
            prop_assert_eq!(2.0 * sum.count.variance, scaled.count.variance);
        }
        for (sum, scaled) in totals(&sum).into_iter().zip(totals(&scaled)) {
            prop_assert_eq!(sum.value, scaled.value);
        }
        prop_assert_eq!(sum.threads, scaled.threads);
    }
}

fn function(module: u32, address: u64, name: &str, entries: u64) -> Function {
    Function {
        module: ModuleId(module),
        address,
        size: 16,
        name: name.to_owned(),
        entries: Estimate::exact(entries),
        self_ns: Estimate::default(),
    }
}

#[test]
fn builds_are_told_apart_and_copies_are_not() {
    let module = |path: &str, build_id: &str| Module { path: path.to_owned(), build_id: build_id.to_owned() };
    let one = Profile {
        modules: vec![module("/b/prog", "aa"), module("/x", "")],
        functions: vec![function(0, 16, "", 1), function(1, 16, "x", 10)],
        ..Profile::default()
    };
    let other = Profile {
        modules: vec![module("/x", ""), module("/prog", "bb"), module("/a/prog", "aa")],
        functions: vec![function(2, 16, "main", 2), function(1, 16, "main", 4), function(0, 16, "x", 20)],
        ..Profile::default()
    };
    let merged = sum(&[&one, &other]);
    assert_eq!(merged.modules, [module("/x", ""), module("/a/prog", "aa"), module("/prog", "bb")]);
    let expected = [function(0, 16, "x", 30), function(1, 16, "main", 3), function(2, 16, "main", 4)];
    assert_eq!(merged.functions, expected);
}
