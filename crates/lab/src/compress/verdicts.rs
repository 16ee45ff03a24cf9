//! Whether a stream shows what the paper says, claim by claim.
//!
//! Errors are those at the end of the stream unless a claim is about its beginning. A stream on
//! which nothing is frequent enough to have an error agrees with nothing.

use sampling::metrics::message_overhead;

use super::measured::{EQUAL_MEMORY, HP, HP_HALF, Measured, P, R, SECOND_LEVEL, SIZES, TAGGED};

/// Half of the messages, and what chance adds.
const HALF: f64 = 0.55;
/// R256 and P256 are alike if their errors differ by no more than this factor.
const ALIKE: f64 = 1.5;
/// The least factor by which a second level saves messages in the paper.
const LEAST_SAVING: f64 = 1.15;
const MAX_ERROR: f64 = 0.03;
const MAX_OVERHEAD: f64 = 0.045;
/// Where a stream has begun, and where errors should have settled.
const EARLY: u64 = 50_000;
const SETTLED: u64 = 1_000_000;

/// Claims, and whether the stream agrees.
pub(super) fn of(measured: &Measured<'_>) -> [(&'static str, bool); 8] {
    let error = |text: &str| measured.of(text).final_error().unwrap_or(f64::NAN);
    let error_at = |text: &str, n_events| measured.of(text).error_at(n_events).unwrap_or(f64::NAN);
    let [random, stratified] = measured.events_to_stay_below.map(|events| events.unwrap_or(u64::MAX));
    let [smallest, .., largest] = SIZES;
    let ratio = error(R) / error(P);
    let is_sooner = |text| error_at(text, SETTLED) < error_at(R, SETTLED);
    let (_, [in_least_memory, others @ ..]) = EQUAL_MEMORY[0];
    let cycles = measured.stream.instructions;
    let overhead = cycles.map_or(f64::NAN, |cycles| message_overhead(measured.of(HP).n_messages, cycles));
    let (first, second) = SECOND_LEVEL[1];
    [
        ("S3", stratified < random),
        ("S4", error(HP_HALF) <= error(R) && measured.times_the_messages(HP_HALF, R) <= HALF),
        ("S5", error(TAGGED) <= error(HP) && error(TAGGED) <= error(R)),
        ("S6", error_at(smallest, EARLY) < error_at(largest, EARLY)),
        ("S6b", (1.0 / ALIKE..=ALIKE).contains(&ratio) && is_sooner(HP) && is_sooner(TAGGED)),
        ("S7", measured.times_the_messages(first, second) >= LEAST_SAVING),
        ("S8", error(HP) < MAX_ERROR && overhead < MAX_OVERHEAD),
        ("S9", others.iter().all(|other| error(in_least_memory) <= error(other))),
    ]
}
