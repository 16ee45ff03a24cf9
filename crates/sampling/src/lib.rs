//! Stream compressors: a long stream of events becomes a short stream of *messages*, each a tuple
//! and the number of occurrences that it stands for.
//!
//! The components are those of "Rapid Profiling via Stratified Sampling" (Sastry, Bodík, Smith),
//! and are composed freely:
//!
//! | text | component | type |
//! |---|---|---|
//! | `R256` | picks each message with probability 1/256; stands for 256 times its weight | [`Random`] |
//! | `P256` | picks the message with every 256th occurrence | [`Periodic`] |
//! | `D256` | picks messages at random distances, uniform in 1..512, as ProfileMe does | [`Countdown`] |
//! | `C` | counts, and sends nothing | [`Counter`] |
//! | `CR256` | a sampler whose messages stand for all since its last one | [`Counted`] |
//! | `H[X]2048` | splits the stream by a hash of the tuple, one `X` for each part | [`Split`], [`SplitInto`] |
//! | `A16` | counts in a table of 16 tuples; what falls out is sent; loses nothing | [`Associative`] |
//! | `T[256, tag=2, ways=2, evict=64, replace=8]2048` | counters with partial tags | [`TagTable`] |
//! | `SS512`, `MG512`, `CM[4, heap=128]1024` | rivals that keep the most frequent tuples | [`SpaceSaving`], [`MisraGries`], [`CountMin`] |
//! | `X Y` | the messages of `X` go through `Y` | [`Pipeline`] |
//!
//! `H:paper[..]` and `T:paper[..]` hash as the paper does. An [`Expression`] is such a text,
//! checked; [`Expression::build`] makes a [`Dynamic`] compressor. Where speed matters, name the
//! types: everything is generic and inlines.
//!
//! # Invariants
//!
//! * **Counts are conserved.** At any time, the weight taken in is the weight of all messages sent
//!   plus [`Compressor::residue`], exactly, as long as the total stays below 2^63.
//! * **At most one message out for each one in**, so that a compressor needs no queue.
//! * **No allocation after construction**, and no floating point in a compressor: it can run in a
//!   signal handler of another program.
//! * **Deterministic**: the same seed and the same stream give the same messages.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod associative;
mod compressor;
pub mod convergence;
mod cursor;
mod dynamic;
mod error;
mod expression;
mod hash;
mod heap;
mod index;
pub mod metrics;
mod pipeline;
mod rivals;
mod sampler;
pub mod selector;
mod split;
mod tagged;

pub use associative::Associative;
pub use compressor::{Compressor, Message, Tuple};
pub use dynamic::Dynamic;
pub use error::{Error, MAX_ENTRIES, MAX_RATE, ParseError, Rate, TableSize};
pub use expression::{Expression, HashKind, SamplerKind, Splitter, Stage, Tagged};
pub use hash::{AnyHash, FastHash, PaperHash, TableHash};
pub use pipeline::Pipeline;
pub use rivals::{CountMin, CountMinShape, MisraGries, SpaceSaving};
pub use sampler::{Count, Countdown, Counted, Counter, Periodic, Random, Sampler, Whole};
pub use split::{Split, SplitInto};
pub use tagged::{Replacement, TagShape, TagTable, Thresholds};
