//! `H[X]n`: the stream is split by a hash of the tuple, and every part, a *stratum*, has a
//! compressor of its own.
//!
//! A stratum has few different tuples, mostly one, so that a sampler inside picks what the stratum
//! consists of. That is the whole advantage over sampling the stream; it needs a sampler that knows
//! the length of its stream ([`Periodic`](crate::Periodic), [`Counted`](crate::Counted)).

use alloc::boxed::Box;

use crate::compressor::{Compressor, Message, Tuple};
use crate::hash::TableHash;
use crate::sampler::Sampler;

/// A splitter with a sampler in each stratum, of which only the states are many.
#[derive(Clone, Debug)]
pub struct Split<S: Sampler, H> {
    hash: H,
    sampler: S,
    states: Box<[S::State]>,
}

impl<S: Sampler, H: TableHash> Split<S, H> {
    /// A splitter with as many strata as the hash has places.
    #[must_use]
    pub fn new(mut sampler: S, hash: H) -> Split<S, H> {
        let states = (0..hash.places().get()).map(|_| sampler.initial()).collect();
        Split { hash, sampler, states }
    }
}

impl<T: Tuple, S: Sampler, H: TableHash> Compressor<T> for Split<S, H> {
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        let state = self.states.get_mut(self.hash.index(tuple.key()))?;
        self.sampler.take_one(state).map(|weight| Message { tuple, weight })
    }

    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        let state = self.states.get_mut(self.hash.index(message.tuple.key()))?;
        let weight = self.sampler.take(state, message.weight)?;
        Some(Message { weight, ..message })
    }

    fn drain(&mut self, _send: &mut dyn FnMut(Message<T>)) {}

    fn residue(&self) -> i128 {
        let held = self.states.iter().map(|state| i128::from(self.sampler.held(state)));
        self.sampler.settled() + held.sum::<i128>()
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.states)
    }
}

/// A splitter with any compressor in each stratum.
#[derive(Clone, Debug)]
pub struct SplitInto<X, H> {
    hash: H,
    strata: Box<[X]>,
}

impl<X, H: TableHash> SplitInto<X, H> {
    /// A splitter with as many strata as the hash has places.
    #[must_use]
    pub fn new(hash: H, mut stratum: impl FnMut() -> X) -> SplitInto<X, H> {
        let strata = (0..hash.places().get()).map(|_| stratum()).collect();
        SplitInto { hash, strata }
    }
}

impl<T: Tuple, X: Compressor<T>, H: TableHash> Compressor<T> for SplitInto<X, H> {
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        self.strata.get_mut(self.hash.index(tuple.key()))?.observe(tuple)
    }

    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        self.strata.get_mut(self.hash.index(message.tuple.key()))?.absorb(message)
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        for stratum in &mut self.strata {
            stratum.drain(send);
        }
    }

    fn residue(&self) -> i128 {
        self.strata.iter().map(Compressor::residue).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.strata.iter().map(Compressor::memory_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Rate, TableSize};
    use crate::hash::FastHash;
    use crate::sampler::Periodic;

    /// The example of section 3.3 of the paper: eight of each, and a sampler that sends two
    /// messages, always the right ones.
    #[test]
    fn a_stratum_of_one_tuple_is_sampled_without_error() {
        let n = TableSize::new(2).unwrap();
        let apart = |seed: &u64| {
            let hash = FastHash::new(n, *seed);
            hash.index([0, 0]) != hash.index([1, 0])
        };
        let seed = (0..).find(apart).unwrap();
        let sampler = Periodic::<u8>::new(Rate::new(8).unwrap()).unwrap();
        let mut split = Split::new(sampler, FastHash::new(n, seed));
        let stream = [0u64, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 0];
        let mut counts = [0; 2];
        for message in stream.iter().filter_map(|&tuple| split.observe(tuple)) {
            counts[message.tuple as usize] += message.weight;
        }
        assert_eq!(counts, [8, 8]);
        assert_eq!(Compressor::<u64>::residue(&split), 0);
    }
}
