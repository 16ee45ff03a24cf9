//! Times of blocks against another sampler of many more samples.
//!
//! What blocks take cannot be known, but a timer that looks 4,000 times in a second tells it to a
//! fraction of what strobe's hundred ticks can. Three runs of `perf record` are the reference. How
//! much of strobe's shares of time overlaps with it is compared with what other runs of perf reach
//! that are thinned out to as many samples as strobe had ticks: what is lacking of that is not
//! chance.
//!
//! **Addresses.** A sample's address is that of the next instruction, on either side: the one that
//! the processor waited for is before it. perf's samples belong to the block of their address, in
//! the reference as in the thinned runs. strobe gives ticks at the first address of a block to the
//! block before it, so that it can only agree with a reference that does the same in as far as
//! samples are not there; how many are is stated, and overlaps of whole functions hardly depend on
//! it. The reference is left as it is.
//!
//! Runs of the three kinds take turns, so that whatever else the machine does is the same for all.

mod perf;
mod places;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::accuracy::{Bench, Setting};
use crate::corpus::Workload;
use crate::machine;
use crate::resample::mean;
pub use places::{Place, Places, Times};
use recorder::Threads;

/// Runs that are the reference.
const N_REFERENCE: usize = 3;
/// Thinned runs are drawn so often.
const N_DRAWS: u64 = 20;

/// One program. Overlaps are shares of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The program.
    pub program: String,
    /// Samples of the reference.
    pub n_reference: usize,
    /// By recording: ticks in user code, and how times overlap with the reference.
    pub strobe: Vec<Overlapped>,
    /// By other run of perf: the same for as many of its samples as the recording beside it had
    /// ticks, on the mean of draws.
    pub perf: Vec<Overlapped>,
    /// Overlap of blocks for other runs of perf with all their samples, on the mean.
    pub all_samples: f64,
    /// Share of the reference at first addresses of blocks.
    pub at_starts: f64,
    /// Share of the reference, and of strobe's times, that is in no block.
    pub in_no_block: (f64, f64),
    /// Load of the machine afterwards.
    pub load: Option<f64>,
}

/// Times against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overlapped {
    /// Ticks or samples.
    pub n: usize,
    /// Overlap of blocks.
    pub blocks: f64,
    /// Overlap of functions.
    pub functions: f64,
}

impl Compared {
    /// Means of recordings and of other runs.
    #[must_use]
    pub fn blocks(&self) -> (f64, f64) {
        let mean_of = |all: &[Overlapped]| mean(&all.iter().map(|one| one.blocks).collect::<Vec<_>>());
        (mean_of(&self.strobe), mean_of(&self.perf))
    }

    /// The same for functions.
    #[must_use]
    pub fn functions(&self) -> (f64, f64) {
        let mean_of = |all: &[Overlapped]| mean(&all.iter().map(|one| one.functions).collect::<Vec<_>>());
        (mean_of(&self.strobe), mean_of(&self.perf))
    }

    /// How many points strobe has less than perf with as many samples; negative if it has more.
    #[must_use]
    pub fn lacks_points(&self) -> f64 {
        let (strobe, perf) = self.blocks();
        100.0 * (perf - strobe)
    }
}

/// Compares a program's recordings at a setting, as many as are wanted.
pub fn compare(
    bench: &Bench,
    places: &mut Places,
    workload: &Workload,
    setting: &Setting,
    n_recordings: usize,
) -> anyhow::Result<Compared> {
    let threads = Threads::available();
    let (mut reference, mut others, mut profiles) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..N_REFERENCE.max(n_recordings) {
        if turn < N_REFERENCE {
            reference.extend(places.of_samples(&perf::record(&bench.data, workload)?, &threads)?);
        }
        if turn < n_recordings {
            profiles.push(bench.record(workload, setting, turn)?.profile);
            others.push(places.of_samples(&perf::record(&bench.data, workload)?, &threads)?);
        }
    }
    let n_at_starts = reference.iter().filter(|(_, is_at_start)| *is_at_start).count();
    let n_reference = reference.len();
    let reference = counted(reference.iter().map(|&(place, _)| place));
    let (mut of_strobe, mut of_perf, mut all_samples, mut in_no_block) = (vec![], vec![], vec![], vec![]);
    for (run, (profile, other)) in profiles.iter().zip(&others).enumerate() {
        let n: u64 = profile.functions.iter().map(|function| function.self_ns.seen).sum();
        let times = places.of_profile(profile, &threads)?;
        of_strobe.push(overlapped(n as usize, &reference, &times));
        in_no_block.push(share_in_no_block(&times));
        let other: Vec<Place> = other.iter().map(|&(place, _)| place).collect();
        all_samples.push(overlap(&reference, &counted(other.iter().copied())));
        let draws = (0..N_DRAWS).map(|draw| {
            let drawn = thinned(&other, n as usize, run as u64 * N_DRAWS + draw);
            overlapped(drawn.len(), &reference, &counted(drawn))
        });
        of_perf.push(mean_of_draws(&draws.collect::<Vec<_>>()));
    }
    Ok(Compared {
        program: workload.name.to_owned(),
        n_reference,
        strobe: of_strobe,
        perf: of_perf,
        all_samples: mean(&all_samples),
        at_starts: n_at_starts as f64 / n_reference.max(1) as f64,
        in_no_block: (share_in_no_block(&reference), mean(&in_no_block)),
        load: machine::load().parse().ok(),
    })
}

fn counted(places: impl IntoIterator<Item = Place>) -> Times {
    let mut times = Times::new();
    for place in places {
        *times.entry(place).or_default() += 1.0;
    }
    times
}

fn of_functions(times: &Times) -> Times {
    let mut sums = Times::new();
    for (place, time) in times {
        *sums.entry(place.function()).or_default() += time;
    }
    sums
}

fn overlapped(n: usize, reference: &Times, times: &Times) -> Overlapped {
    let functions = overlap(&of_functions(reference), &of_functions(times));
    Overlapped { n, blocks: overlap(reference, times), functions }
}

fn mean_of_draws(draws: &[Overlapped]) -> Overlapped {
    let mean_of = |figure: fn(&Overlapped) -> f64| mean(&draws.iter().map(figure).collect::<Vec<_>>());
    Overlapped {
        n: draws.first().map_or(0, |draw| draw.n),
        blocks: mean_of(|draw| draw.blocks),
        functions: mean_of(|draw| draw.functions),
    }
}

fn share_in_no_block(times: &Times) -> f64 {
    let outside = times.iter().filter(|(place, _)| !place.is_block()).fold(0.0, |sum, (_, time)| sum + time);
    outside / times.values().sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Sum of the smaller of the two shares, over all keys: 1 if they are the same, 0 if nothing is
/// common, or if one of the two is nothing.
fn overlap<K: Ord>(a: &BTreeMap<K, f64>, b: &BTreeMap<K, f64>) -> f64 {
    let [all_a, all_b] = [a, b].map(|times| times.values().sum::<f64>());
    if all_a <= 0.0 || all_b <= 0.0 {
        return 0.0;
    }
    a.iter().filter_map(|(key, time)| Some((time / all_a).min(b.get(key)? / all_b))).sum()
}

/// So many of them, each with the same chance, by a seed; all if there are no more.
fn thinned<T: Copy>(all: &[T], n: usize, seed: u64) -> Vec<T> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = all.to_vec();
    let n = n.min(drawn.len());
    for index in 0..n {
        let other = random.usize(index..drawn.len());
        drawn.swap(index, other);
    }
    drawn.truncate(n);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times<const N: usize>(times: [(u32, f64); N]) -> BTreeMap<u32, f64> {
        BTreeMap::from(times)
    }

    #[test]
    fn overlap_is_of_shares() {
        let reference = times([(1, 60.0), (2, 40.0)]);
        let is = |other: &BTreeMap<u32, f64>, wanted: f64| {
            let found = [overlap(&reference, other), overlap(other, &reference)];
            assert!(found.iter().all(|found| (found - wanted).abs() < 1e-12), "{found:?} {wanted}");
        };
        is(&times([(1, 0.6), (2, 0.4)]), 1.0);
        is(&times([(1, 3.0), (3, 1.0)]), 0.6);
        is(&times([(1, 1.0), (2, 3.0)]), 0.65);
        is(&times([(3, 1.0)]), 0.0);
        is(&times([]), 0.0);
    }

    #[test]
    fn thinning_draws_each_sample_as_often_and_none_twice() {
        let all: Vec<usize> = (0..50).collect();
        let mut n_drawn = [0; 50];
        for seed in 0..2000 {
            let drawn = thinned(&all, 10, seed);
            assert_eq!(drawn.iter().collect::<std::collections::BTreeSet<_>>().len(), 10);
            drawn.iter().for_each(|&index| n_drawn[index] += 1);
        }
        // 400 each are to be expected, with a standard deviation of 18.
        assert!(n_drawn.iter().all(|n| (310..=490).contains(n)), "{n_drawn:?}");
        assert_eq!(thinned(&all, 10, 7), thinned(&all, 10, 7));
        assert_ne!(thinned(&all, 10, 7), thinned(&all, 10, 8));
        assert_eq!(thinned(&all, 60, 1).len(), 50);
    }

    #[test]
    fn fewer_samples_overlap_less() {
        let all: Vec<u32> = (0..4000).map(|index| index % 40).collect();
        let count = |places: &[u32]| {
            let mut times = BTreeMap::new();
            places.iter().for_each(|&place| *times.entry(place).or_insert(0.0) += 1.0);
            times
        };
        let of = |n| overlap(&count(&all), &count(&thinned(&all, n, 3)));
        assert!(of(40) < of(400) && of(400) < of(4000) && (of(4000) - 1.0).abs() < 1e-9);
    }
}
