//! Words of the path trace, or of the block log, out of the target ([`wire::path_trace`]).

use wire::events::EMPTY;
use wire::path_trace::{N_WORDS, RING};

use crate::process::Process;
use crate::ring::{self, Message};

impl Message<1> for u64 {
    const RING: u32 = RING;
    const CAPACITY: u32 = N_WORDS;

    fn from_words([word]: [u64; 1]) -> u64 {
        word
    }

    fn is_void([word]: [u64; 1]) -> bool {
        word == 0
    }
}

impl Process {
    /// Hands on the words that have arrived with the number of their area, in
    /// order for each area. Returns how many there were.
    pub fn drain_words(&self, sink: &mut dyn FnMut(usize, &[u64])) -> u64 {
        self.areas().enumerate().map(|(index, area)| ring::drain(&area, &mut |words| sink(index, words))).sum()
    }

    /// Hands on the words of a process that has ended: also what is left in
    /// buffers.
    pub fn salvage_words(&self, sink: &mut dyn FnMut(usize, &[u64])) -> u64 {
        let of_area = |(index, area)| {
            let mut sink = |words: &[u64]| sink(index, words);
            ring::drain(&area, &mut sink) + ring::take_rest(&area, EMPTY, &mut sink)
        };
        self.areas().enumerate().map(of_area).sum()
    }
}
