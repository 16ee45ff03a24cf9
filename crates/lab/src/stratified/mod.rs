//! The Monte Carlo experiments of the paper on stratified sampling (section 3.3): claims S1 and S2.
//!
//! A stream of N tuples has t = 0.3 N copies of one tuple p, in random order. Samplers of rate 10
//! see the stream, and t is estimated from their messages: by the sum of the weights of messages
//! that have p. The error is |t - EST| / EST, averaged over 2500 streams.
//!
//! The paper does not say what the other 70 % of the tuples are, nor how many strata there are;
//! both matter, so both are varied. Every stream has a new hash function.
//!
//! For samplers with a counter there is a second estimate, by *ratio*: the length of the stratum,
//! which is known, times the share of p in its messages. The sum of counts is what the paper
//! describes, the ratio is what explains its results; see [`report`].

pub mod report;

use flow::Executor as _;
use recorder::Threads;
use sampling::{
    Compressor, Counted, FastHash, Periodic, Random, Rate, Split, TableHash as _, TableSize, Tuple as _, Whole,
};

/// The tuple whose occurrences are estimated.
const P: u64 = 0;

/// What the tuples other than p are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// This many different ones, equally frequent.
    Uniform(u64),
    /// Each occurs once.
    Distinct,
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mix::Uniform(1) => write!(f, "1 other"),
            Mix::Uniform(n) => write!(f, "{n} others"),
            Mix::Distinct => write!(f, "all different"),
        }
    }
}

/// What all experiments have in common.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Streams for each length.
    pub trials: u32,
    /// Rate of all samplers.
    pub rate: Rate,
    /// Seed of everything random.
    pub seed: u64,
}

/// The samplers of the experiment, in the order of [`Errors`].
pub const SAMPLERS: [&str; 8] = ["R", "H[R]", "P", "CR", "H[P]", "H[CR]", "CR, ratio", "H[CR], ratio"];

/// Mean errors at each length, as fractions, of all [`SAMPLERS`] on the same streams.
pub fn all_samplers(
    settings: Settings,
    lengths: &[u64],
    mix: Mix,
    strata: TableSize,
    threads: Threads,
) -> Vec<Vec<f64>> {
    threads.map(lengths, |&length| {
        mean_errors(settings, length, mix, |stream, seed| estimates(settings.rate, stream, strata, seed))
    })
}

/// Mean errors of H[P] at each length, for each number of strata.
pub fn stratified_periodic(
    settings: Settings,
    lengths: &[u64],
    mix: Mix,
    strata: &[TableSize],
    threads: Threads,
) -> Vec<Vec<f64>> {
    let periodic = Periodic::wide(settings.rate);
    let estimate = |stream: &[u64], n, seed| {
        Seen::by(&mut Split::new(periodic.clone(), FastHash::new(n, seed)), stream, |_| true).sum()
    };
    threads.map(lengths, |&length| {
        let each = |stream: &[u64], seed| strata.iter().map(|&n| estimate(stream, n, seed)).collect();
        mean_errors(settings, length, mix, each)
    })
}

/// The copies of p in a stream of this length.
fn copies_of_p(length: u64) -> u64 {
    length * 3 / 10
}

/// The mean error of each estimate. By the paper's definition an estimate of 0 has no error; such
/// streams are left out.
fn mean_errors(settings: Settings, length: u64, mix: Mix, estimates: impl Fn(&[u64], u64) -> Vec<f64>) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(settings.seed ^ length);
    let t = copies_of_p(length);
    let mut stream: Vec<u64> = (0..length).map(|index| tuple_at(index, t, mix)).collect();
    let mut sums: Vec<(f64, u32)> = Vec::new();
    for _ in 0..settings.trials {
        random.shuffle(&mut stream);
        let estimates = estimates(&stream, random.u64(..));
        sums.resize(estimates.len(), (0.0, 0));
        for ((sum, used), estimate) in sums.iter_mut().zip(estimates).filter(|(_, estimate)| *estimate > 0.0) {
            *sum += (t as f64 - estimate).abs() / estimate;
            *used += 1;
        }
    }
    sums.into_iter().map(|(sum, used)| sum / f64::from(used)).collect()
}

fn tuple_at(index: u64, t: u64, mix: Mix) -> u64 {
    match mix {
        _ if index < t => P,
        Mix::Uniform(n) => 1 + index % n,
        Mix::Distinct => 1 + index,
    }
}

/// What messages say about p.
struct Seen {
    /// Sum of the weights of messages with p.
    weight: u64,
    n_messages: u64,
    /// The same of all messages of the stratum that p is in.
    stratum_weight: u64,
    n_stratum_messages: u64,
}

impl Seen {
    fn by(sampler: &mut impl Compressor<u64>, stream: &[u64], is_in_stratum: impl Fn(u64) -> bool) -> Seen {
        let mut seen = Seen { weight: 0, n_messages: 0, stratum_weight: 0, n_stratum_messages: 0 };
        sampler.observe_all(stream, &mut |message| {
            if message.tuple == P {
                seen.weight += message.weight;
                seen.n_messages += 1;
            }
            if is_in_stratum(message.tuple) {
                seen.stratum_weight += message.weight;
                seen.n_stratum_messages += 1;
            }
        });
        seen
    }

    fn sum(&self) -> f64 {
        self.weight as f64
    }

    fn ratio(&self) -> f64 {
        self.stratum_weight as f64 * self.n_messages as f64 / self.n_stratum_messages.max(1) as f64
    }
}

/// The estimates of all [`SAMPLERS`].
fn estimates(rate: Rate, stream: &[u64], strata: TableSize, seed: u64) -> Vec<f64> {
    let hash = FastHash::new(strata, seed);
    let periodic = Periodic::wide(rate);
    let random = |n: u64| Random::new(rate, seed.wrapping_add(n));
    let whole = |_| true;
    let home = hash.index(P.key());
    let in_stratum = |tuple: u64| hash.index(tuple.key()) == home;
    let r = Seen::by(&mut Whole::new(random(1)), stream, whole);
    let hr = Seen::by(&mut Split::new(random(2), hash.clone()), stream, whole);
    let p = Seen::by(&mut Whole::new(periodic.clone()), stream, whole);
    let cr = Seen::by(&mut Whole::new(Counted(random(3))), stream, whole);
    let hp = Seen::by(&mut Split::new(periodic, hash.clone()), stream, whole);
    let hcr = Seen::by(&mut Split::new(Counted(random(4)), hash.clone()), stream, in_stratum);
    vec![r.sum(), hr.sum(), p.sum(), cr.sum(), hp.sum(), hcr.sum(), cr.ratio(), hcr.ratio()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const ONE: Threads = Threads(NonZeroUsize::MIN);

    fn settings(trials: u32) -> Settings {
        Settings { trials, rate: Rate::new(10).unwrap(), seed: 1 }
    }

    #[test]
    fn a_stream_has_its_share_of_p_and_the_mix_of_others() {
        let count = |mix| {
            let stream: Vec<u64> = (0..1000).map(|index| tuple_at(index, copies_of_p(1000), mix)).collect();
            let different = stream.iter().collect::<std::collections::BTreeSet<_>>().len();
            (stream.iter().filter(|&&tuple| tuple == P).count(), different)
        };
        assert_eq!(count(Mix::Uniform(1)), (300, 2));
        assert_eq!(count(Mix::Uniform(7)), (300, 8));
        assert_eq!(count(Mix::Distinct), (300, 701));
    }

    /// The errors that theory predicts for long streams: R has sqrt(30 / N) standard deviation, P
    /// sqrt(21 / N), a perfect stratum none.
    #[test]
    fn errors_are_those_of_theory() {
        let strata = TableSize::new(1 << 16).unwrap();
        let errors = all_samplers(settings(400), &[10_000], Mix::Uniform(1), strata, ONE);
        let mean_of_normal = (2.0 / std::f64::consts::PI).sqrt();
        let [r, p] = [30f64, 21.0].map(|variance| mean_of_normal * (variance / 10_000.0).sqrt());
        let close = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 0.15;
        assert!(close(errors[0][0], r) && close(errors[0][1], r), "{errors:?} {r}");
        assert!(close(errors[0][2], p) && close(errors[0][6], p), "{errors:?} {p}");
        assert!(errors[0][4] < 0.005, "{errors:?}");
    }

    #[test]
    fn one_stratum_is_no_stratification() {
        let one = TableSize::new(1).unwrap();
        let errors = all_samplers(settings(50), &[2000], Mix::Distinct, one, ONE);
        assert_eq!(errors[0][2], errors[0][4]);
        let alone = stratified_periodic(settings(50), &[2000], Mix::Distinct, &[one], ONE);
        assert_eq!(alone[0][0], errors[0][4]);
    }
}
