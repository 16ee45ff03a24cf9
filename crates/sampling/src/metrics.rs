//! How good a profile is, and what its messages cost: sections 5.3.1 and 5.3.2 of the paper.
//!
//! A profile is a count for each tuple, in two slices with the same order: what really occurred,
//! and what messages said. A third slice has the place of each tuple (the load, the branch, the
//! call site) as a number below the number of places.

use alloc::vec;
use alloc::vec::Vec;

/// Cycles that software needs for a message, by the paper's estimate.
pub const CYCLES_PER_MESSAGE: u64 = 30;

/// Which tuples an optimizer would look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relevance {
    /// Least occurrences of a place.
    pub min_place_count: u64,
    /// Least share of a tuple in its place.
    pub min_tuple_share: f64,
    /// Least share of a place that such tuples make up together.
    pub min_place_share: f64,
}

impl Relevance {
    /// The paper's: 1000 occurrences, 10 %, 40 %.
    pub const PAPER: Relevance = Relevance { min_place_count: 1000, min_tuple_share: 0.1, min_place_share: 0.4 };
}

/// The difference between a profile and the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvarianceError {
    /// Mean of |exact share - estimated share| over the relevant tuples, weighted by their exact
    /// counts.
    pub mean: f64,
    /// Relevant tuples.
    pub n_tuples: usize,
    /// Their occurrences.
    pub n_occurrences: u64,
}

/// The error of estimated invariances: how much of each place a tuple makes up. `None` if no tuple
/// is relevant.
///
/// A place that the estimate has never seen has all its invariances estimated as 0. Counts beyond
/// the shortest slice are ignored.
#[must_use]
pub fn invariance_error(
    place_of_tuple: &[u32],
    exact: &[u64],
    estimate: &[u64],
    relevance: Relevance,
) -> Option<InvarianceError> {
    let exact_places = sum_by_place(place_of_tuple, exact);
    let estimate_places = sum_by_place(place_of_tuple, estimate);
    let is_dominant = |place: usize, count: u64| {
        exact_places[place] >= relevance.min_place_count
            && share(count, exact_places[place]) >= relevance.min_tuple_share
    };
    let tuples = || place_of_tuple.iter().map(|&place| place as usize).zip(exact.iter().copied().zip(estimate));
    let mut dominated = vec![0u64; exact_places.len()];
    for (place, (count, _)) in tuples().filter(|&(place, (count, _))| is_dominant(place, count)) {
        dominated[place] += count;
    }
    let (mut weighted, mut n_tuples, mut n_occurrences) = (0.0, 0, 0);
    for (place, (count, &estimate)) in tuples().filter(|&(place, (count, _))| is_dominant(place, count)) {
        if share(dominated[place], exact_places[place]) >= relevance.min_place_share {
            let difference = share(count, exact_places[place]) - share(estimate, estimate_places[place]);
            weighted += difference.abs() * count as f64;
            n_tuples += 1;
            n_occurrences += count;
        }
    }
    (n_tuples > 0).then(|| InvarianceError { mean: weighted / n_occurrences as f64, n_tuples, n_occurrences })
}

/// The share of a program's cycles that software spends on messages.
#[must_use]
pub fn message_overhead(n_messages: u64, program_cycles: u64) -> f64 {
    (n_messages * CYCLES_PER_MESSAGE) as f64 / program_cycles as f64
}

fn sum_by_place(place_of_tuple: &[u32], counts: &[u64]) -> Vec<u64> {
    let n_places = place_of_tuple.iter().max().map_or(0, |&most| most as usize + 1);
    let mut sums = vec![0; n_places];
    for (&place, &count) in place_of_tuple.iter().zip(counts) {
        sums[place as usize] += count;
    }
    sums
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Place 0 is relevant, 1 too rare, 2 too varied.
    const PLACES: &[u32] = &[0, 0, 0, 1, 2, 2, 2, 2];
    const EXACT: &[u64] = &[1500, 450, 50, 999, 900, 300, 900, 900];

    #[test]
    fn a_profile_in_proportion_has_no_error() {
        let estimate: Vec<u64> = EXACT.iter().map(|count| count / 50).collect();
        let error = invariance_error(PLACES, EXACT, &estimate, Relevance::PAPER).unwrap();
        assert_eq!((error.mean, error.n_tuples, error.n_occurrences), (0.0, 6, 1500 + 450 + 3000));
    }

    #[test]
    fn errors_are_weighted_by_occurrences() {
        // Exactly 0.75 and 0.225 of place 0, estimated 0.5 and 0.5.
        let estimate = [100, 100, 0, 0, 0, 0, 0, 0];
        let only_place_0 = Relevance { min_place_share: 0.9, min_tuple_share: 0.2, ..Relevance::PAPER };
        let exact = [1500, 450, 50, 999, 900, 300, 900, 2];
        let error = invariance_error(&PLACES[..3], &exact[..3], &estimate[..3], only_place_0).unwrap();
        let expected = (0.25 * 1500.0 + 0.275 * 450.0) / 1950.0;
        assert!((error.mean - expected).abs() < 1e-12, "{error:?}");
    }

    #[test]
    fn an_unseen_place_is_all_error() {
        let error = invariance_error(&[0], &[5000], &[0], Relevance::PAPER).unwrap();
        assert_eq!((error.mean, error.n_tuples), (1.0, 1));
    }

    #[test]
    fn nothing_relevant_is_no_error_of_zero() {
        assert_eq!(invariance_error(&[1], &[999], &[999], Relevance::PAPER), None);
        let spread: Vec<u64> = vec![100; 100];
        assert_eq!(invariance_error(&[0; 100], &spread, &spread, Relevance::PAPER), None);
        assert_eq!(invariance_error(&[], &[], &[], Relevance::PAPER), None);
    }

    #[test]
    fn a_message_costs_30_cycles() {
        assert_eq!(message_overhead(100, 100_000), 0.03);
    }
}
