//! What every component does: messages in, fewer messages out.

use alloc::boxed::Box;

/// What is counted: any small value that two words tell apart from others.
///
/// A profile tuple is typically a place in the code and what happened there: a load and its value,
/// a branch and its target.
pub trait Tuple: Copy + Eq {
    /// What hash functions see: usually the place and the value. Different tuples should have
    /// different keys.
    fn key(&self) -> [u64; 2];
}

impl Tuple for (u64, u64) {
    #[inline]
    fn key(&self) -> [u64; 2] {
        [self.0, self.1]
    }
}

impl Tuple for u64 {
    #[inline]
    fn key(&self) -> [u64; 2] {
        [*self, 0]
    }
}

/// A tuple and the number of occurrences that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<T> {
    /// What occurred.
    pub tuple: T,
    /// How often.
    pub weight: u64,
}

/// A component, or several of them composed.
pub trait Compressor<T: Tuple> {
    /// Takes one occurrence of a tuple.
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        self.absorb(Message { tuple, weight: 1 })
    }

    /// Takes a message of another compressor, or a tuple that occurred several times in a row.
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>>;

    /// Takes one occurrence of each tuple in turn; the same as [`observe`](Compressor::observe) for
    /// each, and faster where a component can tell without looking which of them it will pick.
    #[inline]
    fn observe_all(&mut self, tuples: &[T], send: &mut impl FnMut(Message<T>))
    where
        Self: Sized,
    {
        for &tuple in tuples {
            if let Some(message) = self.observe(tuple) {
                send(message);
            }
        }
    }

    /// Sends what is known by tuple but has not been sent, and forgets it. Samplers know nothing;
    /// tables do.
    fn drain(&mut self, send: &mut dyn FnMut(Message<T>));

    /// Occurrences taken in less occurrences that messages stood for.
    ///
    /// Negative for samplers that happened to pick more than their share.
    fn residue(&self) -> i128;

    /// Bytes of state, without what is shared by all instances of the type.
    fn memory_bytes(&self) -> usize;
}

impl<T: Tuple, X: Compressor<T>> Compressor<T> for Box<X> {
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        (**self).observe(tuple)
    }

    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        (**self).absorb(message)
    }

    #[inline]
    fn observe_all(&mut self, tuples: &[T], send: &mut impl FnMut(Message<T>)) {
        (**self).observe_all(tuples, send);
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        (**self).drain(send);
    }

    fn residue(&self) -> i128 {
        (**self).residue()
    }

    fn memory_bytes(&self) -> usize {
        (**self).memory_bytes()
    }
}
