//! How far counts are off by chance, kept up to date burst by burst.
//!
//! Half the sum of distances between found and true shares is what a profile lacks of full overlap.
//! An event that independent bursts `b` saw `n_b` times each has the standard deviation
//! `sqrt(sum of n_b^2)`, and the mean distance of a normal number from its mean is `sqrt(2/pi)` of
//! that. So the expected lack is
//!
//! ```text
//! 1/2 sqrt(2/pi)  sum over events of sqrt(sum over b of n_b^2)  /  sum of all n
//! ```
//!
//! An event that one burst saw counts in full. Where most are like that, as many again have not
//! been seen yet (Good 1953), so that they are in it, too. Weights are left out: this steers a
//! recording while it runs, and costs one square root per event of a burst.

use super::events::Event;
use super::ids::EventId;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Chance {
    /// By event: the sum of squares, and its root.
    squares: Vec<(f64, f64)>,
    contexts: Sums,
    edges: Sums,
}

/// Over events of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    counts: f64,
    deviations: f64,
}

impl Chance {
    /// A burst saw an event so many times.
    pub fn add(&mut self, number: EventId, event: Event, count: f64) {
        let sums = match event {
            Event::Context(_) | Event::Recursion { .. } => &mut self.contexts,
            Event::Edge { .. } => &mut self.edges,
            _ => return,
        };
        if number.index() >= self.squares.len() {
            self.squares.resize((number.index() + 1).next_power_of_two(), (0.0, 0.0));
        }
        let (square, root) = &mut self.squares[number.index()];
        sums.counts += count;
        sums.deviations -= *root;
        *square += count * count;
        *root = square.sqrt();
        sums.deviations += *root;
    }

    /// Returns how far shares of edges or of calling contexts are from full overlap, whichever is
    /// further; nothing if none were seen.
    pub fn lack(&self) -> Option<f64> {
        [self.contexts, self.edges].into_iter().filter_map(Sums::lack).reduce(f64::max)
    }
}

impl Sums {
    fn lack(self) -> Option<f64> {
        let half_distance = 0.5 * std::f64::consts::FRAC_2_PI.sqrt();
        (self.counts > 0.0).then(|| half_distance * self.deviations / self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::ContextKey;
    use super::*;

    fn lack(bursts: &[&[f64]]) -> Option<f64> {
        let mut chance = Chance::default();
        for burst in bursts {
            for (index, &count) in burst.iter().enumerate().filter(|&(_, &count)| count > 0.0) {
                chance.add(EventId::next(index), Event::Context(ContextKey::next(index)), count);
            }
        }
        chance.lack()
    }

    #[test]
    fn it_is_the_mean_distance_of_shares() {
        // Of n bursts, each sees one of two contexts: the share of the first is binomial.
        let bursts: Vec<&[f64]> =
            (0..400).map(|n: usize| if n.is_multiple_of(2) { &[7.0, 0.0][..] } else { &[0.0, 7.0] }).collect();
        // Its mean distance from 1/2 is sqrt(2/pi) sqrt(1/4 / 400). Squared counts, which do not
        // know the mean, make it larger by sqrt(2).
        let expected = (2.0 / std::f64::consts::PI).sqrt() * (0.25_f64 / 400.0).sqrt() * 2.0_f64.sqrt();
        assert!((lack(&bursts).unwrap() / expected - 1.0).abs() < 1e-9, "{:?} {expected}", lack(&bursts));
    }

    #[test]
    fn it_falls_with_the_root_of_the_number_of_bursts() {
        let burst: &[f64] = &[3.0, 1.0, 2.0];
        let (few, many) = (lack(&[burst; 10]).unwrap(), lack(&[burst; 1000]).unwrap());
        assert!((few / many - 10.0).abs() < 1e-9, "{few} {many}");
    }

    #[test]
    fn what_is_always_new_stays_unknown() {
        let one_each: Vec<Vec<f64>> =
            (0..100).map(|n| (0..100).map(|index| f64::from(u8::from(index == n))).collect()).collect();
        let bursts: Vec<&[f64]> = one_each.iter().map(Vec::as_slice).collect();
        assert!((lack(&bursts).unwrap() - 0.5 * std::f64::consts::FRAC_2_PI.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn nothing_seen_is_nothing_known() {
        assert_eq!(lack(&[]), None);
        let mut chance = Chance::default();
        chance.add(EventId::next(0), Event::UnobservedFlow, 5.0);
        assert_eq!(chance.lack(), None);
    }
}
