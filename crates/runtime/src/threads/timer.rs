//! The timer of a thread: a POSIX timer on its CPU clock that sends it [`TIMER_SIGNAL`].
//!
//! Such timers expire when the kernel returns to the thread's user code, so they never interrupt a
//! system call.

use wire::control::{TICK_COOKIE, TIMER_SIGNAL};

use crate::sys::abi::{SignalEvent, TimerSetting, Timespec};
use crate::sys::syscall::{self, Clock, Errno};

/// Shortest interval that is ever set; a shorter one would leave no time for the program.
const MIN_INTERVAL_NS: u64 = 50_000;

/// Makes a timer for the calling thread, `tid`.
pub fn create(tid: u32) -> Result<i32, Errno> {
    syscall::timer_create(Clock::ThreadCpu, &SignalEvent::to_thread(tid, TIMER_SIGNAL, TICK_COOKIE))
}

/// Lets the timer expire after `first_ns` and then every `interval_ns` of CPU time.
pub fn arm(id: i32, first_ns: u64, interval_ns: u64) {
    let setting = TimerSetting {
        interval: Timespec::from_ns(interval_ns.max(MIN_INTERVAL_NS)),
        first: Timespec::from_ns(first_ns.max(1)),
    };
    syscall::timer_settime(id, &setting);
}

/// Stops the timer, which can be armed again. Returns the time that was left until it would have
/// expired.
pub fn disarm(id: i32) -> u64 {
    syscall::timer_settime(id, &TimerSetting::default()).first.as_ns()
}

/// Returns a pseudo-random number; `state` moves on (Steele, Lea, Flood: SplitMix).
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a random time in (0, `interval_ns`], so that threads shorter than the interval are not
/// invisible.
pub fn random_phase(state: &mut u64, interval_ns: u64) -> u64 {
    random(state) % interval_ns.max(1) + 1
}
