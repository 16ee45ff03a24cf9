//! Compressors that are made from an expression at run time.
//!
//! What is common is as fast as when written in types: samplers, and splitters with a sampler
//! inside, which keep their counters in as few bytes as the rate allows. Everything else is a tree.

use alloc::boxed::Box;

use crate::associative::Associative;
use crate::compressor::{Compressor, Message, Tuple};
use crate::error::{Rate, TableSize};
use crate::expression::{Expression, HashKind, SamplerKind, Stage};
use crate::hash::{AnyHash, FastHash, PaperHash};
use crate::pipeline::Pipeline;
use crate::rivals::{CountMin, MisraGries, SpaceSaving};
use crate::sampler::{Countdown, Counted, Counter, Periodic, Random, Whole};
use crate::split::{Split, SplitInto};
use crate::tagged::TagTable;

/// Any composition; made by [`Expression::build`].
#[derive(Clone, Debug)]
pub struct Dynamic<T>(Node<T>);

type Row<T> = Box<Pipeline<Node<T>, Node<T>>>;

#[derive(Clone, Debug)]
enum Node<T> {
    Random(Whole<Random>),
    Periodic(Whole<Periodic>),
    Countdown(Whole<Countdown>),
    Counter(Whole<Counter>),
    CountedRandom(Whole<Counted<Random>>),
    CountedPeriodic(Whole<Counted<Periodic>>),
    CountedCountdown(Whole<Counted<Countdown>>),
    SplitRandom(Split<Random, AnyHash>),
    SplitPeriodic8(Split<Periodic<u8>, AnyHash>),
    SplitPeriodic16(Split<Periodic<u16>, AnyHash>),
    SplitPeriodic32(Split<Periodic<u32>, AnyHash>),
    SplitCountdown(Split<Countdown, AnyHash>),
    SplitCountedRandom(Split<Counted<Random>, AnyHash>),
    SplitInto(SplitInto<Node<T>, AnyHash>),
    Associative(Associative<T>),
    Tagged(TagTable<AnyHash>),
    SpaceSaving(SpaceSaving<T>),
    MisraGries(MisraGries<T>),
    CountMin(CountMin<T>),
    Pipeline(Row<T>),
}

impl Expression {
    /// A compressor; with the same seed, the same one.
    #[must_use]
    pub fn build<T: Tuple>(&self, seed: u64) -> Dynamic<T> {
        Dynamic::new(self, &mut fastrand::Rng::with_seed(seed))
    }
}

impl<T: Tuple> Dynamic<T> {
    fn new(expression: &Expression, seeds: &mut fastrand::Rng) -> Dynamic<T> {
        Dynamic(row(expression.stages(), seeds))
    }
}

fn row<T: Tuple>(stages: &[Stage], seeds: &mut fastrand::Rng) -> Node<T> {
    match stages {
        [] => Node::Counter(Whole::new(Counter)),
        [stage] => node(stage, seeds),
        [stage, rest @ ..] => {
            let first = node(stage, seeds);
            Node::Pipeline(Box::new(Pipeline(first, row(rest, seeds))))
        }
    }
}

fn node<T: Tuple>(stage: &Stage, seeds: &mut fastrand::Rng) -> Node<T> {
    let seed = seeds.u64(..);
    match stage {
        Stage::Sampler(SamplerKind::Random, rate) => Node::Random(Whole::new(Random::new(*rate, seed))),
        Stage::Sampler(SamplerKind::Periodic, rate) => Node::Periodic(Whole::new(Periodic::wide(*rate))),
        Stage::Sampler(SamplerKind::Countdown, rate) => Node::Countdown(Whole::new(Countdown::new(*rate, seed))),
        Stage::CountedSampler(kind, rate) => counted(*kind, *rate, seed),
        Stage::Counter => Node::Counter(Whole::new(Counter)),
        Stage::Split(split) => splitter(split.inner(), any_hash(split.hash(), split.strata(), seed), seeds),
        Stage::Associative(n) => Node::Associative(Associative::new(*n, seed)),
        Stage::Tagged(tagged) => {
            let hash = any_hash(tagged.hash(), tagged.sets, seed);
            Node::Tagged(TagTable::new(tagged.shape(), tagged.thresholds(), hash))
        }
        Stage::SpaceSaving(n) => Node::SpaceSaving(SpaceSaving::new(*n, seed)),
        Stage::MisraGries(n) => Node::MisraGries(MisraGries::new(*n, seed)),
        Stage::CountMin(shape) => Node::CountMin(CountMin::new(*shape, seed)),
    }
}

fn counted<T>(kind: SamplerKind, rate: Rate, seed: u64) -> Node<T> {
    match kind {
        SamplerKind::Random => Node::CountedRandom(Whole::new(Counted(Random::new(rate, seed)))),
        SamplerKind::Periodic => Node::CountedPeriodic(Whole::new(Counted(Periodic::wide(rate)))),
        SamplerKind::Countdown => Node::CountedCountdown(Whole::new(Counted(Countdown::new(rate, seed)))),
    }
}

fn splitter<T: Tuple>(inner: &Expression, hash: AnyHash, seeds: &mut fastrand::Rng) -> Node<T> {
    let seed = seeds.u64(..);
    match inner.only_stage() {
        Some(Stage::Sampler(SamplerKind::Random, rate)) => {
            Node::SplitRandom(Split::new(Random::new(*rate, seed), hash))
        }
        Some(Stage::Sampler(SamplerKind::Periodic, rate)) => periodic_splitter(*rate, hash),
        Some(Stage::Sampler(SamplerKind::Countdown, rate)) => {
            Node::SplitCountdown(Split::new(Countdown::new(*rate, seed), hash))
        }
        Some(Stage::CountedSampler(SamplerKind::Random, rate)) => {
            Node::SplitCountedRandom(Split::new(Counted(Random::new(*rate, seed)), hash))
        }
        _ => Node::SplitInto(SplitInto::new(hash, || row(inner.stages(), seeds))),
    }
}

/// Counters of one byte up to a rate of 256.
fn periodic_splitter<T>(rate: Rate, hash: AnyHash) -> Node<T> {
    if let Some(sampler) = Periodic::<u8>::new(rate) {
        Node::SplitPeriodic8(Split::new(sampler, hash))
    } else if let Some(sampler) = Periodic::<u16>::new(rate) {
        Node::SplitPeriodic16(Split::new(sampler, hash))
    } else {
        Node::SplitPeriodic32(Split::new(Periodic::wide(rate), hash))
    }
}

/// An expression has checked that the paper's hash can have that many places.
fn any_hash(kind: HashKind, places: TableSize, seed: u64) -> AnyHash {
    match (kind, PaperHash::new(places, seed)) {
        (HashKind::Paper, Ok(hash)) => AnyHash::Paper(hash),
        _ => AnyHash::Fast(FastHash::new(places, seed)),
    }
}

/// The same for whatever a node is.
macro_rules! each {
    ($node:expr, $inner:ident => $what:expr) => {
        match $node {
            Node::Random($inner) => $what,
            Node::Periodic($inner) => $what,
            Node::Countdown($inner) => $what,
            Node::Counter($inner) => $what,
            Node::CountedRandom($inner) => $what,
            Node::CountedPeriodic($inner) => $what,
            Node::CountedCountdown($inner) => $what,
            Node::SplitRandom($inner) => $what,
            Node::SplitPeriodic8($inner) => $what,
            Node::SplitPeriodic16($inner) => $what,
            Node::SplitPeriodic32($inner) => $what,
            Node::SplitCountdown($inner) => $what,
            Node::SplitCountedRandom($inner) => $what,
            Node::SplitInto($inner) => $what,
            Node::Associative($inner) => $what,
            Node::Tagged($inner) => $what,
            Node::SpaceSaving($inner) => $what,
            Node::MisraGries($inner) => $what,
            Node::CountMin($inner) => $what,
            Node::Pipeline($inner) => $what,
        }
    };
}

impl<T: Tuple> Compressor<T> for Node<T> {
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        each!(self, inner => inner.observe(tuple))
    }

    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        each!(self, inner => inner.absorb(message))
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        each!(self, inner => Compressor::<T>::drain(inner, send));
    }

    fn residue(&self) -> i128 {
        each!(self, inner => Compressor::<T>::residue(inner))
    }

    fn memory_bytes(&self) -> usize {
        each!(self, inner => Compressor::<T>::memory_bytes(inner))
    }
}

impl<T: Tuple> Compressor<T> for Dynamic<T> {
    fn observe(&mut self, tuple: T) -> Option<Message<T>> {
        self.0.observe(tuple)
    }

    fn absorb(&mut self, message: Message<T>) -> Option<Message<T>> {
        self.0.absorb(message)
    }

    fn observe_all(&mut self, tuples: &[T], send: &mut impl FnMut(Message<T>)) {
        each!(&mut self.0, inner => inner.observe_all(tuples, send));
    }

    fn drain(&mut self, send: &mut dyn FnMut(Message<T>)) {
        self.0.drain(send);
    }

    fn residue(&self) -> i128 {
        self.0.residue()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}
