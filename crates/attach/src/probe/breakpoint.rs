//! What a hit of a breakpoint that only counts takes from the program.
//!
//! A thread calls a function that does nothing, with a breakpoint on it and without. If the kernel
//! does not find every call, which some virtual machines do not let it, breakpoints cannot be used.

use std::io;
use std::time::Instant;

use crate::breakpoints::{Breakpoints, MOST_HITS};

const BATCHES: usize = 4;
const CALLS_PER_BATCH: u64 = MOST_HITS / 8;

#[inline(never)]
fn called() {
    std::hint::black_box(());
}

/// Nanoseconds per hit, the least over several batches, because whatever disturbs only adds. Takes
/// about 3 ms.
///
/// # Errors
/// When there are no breakpoints for this user, or they miss calls.
pub fn breakpoint_ns() -> io::Result<f64> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let breakpoints = Breakpoints::new(tid, &[called as *const () as u64])?;
    let batch = || {
        let started = Instant::now();
        (0..CALLS_PER_BATCH).for_each(|_| called());
        started.elapsed().as_nanos() as f64 / CALLS_PER_BATCH as f64
    };
    breakpoints.switch_on()?;
    let least = (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min);
    breakpoints.switch_off()?;
    let n_calls = BATCHES as u64 * CALLS_PER_BATCH;
    match breakpoints.hits()?.first() {
        Some(hits) if hits.n == n_calls => Ok(least),
        _ => Err(io::Error::other("breakpoints do not find every call")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hits_take_time() {
        assert!(super::breakpoint_ns().unwrap() > 100.0);
    }
}
