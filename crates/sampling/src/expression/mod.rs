//! Compositions as text: `H[P256]2048 A16`.
//!
//! ```text
//! expression := stage { blank stage }
//! stage      := sampler | "C" | "C" sampler
//!             | "H" hash "[" expression "]" strata
//!             | "T" hash "[" rate { "," option } "]" entries      option := ("tag" | "ways" | "evict" | "replace") "=" number
//!             | "A" entries | "SS" entries | "MG" entries
//!             | "CM" "[" rows "," "heap" "=" entries "]" width
//! sampler    := ("R" | "P" | "D") rate
//! hash       := "" | ":fast" | ":paper"
//! ```
//!
//! What is printed is what was parsed, in one spelling: all options, one blank between stages.

mod parse;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::error::{Error, MAX_ENTRIES, ParseError, Rate, TableSize};
use crate::rivals::CountMinShape;
use crate::tagged::{TagShape, Thresholds};

/// Stages in a row; every composition that exists can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    stages: Box<[Stage]>,
}

impl Expression {
    /// Stages in a row, if there is one and all their tables together are not too large.
    pub fn new(stages: Box<[Stage]>) -> Result<Expression, Error> {
        if stages.is_empty() {
            return Err(Error::Empty);
        }
        let expression = Expression { stages };
        let n_entries = expression.n_entries();
        if n_entries > u64::from(MAX_ENTRIES) {
            return Err(Error::TooManyEntries(n_entries));
        }
        Ok(expression)
    }

    /// The stages, in order.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Entries of all tables, where a sampler counts as one.
    #[must_use]
    pub fn n_entries(&self) -> u64 {
        self.stages.iter().map(Stage::n_entries).fold(0, u64::saturating_add)
    }

    /// How many events a message stands for that has been picked once: the product of the rates.
    /// What has been added up by tuple counts as several picks. `None` if a stage does not pick,
    /// but loses what is rare.
    #[must_use]
    pub fn events_per_pick(&self) -> Option<u64> {
        self.stages.iter().try_fold(1u64, |product, stage| Some(product.saturating_mul(stage.events_per_pick()?)))
    }

    /// The stage, if it is the only one.
    pub(crate) fn only_stage(&self) -> Option<&Stage> {
        match &*self.stages {
            [stage] => Some(stage),
            _ => None,
        }
    }
}

/// One component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `R256`, `P256`, `D256`.
    Sampler(SamplerKind, Rate),
    /// `CR256`, `CP256`, `CD256`.
    CountedSampler(SamplerKind, Rate),
    /// `C`.
    Counter,
    /// `H[X]2048`.
    Split(Splitter),
    /// `A16`.
    Associative(TableSize),
    /// `T[256, ..]2048`.
    Tagged(Tagged),
    /// `SS512`.
    SpaceSaving(TableSize),
    /// `MG512`.
    MisraGries(TableSize),
    /// `CM[4, heap=128]1024`.
    CountMin(CountMinShape),
}

impl Stage {
    /// `H[inner]strata`.
    pub fn split(hash: HashKind, inner: Expression, strata: TableSize) -> Result<Stage, Error> {
        hash.check(strata)?;
        let n_entries = inner.n_entries().saturating_mul(u64::from(strata.get()));
        if n_entries > u64::from(MAX_ENTRIES) {
            return Err(Error::TooManyEntries(n_entries));
        }
        Ok(Stage::Split(Splitter { hash, inner, strata }))
    }

    /// `T[rate, ..]entries`.
    pub fn tagged(hash: HashKind, shape: TagShape, thresholds: Thresholds) -> Result<Stage, Error> {
        let sets = shape.sets()?;
        hash.check(sets)?;
        Ok(Stage::Tagged(Tagged { hash, shape, sets, thresholds }))
    }

    fn events_per_pick(&self) -> Option<u64> {
        match self {
            Stage::Sampler(_, rate) | Stage::CountedSampler(_, rate) => Some(rate.get().into()),
            Stage::Split(split) => split.inner.events_per_pick(),
            Stage::Tagged(tagged) => Some(tagged.shape.rate().get().into()),
            Stage::Associative(_) => Some(1),
            Stage::Counter | Stage::SpaceSaving(_) | Stage::MisraGries(_) | Stage::CountMin(_) => None,
        }
    }

    fn n_entries(&self) -> u64 {
        let of = |size: &TableSize| u64::from(size.get());
        match self {
            Stage::Sampler(..) | Stage::CountedSampler(..) | Stage::Counter => 1,
            Stage::Split(split) => {
                let strata = split.inner.n_entries().saturating_mul(of(&split.strata));
                strata.saturating_add(split.hash.n_entries())
            }
            Stage::Associative(n) | Stage::SpaceSaving(n) | Stage::MisraGries(n) => of(n),
            Stage::Tagged(tagged) => of(&tagged.shape.entries()).saturating_add(tagged.hash.n_entries()),
            Stage::CountMin(shape) => u64::from(shape.rows()) * of(&shape.width()) + of(&shape.heap()),
        }
    }
}

/// A checked `H[X]n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitter {
    hash: HashKind,
    inner: Expression,
    strata: TableSize,
}

impl Splitter {
    /// How tuples are assigned to strata.
    #[must_use]
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// What each stratum has.
    #[must_use]
    pub fn inner(&self) -> &Expression {
        &self.inner
    }

    /// The number of strata.
    #[must_use]
    pub fn strata(&self) -> TableSize {
        self.strata
    }
}

/// A checked `T[..]n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    hash: HashKind,
    shape: TagShape,
    pub(crate) sets: TableSize,
    thresholds: Thresholds,
}

impl Tagged {
    /// How tuples are assigned to sets.
    #[must_use]
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Sizes of the table.
    #[must_use]
    pub fn shape(&self) -> TagShape {
        self.shape
    }

    /// When entries are given up.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }
}

/// The samplers that have a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplerKind {
    /// `R`.
    Random,
    /// `P`.
    Periodic,
    /// `D`.
    Countdown,
}

/// The hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// A folded multiplication; nothing, or `:fast`.
    Fast,
    /// The paper's; `:paper`.
    Paper,
}

impl HashKind {
    fn check(self, places: TableSize) -> Result<(), Error> {
        let fits = self == HashKind::Fast || places.get().is_power_of_two();
        if fits { Ok(()) } else { Err(Error::NotAPowerOfTwo(places.get())) }
    }

    /// What its own table weighs, in entries of 4 bytes.
    fn n_entries(self) -> u64 {
        match self {
            HashKind::Fast => 0,
            HashKind::Paper => 64,
        }
    }
}

impl FromStr for Expression {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Expression, ParseError> {
        parse::parse(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.stages.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{stage}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Sampler(kind, rate) => write!(f, "{kind}{}", rate.get()),
            Stage::CountedSampler(kind, rate) => write!(f, "C{kind}{}", rate.get()),
            Stage::Counter => write!(f, "C"),
            Stage::Split(Splitter { hash, inner, strata }) => write!(f, "H{hash}[{inner}]{}", strata.get()),
            Stage::Associative(n) => write!(f, "A{}", n.get()),
            Stage::Tagged(Tagged { hash, shape, thresholds, .. }) => write!(
                f,
                "T{hash}[{}, tag={}, ways={}, evict={}, replace={}]{}",
                shape.rate().get(),
                shape.tag_bits(),
                shape.ways(),
                thresholds.evict(),
                thresholds.replace(),
                shape.entries().get()
            ),
            Stage::SpaceSaving(n) => write!(f, "SS{}", n.get()),
            Stage::MisraGries(n) => write!(f, "MG{}", n.get()),
            Stage::CountMin(shape) => {
                write!(f, "CM[{}, heap={}]{}", shape.rows(), shape.heap().get(), shape.width().get())
            }
        }
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SamplerKind::Random => "R",
            SamplerKind::Periodic => "P",
            SamplerKind::Countdown => "D",
        })
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HashKind::Fast => "",
            HashKind::Paper => ":paper",
        })
    }
}
