//! What the agent does to itself: reads the time-stamp counter, and ends as the target did.

/// The time-stamp counter, which the runtime stamps samples with.
#[must_use]
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ends this process by a signal, so that whoever waits for it sees what happened to the target. Returns only if the signal does not
/// end processes. Leaves no core dump: the target has left its own.
pub fn die_by(signal: i32) {
    let no_core = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, no_core);
    // SAFETY: the default action is no handler, so no code of ours runs in it; raising a signal touches no memory.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
