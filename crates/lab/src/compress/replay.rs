//! A stream through a compressor, with the error of the profile and the number of messages as the
//! stream goes on.
//!
//! Tuples and places are numbered once, so that profiles are arrays and an error is two passes over
//! them. At a checkpoint the profile is what software would know if it asked: all messages so far,
//! and what a copy of the compressor sends when it is drained.

use flow::Executor as _;
use recorder::Threads;
use rustc_hash::FxHashMap;
use sampling::metrics::{Relevance, invariance_error};
use sampling::{Compressor as _, Expression, Message};

use super::stream::{Pair, Stream};

/// Checkpoints in each factor of ten.
const CHECKPOINTS_PER_DECADE: f64 = 25.0;

/// The first checkpoint; with fewer events, hardly any place has occurred often enough to count.
const FIRST_CHECKPOINT: u64 = 10_000;

/// A stream whose tuples are numbered.
#[derive(Debug)]
pub struct Numbered<'a> {
    stream: &'a Stream,
    tuple_of_event: Vec<u32>,
    place_of_tuple: Vec<u32>,
    numbers: FxHashMap<Pair, u32>,
}

impl<'a> Numbered<'a> {
    /// Numbers tuples and places in the order of their first occurrence.
    #[must_use]
    pub fn new(stream: &'a Stream) -> Numbered<'a> {
        let mut places: FxHashMap<u64, u32> = FxHashMap::default();
        let mut numbers: FxHashMap<Pair, u32> = FxHashMap::default();
        let mut place_of_tuple = Vec::new();
        let tuple_of_event = stream.events.iter().map(|event| {
            *numbers.entry(*event).or_insert_with(|| {
                let next_place = places.len() as u32;
                place_of_tuple.push(*places.entry(event.0).or_insert(next_place));
                place_of_tuple.len() as u32 - 1
            })
        });
        let tuple_of_event = tuple_of_event.collect();
        Numbered { stream, tuple_of_event, place_of_tuple, numbers }
    }

    /// Different tuples of the stream.
    #[must_use]
    pub fn n_tuples(&self) -> usize {
        self.place_of_tuple.len()
    }

    /// Different places of the stream.
    #[must_use]
    pub fn n_places(&self) -> usize {
        self.place_of_tuple.iter().max().map_or(0, |&most| most as usize + 1)
    }

    fn note(&self, profile: &mut [u64], message: Message<Pair>) {
        if let Some(count) = self.numbers.get(&message.tuple).and_then(|&number| profile.get_mut(number as usize)) {
            *count += message.weight;
        }
    }
}

/// What one compressor made of a stream.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The compressor.
    pub expression: Expression,
    /// Bytes of its state.
    pub memory_bytes: usize,
    /// How it went.
    pub checkpoints: Vec<Checkpoint>,
    /// The final profile, by number of tuple.
    pub profile: Vec<u64>,
    /// Messages of the whole stream, with those of the final draining.
    pub n_messages: u64,
}

/// The state of affairs after some events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoint {
    /// Events seen.
    pub n_events: u64,
    /// The invariance error, if anything was relevant yet.
    pub error: Option<f64>,
    /// Messages sent.
    pub n_messages: u64,
}

impl Outcome {
    /// The error at the end.
    #[must_use]
    pub fn final_error(&self) -> Option<f64> {
        self.checkpoints.last().and_then(|checkpoint| checkpoint.error)
    }

    /// The error at the first checkpoint with at least so many events.
    #[must_use]
    pub fn error_at(&self, n_events: u64) -> Option<f64> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.n_events >= n_events)?.error
    }

    /// Events after which the error stays below a limit; `None` if it does not at the end.
    #[must_use]
    pub fn events_until_below(&self, limit: f64) -> Option<u64> {
        let is_below = |checkpoint: &&Checkpoint| checkpoint.error.is_some_and(|error| error < limit);
        let below = self.checkpoints.iter().rev().take_while(is_below);
        below.last().map(|checkpoint| checkpoint.n_events)
    }
}

/// Puts a stream through each compressor.
#[must_use]
pub fn replay(numbered: &Numbered, expressions: &[Expression], seed: u64, threads: Threads) -> Vec<Outcome> {
    threads.map(expressions, |expression| replay_one(numbered, expression, seed))
}

fn replay_one(numbered: &Numbered, expression: &Expression, seed: u64) -> Outcome {
    let events = &numbered.stream.events;
    let mut compressor = expression.build::<Pair>(seed);
    let mut exact = vec![0u64; numbered.n_tuples()];
    let mut sent = exact.clone();
    let mut profile = exact.clone();
    let mut n_messages = 0;
    let mut checkpoints = Vec::new();
    let mut start = 0;
    for end in checkpoint_ends(events.len()) {
        numbered.tuple_of_event[start..end].iter().for_each(|&tuple| exact[tuple as usize] += 1);
        compressor.observe_all(&events[start..end], &mut |message| {
            numbered.note(&mut sent, message);
            n_messages += 1;
        });
        profile.copy_from_slice(&sent);
        compressor.clone().drain(&mut |message| numbered.note(&mut profile, message));
        let error = invariance_error(&numbered.place_of_tuple, &exact, &profile, Relevance::PAPER);
        checkpoints.push(Checkpoint { n_events: end as u64, error: error.map(|error| error.mean), n_messages });
        start = end;
    }
    compressor.drain(&mut |_| n_messages += 1);
    let expression = expression.clone();
    Outcome { expression, memory_bytes: compressor.memory_bytes(), checkpoints, profile, n_messages }
}

/// In equal factors to the end of the stream.
fn checkpoint_ends(n_events: usize) -> Vec<usize> {
    let first = FIRST_CHECKPOINT as f64;
    let at = |step: u32| (first * 10f64.powf(f64::from(step) / CHECKPOINTS_PER_DECADE)).round() as usize;
    let before_end = (0..).map(at).take_while(|&end| end < n_events);
    before_end.chain((n_events > 0).then_some(n_events)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::synthetic::Zipf;
    use std::num::NonZeroUsize;

    const ONE: Threads = Threads(NonZeroUsize::MIN);

    fn outcomes(texts: &[&str]) -> Vec<Outcome> {
        let stream = "zipf:100:1:60k".parse::<Zipf>().unwrap().stream(3);
        let expressions: Vec<Expression> = texts.iter().map(|text| text.parse().unwrap()).collect();
        replay(&Numbered::new(&stream), &expressions, 1, ONE)
    }

    #[test]
    fn a_compressor_that_keeps_everything_has_no_error() {
        let [table, all] = outcomes(&["A20000", "P1"]).try_into().unwrap();
        assert!(table.checkpoints.iter().chain(&all.checkpoints).all(|checkpoint| checkpoint.error == Some(0.0)));
        assert_eq!(all.n_messages, 60_000);
        assert_eq!(table.profile, all.profile);
        assert_eq!(table.events_until_below(0.01), Some(10_000));
    }

    #[test]
    fn more_samples_have_less_error() {
        let [few, many] = outcomes(&["R64", "R4"]).try_into().unwrap();
        let errors = [&few, &many].map(|outcome| outcome.final_error().unwrap());
        assert!(errors[0] > errors[1] && errors[1] > 0.0, "{errors:?}");
        assert!(few.n_messages < many.n_messages);
        assert_eq!(few.events_until_below(0.0), None);
    }

    #[test]
    fn the_last_checkpoint_is_the_end() {
        assert_eq!(checkpoint_ends(0), Vec::<usize>::new());
        assert_eq!(checkpoint_ends(500), [500]);
        let ends = checkpoint_ends(100_000);
        assert_eq!((ends[0], ends[25], ends.len()), (10_000, 100_000, 26));
        assert!(ends.is_sorted());
    }
}
