//! Streams of a formula, for when no program is wanted: `zipf:PLACES:EXPONENT:EVENTS`.
//!
//! Places are drawn with a frequency of 1 / rank^exponent. Seven of ten times a place has its usual
//! value, otherwise one of a hundred others.

use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

use super::stream::{Kind, Pair, Stream};

/// The share of the usual value.
const INVARIANCE: f64 = 0.7;
const N_OTHER_VALUES: u64 = 100;
const FIRST_PLACE: u64 = 0x40_0000;

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    n_places: u64,
    exponent: f64,
    n_events: u64,
}

impl FromStr for Zipf {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Zipf> {
        let fields: Vec<&str> = text.split(':').collect();
        let ["zipf", places, exponent, events] = fields[..] else {
            bail!("`{text}` is not of the form zipf:PLACES:EXPONENT:EVENTS, for example zipf:10000:1.1:4M");
        };
        let exponent: f64 = exponent.parse().with_context(|| format!("`{exponent}` is no exponent"))?;
        let formula = Zipf { n_places: count(places)?, exponent, n_events: count(events)? };
        ensure!(exponent.is_finite() && exponent >= 0.0, "the exponent must not be negative");
        ensure!((1..=100_000_000).contains(&formula.n_places), "there must be 1 to 100 M places");
        ensure!((1..=1_000_000_000).contains(&formula.n_events), "there must be 1 to 1000 M events");
        Ok(formula)
    }
}

/// A number that may end in k or M.
pub fn count(text: &str) -> anyhow::Result<u64> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().with_context(|| format!("`{text}` is no number such as 500, 20k or 16M"))?;
    number.checked_mul(factor).with_context(|| format!("`{text}` is too large"))
}

impl Zipf {
    /// The stream of this formula and a seed.
    #[must_use]
    pub fn stream(&self, seed: u64) -> Stream {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cumulative: Vec<f64> = Vec::new();
        for rank in 1..=self.n_places {
            let share = 1.0 / (rank as f64).powf(self.exponent);
            cumulative.push(cumulative.last().unwrap_or(&0.0) + share);
        }
        let total = cumulative.last().copied().unwrap_or(0.0);
        let mut event = || -> Pair {
            let at = random.f64() * total;
            let rank = cumulative.partition_point(|&sum| sum < at) as u64;
            let is_usual = random.f64() < INVARIANCE;
            let value = if is_usual { 0 } else { 1 + random.u64(..N_OTHER_VALUES) };
            (FIRST_PLACE + 4 * rank, value)
        };
        let events = (0..self.n_events).map(|_| event()).collect();
        let name = format!("zipf:{}:{}:{}", self.n_places, self.exponent, self.n_events);
        Stream { name, kind: Kind::Synthetic, instructions: None, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_formula() {
        let stream = "zipf:100:1:20k".parse::<Zipf>().unwrap().stream(1);
        let share = |rank: u64| {
            let at_place = stream.events.iter().filter(|event| event.0 == FIRST_PLACE + 4 * rank);
            at_place.count() as f64 / stream.events.len() as f64
        };
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [0, 1, 9] {
            let expected = 1.0 / (rank as f64 + 1.0) / harmonic;
            assert!((share(rank) / expected - 1.0).abs() < 0.2, "{rank}: {} {expected}", share(rank));
        }
    }

    #[test]
    fn wrong_formulas_are_refused() {
        for text in ["zipf", "zipf:1:1", "zipf:0:1:1", "zipf:1:-1:1", "zipf:1:NaN:1", "zipf:1:1:9999999M", "flat:1:1:1"]
        {
            assert!(text.parse::<Zipf>().is_err(), "{text}");
        }
    }
}
