//! The timer of a thread: a POSIX timer on its CPU clock that sends it [`TIMER_SIGNAL`].
//!
//! Such timers expire when the kernel returns to the thread's user code, so they never interrupt a system call.

use wire::control::{TICK_COOKIE, TIMER_SIGNAL};

use crate::abi::Timespec;
use crate::syscall::{self, Errno};

/// Shortest interval that is ever set; a shorter one would leave no time for the program.
const MIN_INTERVAL_NS: u64 = 50_000;

#[repr(C)]
struct Event {
    value: u64,
    signal: i32,
    notify: i32,
    tid: u32,
    padding: [u32; 11],
}

#[repr(C)]
#[derive(Default)]
struct Setting {
    interval: Timespec,
    first: Timespec,
}

/// Makes a timer for the calling thread, `tid`.
pub fn create(tid: u32) -> Result<i32, Errno> {
    const CLOCK_THREAD_CPUTIME_ID: usize = 3;
    const SIGEV_THREAD_ID: i32 = 4;
    let event = Event { value: TICK_COOKIE, signal: TIMER_SIGNAL, notify: SIGEV_THREAD_ID, tid, padding: [0; 11] };
    let mut id = 0i32;
    let arguments = [CLOCK_THREAD_CPUTIME_ID, &raw const event as usize, &raw mut id as usize, 0, 0, 0];
    // SAFETY: both structures are complete.
    unsafe { syscall::raw(222, arguments) }?;
    Ok(id)
}

/// Lets the timer expire after `first_ns` and then every `interval_ns` of CPU time.
pub fn arm(id: i32, first_ns: u64, interval_ns: u64) {
    let setting = Setting {
        interval: Timespec::from_ns(interval_ns.max(MIN_INTERVAL_NS)),
        first: Timespec::from_ns(first_ns.max(1)),
    };
    set(id, &setting);
}

/// Stops the timer; it can be armed again. The time that was left until it would have expired.
pub fn disarm(id: i32) -> u64 {
    set(id, &Setting::default()).first.as_ns()
}

/// Sets the timer. What it was set to, with the time left until it expired.
fn set(id: i32, setting: &Setting) -> Setting {
    let mut old = Setting::default();
    // SAFETY: both structures are complete.
    let _ = unsafe {
        syscall::raw(223, [id as usize, 0, core::ptr::from_ref(setting) as usize, &raw mut old as usize, 0, 0])
    };
    old
}

pub fn delete(id: i32) {
    // SAFETY: touches no memory.
    let _ = unsafe { syscall::raw(226, [id as usize, 0, 0, 0, 0, 0]) };
}

/// A pseudo-random number; `state` moves on (Steele, Lea, Flood: SplitMix).
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A random time in (0, `interval_ns`], so that threads shorter than the interval are not invisible.
pub fn random_phase(state: &mut u64, interval_ns: u64) -> u64 {
    random(state) % interval_ns.max(1) + 1
}

const _: () = assert!(size_of::<Event>() == 64);
