//! What the kernel charges for delivering one signal: entering the handler and returning from it.
//!
//! A tick handler stamps its own time, but not the way in and out. That is measured here with an
//! empty handler, by sending oneself the signal: the system call that sends it is part of the
//! price, and stands for the kernel's work of finding the timer expired.

use std::io;
use std::time::Instant;

use wire::control::TIMER_SIGNAL;

const BATCHES: usize = 8;
const SIGNALS_PER_BATCH: u32 = 100;

extern "C" fn ignore(_signal: libc::c_int) {}

/// Nanoseconds per signal, the least over several batches, because whatever disturbs only adds.
/// Takes about 2 ms.
///
/// # Errors
/// When the system refuses the handler.
pub fn delivery_ns() -> io::Result<f64> {
    // SAFETY: plain numbers and a pointer, for which zeros are fine.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: as above.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both places are valid; the handler does nothing, so that it may run anywhere.
    if unsafe { libc::sigaction(TIMER_SIGNAL, &action, &mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let batch = || {
        let started = Instant::now();
        for _ in 0..SIGNALS_PER_BATCH {
            // SAFETY: the signal has a handler that does nothing.
            unsafe { libc::raise(TIMER_SIGNAL) };
        }
        started.elapsed().as_nanos() as f64 / f64::from(SIGNALS_PER_BATCH)
    };
    let least = (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min);
    // SAFETY: the action that was there before.
    unsafe { libc::sigaction(TIMER_SIGNAL, &previous, std::ptr::null_mut()) };
    Ok(least)
}

#[cfg(test)]
mod tests {
    #[test]
    fn delivery_costs_something() {
        assert!(super::delivery_ns().unwrap() > 0.0);
    }
}
