//! A forked child that waits for the first tick of its only thread, at which it joins.

use core::sync::atomic::Ordering::Relaxed;

use crate::statics::{WAITING_INDEX, WAITING_TID, WAITING_TIMER};
use crate::sys::{clock, syscall};
use crate::threads::{lifecycle, timer};

const NOBODY: u32 = 0;
const NO_TIMER: i32 = -1;

/// Returns the index of the calling thread's private part while it waits to join.
pub fn waiting_thread() -> Option<usize> {
    let tid = WAITING_TID.load(Relaxed);
    (tid != NOBODY && tid == syscall::gettid()).then(|| WAITING_INDEX.load(Relaxed) as usize)
}

/// Gives the only thread of a forked child, which had this area in the parent, a timer; its first
/// tick joins the session.
pub fn wait_for_tick(index: u32) {
    let tid = syscall::gettid();
    WAITING_INDEX.store(index, Relaxed);
    WAITING_TID.store(tid, Relaxed);
    let interval_ns = lifecycle::last_interval_ns();
    let mut random = clock::rdtsc();
    if let Ok(id) = timer::create(tid) {
        WAITING_TIMER.store(id, Relaxed);
        timer::arm(id, timer::random_phase(&mut random, interval_ns), interval_ns);
    }
}

/// Forgets the wait of the parent, in a child that has just been forked.
pub fn forget() {
    WAITING_TID.store(NOBODY, Relaxed);
    WAITING_TIMER.store(NO_TIMER, Relaxed);
}

/// Ends the wait of the calling thread; returns the index of its area, if it was waiting.
pub fn stop_waiting() -> Option<usize> {
    let index = waiting_thread()?;
    WAITING_TID.store(NOBODY, Relaxed);
    let id = WAITING_TIMER.swap(NO_TIMER, Relaxed);
    if id != NO_TIMER {
        syscall::timer_delete(id);
    }
    Some(index)
}
