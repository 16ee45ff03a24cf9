//! `X Y`: the messages of one compressor are the stream of the next.

use crate::compressor::{Compressor, Message, Tuple};

/// Two compressors in a row.
#[derive(Clone, Debug)]
pub struct Pipeline<X, Y>(pub X, pub Y);

impl<T: Tuple, X: Compressor<T>, Y: Compressor<T>> Compressor<T> for Pipeline<X, Y> {
    #[inline]
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        self.0.observe(tuple).and_then(|message| self.1.absorb(message))
    }

    #[inline]
    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        self.0.absorb(message).and_then(|message| self.1.absorb(message))
    }

    fn observe_all(&mut self, tuples: &[T], send: &mut impl FnMut(Message<T>)) {
        let Pipeline(first, second) = self;
        first.observe_all(tuples, &mut |message| {
            if let Some(message) = second.absorb(message) {
                send(message);
            }
        });
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        let Pipeline(first, second) = self;
        first.drain(&mut |message| {
            if let Some(message) = second.absorb(message) {
                send(message);
            }
        });
        second.drain(send);
    }

    fn residue(&self) -> i128 {
        self.0.residue() + self.1.residue()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes() + self.1.memory_bytes()
    }
}
