//! Samplers: which occurrence of a stream is sent, whatever it is.
//!
//! A sampler is divided into what all strata of a splitter share (rate, random numbers) and a small
//! state for each stratum, so that `H[P256]2048` is 2048 bytes of counters and one rate.
//!
//! Messages of another compressor have weights. Counting samplers ([`Periodic`], [`Counter`],
//! [`Counted`]) count occurrences, so that a message of weight 7 is the same to them as seven of
//! weight 1. Samplers that know nothing of the past, or only a distance ([`Random`],
//! [`Countdown`]), pick messages and let them stand for a multiple of their weight: both are
//! unbiased.

use crate::compressor::{Compressor, Message, Tuple};
use crate::error::Rate;

/// Chooses from a stream without looking at the tuples.
pub trait Sampler {
    /// What is kept for each stratum.
    type State: Copy;

    /// The state of a stratum that has seen nothing.
    fn initial(&mut self) -> Self::State;

    /// Takes a message of this weight; if it is picked, the weight that it shall stand for. A
    /// weight of 0 changes nothing.
    fn take(&mut self, state: &mut Self::State, weight: u64) -> Option<u64>;

    /// Takes one occurrence.
    #[inline]
    fn take_one(&mut self, state: &mut Self::State) -> Option<u64> {
        self.take(state, 1)
    }

    /// Takes at most `n` occurrences, and stops behind the first that is picked: its index and the
    /// weight that it shall stand for.
    #[inline]
    fn take_run(&mut self, state: &mut Self::State, n: usize) -> Option<(usize, u64)> {
        (0..n).find_map(|index| self.take_one(state).map(|weight| (index, weight)))
    }

    /// The part of the residue that lies in a state.
    fn held(&self, state: &Self::State) -> u64;

    /// The part of the residue that lies in no state.
    fn settled(&self) -> i128;
}

/// `R`: picks each message with probability 1/rate, independent of all others.
#[derive(Clone, Debug)]
pub struct Random {
    rate: Rate,
    random: fastrand::Rng,
    /// A random number below this picks; off by less than rate / 2^64.
    threshold: u64,
    balance: i128,
}

impl Random {
    /// A sampler of this rate.
    #[must_use]
    pub fn new(rate: Rate, seed: u64) -> Random {
        let threshold = u64::MAX / u64::from(rate.get());
        Random { rate, random: fastrand::Rng::with_seed(seed), threshold, balance: 0 }
    }
}

impl Sampler for Random {
    type State = ();

    fn initial(&mut self) {}

    #[inline]
    fn take(&mut self, _state: &mut (), weight: u64) -> Option<u64> {
        self.balance += i128::from(weight);
        let is_picked = self.random.u64(..) <= self.threshold && weight != 0;
        is_picked.then(|| {
            let sent = weight.saturating_mul(u64::from(self.rate.get()));
            self.balance -= i128::from(sent);
            sent
        })
    }

    fn held(&self, _state: &()) -> u64 {
        0
    }

    fn settled(&self) -> i128 {
        self.balance
    }
}

/// An unsigned integer that counts the occurrences of a stratum.
pub trait Count: Copy + Eq {
    /// Nothing counted.
    const ZERO: Self;
    /// As many as fit.
    const MAX: u32;
    /// From a number that fits, which is not checked.
    fn truncate(count: u64) -> Self;
    /// The number.
    fn widen(self) -> u64;
    /// One more.
    fn next(self) -> Self;
}

macro_rules! count {
    ($($t:ty),*) => {$(
        impl Count for $t {
            const ZERO: $t = 0;
            const MAX: u32 = <$t>::MAX as u32;
            #[inline]
            fn truncate(count: u64) -> $t { count as $t }
            #[inline]
            fn widen(self) -> u64 { u64::from(self) }
            #[inline]
            fn next(self) -> $t { self.wrapping_add(1) }
        }
    )*};
}
count!(u8, u16, u32);

/// `P`: picks every rate-th occurrence. `N` must hold rate - 1.
#[derive(Clone, Debug)]
pub struct Periodic<N = u32> {
    rate: Rate,
    /// A stratum that has counted this much sends with its next occurrence.
    last: N,
}

impl<N: Count> Periodic<N> {
    /// A sampler of this rate, if `N` can count to it.
    #[must_use]
    pub fn new(rate: Rate) -> Option<Periodic<N>> {
        let last = rate.get() - 1;
        (last <= N::MAX).then(|| Periodic { rate, last: N::truncate(u64::from(last)) })
    }
}

impl Periodic<u32> {
    /// A sampler of this rate.
    #[must_use]
    pub fn wide(rate: Rate) -> Periodic<u32> {
        Periodic { rate, last: rate.get() - 1 }
    }
}

impl<N: Count> Sampler for Periodic<N> {
    type State = N;

    fn initial(&mut self) -> N {
        N::ZERO
    }

    #[inline]
    fn take(&mut self, state: &mut N, weight: u64) -> Option<u64> {
        let rate = u64::from(self.rate.get());
        let count = state.widen().saturating_add(weight);
        let left = count % rate;
        *state = N::truncate(left);
        (count >= rate).then(|| count - left)
    }

    #[inline]
    fn take_one(&mut self, state: &mut N) -> Option<u64> {
        if *state != self.last {
            *state = state.next();
            return None;
        }
        core::hint::cold_path();
        *state = N::ZERO;
        Some(u64::from(self.rate.get()))
    }

    #[inline]
    fn take_run(&mut self, state: &mut N, n: usize) -> Option<(usize, u64)> {
        let until_picked = (self.last.widen() - state.widen()) as usize;
        let is_picked = until_picked < n;
        *state = if is_picked { N::ZERO } else { N::truncate(state.widen() + n as u64) };
        is_picked.then(|| (until_picked, u64::from(self.rate.get())))
    }

    fn held(&self, state: &N) -> u64 {
        state.widen()
    }

    fn settled(&self) -> i128 {
        0
    }
}

/// `D`: picks messages at distances that are uniform in 1..2 rate, so rate on average.
#[derive(Clone, Debug)]
pub struct Countdown {
    rate: Rate,
    random: fastrand::Rng,
    balance: i128,
}

impl Countdown {
    /// A sampler of this mean rate.
    #[must_use]
    pub fn new(rate: Rate, seed: u64) -> Countdown {
        Countdown { rate, random: fastrand::Rng::with_seed(seed), balance: 0 }
    }

    /// Messages to let pass before the next one is picked.
    fn distance(&mut self) -> u32 {
        self.random.u32(0..=2 * (self.rate.get() - 1))
    }
}

impl Sampler for Countdown {
    type State = u32;

    fn initial(&mut self) -> u32 {
        self.distance()
    }

    #[inline]
    fn take(&mut self, to_pass: &mut u32, weight: u64) -> Option<u64> {
        if weight == 0 {
            return None;
        }
        self.balance += i128::from(weight);
        if let Some(less) = to_pass.checked_sub(1) {
            *to_pass = less;
            return None;
        }
        *to_pass = self.distance();
        let sent = weight.saturating_mul(u64::from(self.rate.get()));
        self.balance -= i128::from(sent);
        Some(sent)
    }

    fn held(&self, _state: &u32) -> u64 {
        0
    }

    fn settled(&self) -> i128 {
        self.balance
    }
}

/// `C`: counts and never picks.
#[derive(Clone, Copy, Debug)]
pub struct Counter;

impl Sampler for Counter {
    type State = u64;

    fn initial(&mut self) -> u64 {
        0
    }

    #[inline]
    fn take(&mut self, count: &mut u64, weight: u64) -> Option<u64> {
        *count = count.saturating_add(weight);
        None
    }

    #[inline]
    fn take_run(&mut self, count: &mut u64, n: usize) -> Option<(usize, u64)> {
        *count += n as u64;
        None
    }

    fn held(&self, count: &u64) -> u64 {
        *count
    }

    fn settled(&self) -> i128 {
        0
    }
}

/// `CX`: a counter beside a sampler, whose messages stand for everything since the last one: the
/// length of the stream is known, not estimated.
#[derive(Clone, Debug)]
pub struct Counted<S>(pub S);

impl<S: Sampler> Sampler for Counted<S> {
    type State = (u64, S::State);

    fn initial(&mut self) -> Self::State {
        (0, self.0.initial())
    }

    #[inline]
    fn take(&mut self, (count, state): &mut Self::State, weight: u64) -> Option<u64> {
        *count = count.saturating_add(weight);
        self.0.take(state, weight).map(|_| core::mem::take(count))
    }

    #[inline]
    fn take_one(&mut self, (count, state): &mut Self::State) -> Option<u64> {
        *count = count.saturating_add(1);
        self.0.take_one(state).map(|_| core::mem::take(count))
    }

    fn held(&self, (count, _): &Self::State) -> u64 {
        *count
    }

    fn settled(&self) -> i128 {
        0
    }
}

/// A sampler on the whole stream.
#[derive(Clone, Debug)]
pub struct Whole<S: Sampler> {
    sampler: S,
    state: S::State,
}

impl<S: Sampler> Whole<S> {
    /// A stream that nothing has been seen of.
    #[must_use]
    pub fn new(mut sampler: S) -> Whole<S> {
        let state = sampler.initial();
        Whole { sampler, state }
    }
}

impl<T: Tuple, S: Sampler> Compressor<T> for Whole<S> {
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        self.sampler.take_one(&mut self.state).map(|weight| Message { tuple, weight })
    }

    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        let weight = self.sampler.take(&mut self.state, message.weight)?;
        Some(Message { weight, ..message })
    }

    #[inline]
    fn observe_all(&mut self, tuples: &[T], send: &mut impl FnMut(Message<T>)) {
        let mut rest = tuples;
        while let Some((index, weight)) = self.sampler.take_run(&mut self.state, rest.len()) {
            let Some((&tuple, behind)) = rest.get(index..).and_then(<[T]>::split_first) else { return };
            send(Message { tuple, weight });
            rest = behind;
        }
    }

    fn drain(&mut self, _send: &mut dyn FnMut(Message<T>)) {}

    fn residue(&self) -> i128 {
        self.sampler.settled() + i128::from(self.sampler.held(&self.state))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<S::State>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn rate(rate: u64) -> Rate {
        Rate::new(rate).unwrap()
    }

    #[test]
    fn periodic_picks_every_third_and_knows_what_is_left() {
        let mut periodic = Whole::new(Periodic::wide(rate(3)));
        let sent: Vec<u64> = (0..11).filter_map(|tuple: u64| periodic.observe(tuple)).map(|m| m.tuple).collect();
        assert_eq!(sent, [2, 5, 8]);
        assert_eq!(Compressor::<u64>::residue(&periodic), 2);
    }

    #[test]
    fn periodic_of_256_counts_in_a_byte() {
        let mut periodic = Whole::new(Periodic::<u8>::new(rate(256)).unwrap());
        let n_sent = (0..1000u64).filter_map(|tuple| periodic.observe(tuple)).count();
        assert_eq!((n_sent, Compressor::<u64>::memory_bytes(&periodic)), (3, 1));
        assert!(Periodic::<u8>::new(rate(257)).is_none());
    }

    #[test]
    fn a_weighted_message_is_as_many_occurrences_to_a_periodic_sampler() {
        let mut periodic = Whole::new(Periodic::wide(rate(4)));
        assert_eq!(periodic.absorb(Message { tuple: 1u64, weight: 14 }), Some(Message { tuple: 1, weight: 12 }));
        assert_eq!(periodic.absorb(Message { tuple: 2u64, weight: 2 }), Some(Message { tuple: 2, weight: 4 }));
        assert_eq!(periodic.absorb(Message { tuple: 3u64, weight: 0 }), None);
    }

    #[test]
    fn a_counted_sampler_accounts_for_all_since_its_last_message() {
        let mut counted = Whole::new(Counted(Random::new(rate(7), 1)));
        let mut sent = 0;
        for tuple in 0..10_000u64 {
            sent += counted.observe(tuple).map_or(0, |message| message.weight);
            assert_eq!(i128::from(sent) + Compressor::<u64>::residue(&counted), i128::from(tuple) + 1);
        }
    }

    #[test]
    fn runs_pick_what_single_occurrences_pick() {
        let tuples: Vec<u64> = (0..1000).collect();
        fn check<S: Sampler + Clone>(tuples: &[u64], sampler: S)
        where
            S::State: Clone,
        {
            let (mut one, mut all) = (Whole::new(sampler.clone()), Whole::new(sampler));
            let expected: Vec<_> = tuples.iter().filter_map(|&tuple| one.observe(tuple)).collect();
            let mut sent = vec![];
            for piece in tuples.chunks(33) {
                all.observe_all(piece, &mut |message| sent.push(message));
            }
            assert_eq!(sent, expected);
            assert_eq!(Compressor::<u64>::residue(&one), Compressor::<u64>::residue(&all));
        }
        check(&tuples, Periodic::wide(rate(1)));
        check(&tuples, Periodic::<u8>::new(rate(10)).unwrap());
        check(&tuples, Random::new(rate(10), 3));
        check(&tuples, Countdown::new(rate(10), 3));
        check(&tuples, Counter);
        check(&tuples, Counted(Countdown::new(rate(10), 3)));
    }
}
