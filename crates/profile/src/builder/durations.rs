//! How long the bursts of a phase take, in terms of what is expected of them.
//!
//! What disturbs a burst makes it longer: the thread is preempted, a page has to be fetched,
//! another program has the cache. On a busy machine half of all bursts take several times as long
//! as they should, while the fastest take what they take on a quiet one. So the fast tenth stands
//! for all, at a fixed ratio.

/// Bursts that make a quantile.
const MIN_BURSTS: u32 = 8;
/// The quantile, as one in so many.
const ONE_IN: u64 = 10;
/// What the fast tenth takes of what an undisturbed burst takes on average.
const FAST_SHARE: f64 = 0.8;
/// Ratios are kept from 2^-8 to 2^16.
const LEAST_OCTAVE: f64 = -8.0;
const BINS_PER_OCTAVE: f64 = 8.0;
const N_BINS: usize = 192;

/// Measured times over expected ones, as a histogram over logarithms.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    bins: [u32; N_BINS],
    n: u32,
}

impl Ratios {
    pub const EMPTY: Ratios = Ratios { bins: [0; N_BINS], n: 0 };

    pub fn add(&mut self, measured_ns: f64, expected_ns: f64) {
        let ratio = measured_ns / expected_ns;
        if ratio > 0.0 && ratio.is_finite() {
            let bin = ((ratio.log2() - LEAST_OCTAVE) * BINS_PER_OCTAVE).clamp(0.0, (N_BINS - 1) as f64);
            self.bins[bin as usize] = self.bins[bin as usize].saturating_add(1);
            self.n = self.n.saturating_add(1);
        }
    }

    pub fn join(&mut self, other: &Ratios) {
        self.bins.iter_mut().zip(other.bins).for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
        self.n = self.n.saturating_add(other.n);
    }

    /// The ratio of an undisturbed burst; nothing if too few were measured.
    pub fn undisturbed(&self) -> Option<f64> {
        let mut n_below = 0;
        let holds_quantile = |&count: &u32| {
            n_below += u64::from(count);
            n_below * ONE_IN >= u64::from(self.n)
        };
        let bin = self.bins.iter().position(holds_quantile).filter(|_| self.n >= MIN_BURSTS)?;
        Some(((bin as f64 + 0.5) / BINS_PER_OCTAVE + LEAST_OCTAVE).exp2() / FAST_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_tenth_counts() {
        let mut ratios = Ratios::EMPTY;
        for nonsense in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            ratios.add(nonsense, 500.0);
            ratios.add(500.0, 0.0);
        }
        (0..7).for_each(|_| ratios.add(1000.0, 500.0));
        assert_eq!(ratios.undisturbed(), None);
        (0..7).for_each(|_| ratios.add(1000.0, 500.0));
        (0..80).for_each(|_| ratios.add(4e6, 500.0));
        let found = ratios.undisturbed().unwrap() * FAST_SHARE;
        assert!((1.8..2.2).contains(&found), "{found}");
    }
}
