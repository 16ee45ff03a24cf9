//! Which of many similar cases are tried: every seventh, say, and others in the next run.
//!
//! All of them take minutes and say little more. `STROBE_TEST_SEED` chooses which
//! (`cargo xtask test` says what it was); as many consecutive seeds as one case is tried of try
//! them all. `STROBE_TEST_FULL=1` tries all at once.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Every `one_in`th of these.
pub fn sampled<T>(cases: impl Iterator<Item = T>, one_in: usize) -> impl Iterator<Item = T> {
    let (first, one_in) = if is_full() { (0, 1) } else { (seed() % one_in, one_in) };
    cases.skip(first).step_by(one_in)
}

fn is_full() -> bool {
    std::env::var_os("STROBE_TEST_FULL").is_some_and(|value| value == "1")
}

/// Printed by each test that uses it, which is shown if the test fails.
fn seed() -> usize {
    static SEED: OnceLock<usize> = OnceLock::new();
    let seed = *SEED.get_or_init(|| match std::env::var("STROBE_TEST_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("STROBE_TEST_SEED={text}: not a whole number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as usize),
    });
    println!("STROBE_TEST_SEED={seed}");
    seed
}
