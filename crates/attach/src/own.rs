//! What the agent does itself: reads the time-stamp counter, ends as the target did, and stops as
//! it did.

use crate::signal_set::{change_mask, signal_set};

/// Returns the time-stamp counter, which the runtime stamps samples with.
#[must_use]
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ends this process by a signal, so that whoever waits for it sees what happened to the target.
/// Returns only if the signal does not end processes. Leaves no core dump: the target has left its
/// own.
pub fn die_by(signal: i32) {
    let no_core = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, no_core);
    // SAFETY: the default action is no handler, so no code of ours runs in it; raising a signal
    // touches no memory.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // Whoever started this process may have blocked it.
    let _ = change_mask(libc::SIG_UNBLOCK, &signal_set(1 << (signal - 1)));
    // SAFETY: as above.
    unsafe { libc::raise(signal) };
}

/// Stops this process until it is continued, so that a shell sees what happened to the target. Not
/// by the signal that stopped that: its action would have to be changed, and the next one may come
/// meanwhile.
pub fn stop() {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGSTOP) };
}
