//! When a profile of values is stable, place by place and as a whole.
//!
//! What matters of a place are its dominant values, as in section 5.3.1 of the paper: those with a
//! tenth of its events or more. Its change is how much of its events are under another dominant
//! value, or under none, than at the last look: from 0 to 1. Looks are made whenever the profile
//! has grown by half, so that what changed little would also change little if it went on as before.
//! A place counts from the number of events that the paper wants.
//!
//! * A place is *known* when it has changed no more than the tolerance at several looks in a row,
//!   between which it has grown by a quarter: a place that does not run does not become known by
//!   that.
//! * The profile is *stable* when the mean change of its places, weighted by their events, was no
//!   more than that. A place that is seen for the first time has changed in all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Convergence, Settings};
use crate::metrics::Relevance;

/// Events before the first look.
const FIRST_LOOK: u64 = 100_000;
/// Values with less of their place are not kept for the next look. Less than what is dominant, so
/// that a value that becomes so was seen before.
const MIN_KEPT_SHARE: f64 = 0.02;

/// A profile that is looked at from time to time; places are told apart by `S`.
#[derive(Clone, Debug)]
pub struct Watch<S> {
    settings: Settings,
    places: BTreeMap<S, Place>,
    whole: Convergence,
    next_look: u64,
}

/// A place at the last look at which it had grown.
#[derive(Clone, Debug)]
struct Place {
    total: u64,
    /// Values and their counts, by value.
    values: Vec<(u64, u64)>,
    change: f64,
    n_stable: u32,
}

/// What a look has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<S> {
    /// Mean change of the places.
    pub change: f64,
    /// Whether the whole profile is stable.
    pub is_stable: bool,
    /// Places that are known since this look.
    pub newly_known: Vec<S>,
}

impl<S: Ord + Copy> Watch<S> {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: Settings) -> Watch<S> {
        Watch { settings, places: BTreeMap::new(), whole: Convergence::new(settings), next_look: FIRST_LOOK }
    }

    /// Whether it is time to look at a profile of so many events.
    #[must_use]
    pub fn is_due(&self, n_events: u64) -> bool {
        n_events >= self.next_look
    }

    /// Looks at the profile: counts of values at places, in any order, each pair of them once.
    pub fn look(&mut self, tuples: &mut [(S, u64, u64)]) -> Finding<S> {
        tuples.sort_unstable();
        let n_events: u64 = tuples.iter().map(|tuple| tuple.2).sum();
        self.next_look = n_events.saturating_add(n_events / 2).max(FIRST_LOOK);
        let mut newly_known = Vec::new();
        let (mut weighted, mut weight) = (0.0, 0.0);
        for of_place in tuples.chunk_by(|before, after| before.0 == after.0) {
            let total: u64 = of_place.iter().map(|tuple| tuple.2).sum();
            let Some(&(place, ..)) = of_place.first().filter(|_| total >= Relevance::PAPER.min_place_count) else {
                continue;
            };
            let n_before = self.places.get(&place).map_or(0, |known| known.n_stable);
            let now = self.look_at(place, of_place, total);
            weighted += now.change * total as f64;
            weight += total as f64;
            let n_stable = now.n_stable;
            if n_before < self.settings.n_stable && n_stable >= self.settings.n_stable {
                newly_known.push(place);
            }
        }
        let change = if weight == 0.0 { 1.0 } else { weighted / weight };
        self.whole.interval(change);
        Finding { change, is_stable: self.whole.is_stable(), newly_known }
    }

    fn look_at(&mut self, place: S, tuples: &[(S, u64, u64)], total: u64) -> &Place {
        let tolerance = self.settings.tolerance;
        let seen = self.places.entry(place).or_insert(Place { total: 0, values: Vec::new(), change: 1.0, n_stable: 0 });
        if total < seen.total.saturating_add(seen.total / 4) {
            return seen;
        }
        if seen.total != 0 {
            seen.change = change_of_place(seen, tuples, total);
            seen.n_stable = if seen.change <= tolerance { seen.n_stable.saturating_add(1) } else { 0 };
        }
        seen.total = total;
        let kept = tuples.iter().filter(|tuple| share(tuple.2, total) >= MIN_KEPT_SHARE);
        seen.values = kept.map(|&(_, value, count)| (value, count)).collect();
        seen
    }
}

/// How much of a place is under another dominant value than before, or under none.
fn change_of_place<S>(before: &Place, now: &[(S, u64, u64)], total: u64) -> f64 {
    let share_before = |value: u64| {
        let found = before.values.binary_search_by_key(&value, |entry| entry.0);
        found.map_or(0.0, |index| share(before.values[index].1, before.total))
    };
    let share_now = |value: u64| {
        let found = now.binary_search_by_key(&value, |tuple| tuple.1);
        found.map_or(0.0, |index| share(now[index].2, total))
    };
    let is_dominant = |share: f64| share >= Relevance::PAPER.min_tuple_share;
    let new = now.iter().filter(|tuple| is_dominant(share(tuple.2, total))).map(|tuple| tuple.1);
    let old = before.values.iter().filter(|entry| is_dominant(share(entry.1, before.total))).map(|entry| entry.0);
    let old = old.filter(|&value| !is_dominant(share_now(value)));
    let (mut differences, mut rest) = (0.0, 0.0);
    for value in new.chain(old) {
        let difference = share_now(value) - share_before(value);
        differences += difference.abs();
        rest += difference;
    }
    (differences + f64::abs(rest)) / 2.0
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const SETTINGS: Settings = Settings { tolerance: 0.01, n_stable: 2, max_rest: 1 };

    #[test]
    fn a_profile_that_only_grows_is_stable() {
        let mut watch = Watch::new(SETTINGS);
        assert!(!watch.is_due(FIRST_LOOK - 1) && watch.is_due(FIRST_LOOK));
        let mut n = 50_000;
        let mut findings = Vec::new();
        for _ in 0..3 {
            findings.push(watch.look(&mut [(2, 9, n / 2), (1, 7, n), (1, 8, n)]));
            assert!(!watch.is_due(3 * n) && watch.is_due(4 * n));
            n *= 2;
        }
        let [first, second, third] = [&findings[0], &findings[1], &findings[2]];
        assert_eq!((first.change, first.is_stable, &first.newly_known), (1.0, false, &vec![]));
        assert_eq!((second.change, second.is_stable, &second.newly_known), (0.0, false, &vec![]));
        assert_eq!((third.change, third.is_stable, &third.newly_known), (0.0, true, &vec![1, 2]));
    }

    #[test]
    fn a_place_that_changes_is_not_known() {
        let mut watch = Watch::new(SETTINGS);
        for ([first, second], expected) in [([100_000, 0], 1.0), ([150_000, 50_000], 0.25), ([200_000, 200_000], 0.25)]
        {
            let finding = watch.look(&mut [(1, 7, first), (1, 8, second)]);
            assert_eq!(finding, Finding { change: expected, is_stable: false, newly_known: vec![] });
        }
    }

    #[test]
    fn a_place_that_does_not_run_does_not_become_known() {
        let mut watch = Watch::new(SETTINGS);
        for n in 1..10 {
            let finding = watch.look(&mut [(1, 7, 5000), (2, 9, 100_000 << n)]);
            assert!(!finding.newly_known.contains(&1));
        }
    }

    #[test]
    fn values_that_all_differ_are_no_change() {
        let mut watch = Watch::new(SETTINGS);
        let mut known = Vec::new();
        for n in [10_000u64, 20_000, 40_000] {
            let mut tuples: Vec<(u8, u64, u64)> = (0..n).map(|value| (1, value, 10)).collect();
            known = watch.look(&mut tuples).newly_known;
        }
        assert_eq!(known, [1]);
    }

    #[test]
    fn rare_places_do_not_count() {
        let mut watch = Watch::new(SETTINGS);
        let finding = watch.look(&mut [(1, 7, 999), (2, 8, 1)]);
        assert_eq!(finding, Finding { change: 1.0, is_stable: false, newly_known: vec![] });
    }

    #[test]
    fn the_change_is_the_share_under_other_values() {
        let before = Place { total: 100, values: vec![(1, 60), (2, 30), (3, 10)], change: 1.0, n_stable: 0 };
        let change = |now: &[((), u64, u64)]| change_of_place(&before, now, now.iter().map(|tuple| tuple.2).sum());
        assert_eq!(change(&[((), 1, 120), ((), 2, 60), ((), 3, 20)]), 0.0);
        assert!((change(&[((), 1, 50), ((), 2, 40), ((), 3, 10)]) - 0.1).abs() < 1e-9);
        // Half of it is under values that are each too rare to be dominant.
        let rare = (10..60).map(|value| ((), value, 1));
        let now: Vec<((), u64, u64)> = [((), 1, 50)].into_iter().chain(rare).collect();
        assert!((change(&now) - 0.5).abs() < 1e-9, "{}", change(&now));
        assert!((change(&[((), 5, 100)]) - 1.0).abs() < 1e-9);
    }
}
