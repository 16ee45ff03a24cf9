//! The compressors that claims are about, and what they made of a stream.

use super::replay::Outcome;
use super::report::error_text;
use super::stream::Stream;

pub(super) const R: &str = "R256";
pub(super) const P: &str = "P256";
pub(super) const HP: &str = "H[P256]2048";
pub(super) const HP_HALF: &str = "H[P512]2048";
pub(super) const TAGGED: &str = "T[256]2048";
/// The tagged compressor with other notions of "enough" hits, which the paper does not give.
pub(super) const TAGGED_EAGER: &str = "T[256, evict=16]2048";
pub(super) const TAGGED_PATIENT: &str = "T[256, evict=128]2048";
pub(super) const SIZES: [&str; 4] = ["H[P256]512", "H[P256]1024", HP, "H[P256]4096"];
pub(super) const SECOND_LEVEL: [(&str, &str); 3] =
    [(R, "R256 A16"), (HP, "H[P256]2048 A16"), (TAGGED, "T[256]2048 A16")];

/// Compressors of the rate of `H[P256]2048`, or nearly, that do not keep step with loops: what is
/// repeated is mostly repeated in multiples of small numbers, and a stratum with two tuples of a
/// loop then always sends the same one.
pub(super) const OUT_OF_STEP: [&str; 4] = ["H[P251]2048", "H[D256]2048", "H[CD256]2048", "H[CR256]2048"];

/// Groups of the same memory: 43 bytes for each tuple of Space-Saving and Misra-Gries, 4 for a
/// counter of Count-Min.
pub(super) const EQUAL_MEMORY: [(&str, [&str; 5]); 3] = [
    ("2 KiB", ["H[P256]2048", "T[256]256", "SS48", "MG48", "CM[4, heap=16]88"]),
    ("16 KiB", ["H[P256]16384", "T[256]2048", "SS384", "MG384", "CM[4, heap=128]704"]),
    ("128 KiB", ["H[P256]131072", "T[256]16384", "SS3072", "MG3072", "CM[4, heap=1024]5632"]),
];

/// Returns all compressors, in order.
pub(super) fn all_expressions() -> Vec<&'static str> {
    let mut all = vec![R, P, HP, HP_HALF, TAGGED, TAGGED_EAGER, TAGGED_PATIENT];
    all.extend(SIZES);
    all.extend(SECOND_LEVEL.iter().map(|(_, second)| second));
    all.extend(OUT_OF_STEP);
    all.extend(EQUAL_MEMORY.iter().flat_map(|(_, group)| group));
    all.sort_unstable();
    all.dedup();
    all
}

/// What the compressors made of one stream.
pub(super) struct Measured<'a> {
    pub stream: &'a Stream,
    pub outcomes: Vec<Outcome>,
    /// Of [`R`] and [`HP`].
    pub events_to_stay_below: [Option<u64>; 2],
}

impl Measured<'_> {
    /// The outcome of one of [`all_expressions`], which are in order.
    pub fn of(&self, text: &str) -> &Outcome {
        let index = all_expressions().binary_search(&text).expect("an expression of the list");
        &self.outcomes[index]
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.stream.name, self.stream.kind)
    }

    pub fn error(&self, text: &str) -> String {
        error_text(self.of(text).final_error())
    }

    /// How many times the messages of another compressor.
    pub fn times_the_messages(&self, text: &str, other: &str) -> f64 {
        self.of(text).n_messages as f64 / self.of(other).n_messages.max(1) as f64
    }

    pub fn messages_ratio(&self, text: &str, other: &str) -> String {
        format!("{:.2}", self.times_the_messages(text, other))
    }
}
