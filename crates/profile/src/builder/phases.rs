//! Strata that are of one phase of the program.
//!
//! Bursts run through many regions of the code. Where two strata see the same regions in the same
//! shares, their bursts are samples of the same code, wherever they began. Such strata form a
//! **phase**. Similarity is the sum of `sqrt(p_r q_r)` over regions `r`, with the shares `p`, `q`
//! of the checks that each has seen in `r`: 1 if they are alike, 0 if they have nothing in common
//! (Bhattacharyya).
//!
//! Strata are taken in order of their bursts; each joins the phase that is most similar to it so
//! far, or begins one.

use std::collections::BTreeMap;

/// A phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PhaseId(usize);

impl PhaseId {
    pub fn index(self) -> usize {
        self.0
    }
}

/// The number of phases.
pub(super) fn count(phases: &[PhaseId]) -> usize {
    phases.iter().map(|phase| phase.0 + 1).max().unwrap_or(0)
}

/// Similarity from which on strata belong together.
const ALIKE: f64 = 0.5;
/// Further strata join what is most similar.
const MAX_PHASES: usize = 256;

/// The phase of each stratum, from the checks that its bursts saw by region.
pub(super) fn find(checks: &[Vec<(usize, f64)>], n_bursts: &[f64]) -> Vec<PhaseId> {
    let mut order: Vec<usize> = (0..checks.len()).collect();
    order.sort_by(|&a, &b| n_bursts[b].total_cmp(&n_bursts[a]));
    let mut sums: Vec<Sum> = Vec::new();
    let mut phases = vec![PhaseId(0); checks.len()];
    for stratum in order {
        let row = Sum::of(&checks[stratum]);
        let nearest = sums.iter().map(|sum| sum.similarity(&row)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let phase = match nearest {
            Some((phase, similarity)) if similarity >= ALIKE || sums.len() >= MAX_PHASES => phase,
            _ => {
                sums.push(Sum::default());
                sums.len() - 1
            }
        };
        sums[phase].add(&row);
        phases[stratum] = PhaseId(phase);
    }
    phases
}

/// Checks by region.
#[derive(Debug, Default)]
struct Sum {
    by_region: BTreeMap<usize, f64>,
    total: f64,
}

impl Sum {
    fn of(row: &[(usize, f64)]) -> Sum {
        Sum { by_region: row.iter().copied().collect(), total: row.iter().map(|&(_, count)| count).sum() }
    }

    fn add(&mut self, row: &Sum) {
        row.by_region.iter().for_each(|(&region, count)| *self.by_region.entry(region).or_default() += count);
        self.total += row.total;
    }

    fn similarity(&self, row: &Sum) -> f64 {
        let common = row.by_region.iter().filter_map(|(region, count)| Some(count * self.by_region.get(region)?));
        let both = self.total * row.total;
        if both > 0.0 { common.map(f64::sqrt).sum::<f64>() / both.sqrt() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strata_that_see_the_same_code_are_of_one_phase() {
        let checks = [
            vec![(0, 50.0), (1, 50.0)],
            vec![(2, 90.0), (3, 10.0)],
            vec![(0, 5.0), (1, 7.0), (4, 1.0)],
            vec![(3, 1.0), (2, 12.0)],
            vec![],
        ];
        let found: Vec<usize> = find(&checks, &[10.0, 9.0, 2.0, 1.0, 1.0]).iter().map(|phase| phase.index()).collect();
        assert_eq!(found, [0, 1, 0, 1, 2]);
        assert_eq!(count(&find(&checks, &[1.0; 5])), 3);
        assert_eq!(count(&[]), 0);
    }
}
