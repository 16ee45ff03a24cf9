//! Cancellation of threads.
//!
//! The C library cancels a thread by a signal whose handler unwinds the thread's stack, starting
//! from the interrupted address, so it must never see a copy. It installs that handler inside the
//! first call of `pthread_cancel` and sends the signal in the same breath, too fast to wrap it. So
//! before the program's first cancellation the runtime makes one of its own: it cancels a thread
//! that does nothing, which gets the handler installed, and wraps it.

use core::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::process::session;
use crate::signals::actions;
use crate::statics::{CANCEL_PROGRESS, IDLE_THREAD_MAY_END};
use crate::sys::{real, syscall};

/// The C library's signal for cancellation.
const CANCEL_SIGNAL: i32 = 32;

/// How far wrapping the handler has come.
pub mod progress {
    pub const NOT_STARTED: u32 = 0;
    pub const UNDER_WAY: u32 = 1;
    pub const DONE: u32 = 2;
}

/// `pthread_cancel` for the program.
///
/// # Safety
/// As for `pthread_cancel`.
pub unsafe extern "C" fn pthread_cancel(thread: u64) -> i32 {
    const ENOSYS: i32 = 38;
    let Some(real) = real::PTHREAD_CANCEL.get() else { return ENOSYS };
    if session::attached().is_some() {
        wrap_handler_once();
    }
    // SAFETY: the program's call.
    unsafe { real(thread) }
}

fn wrap_handler_once() {
    use progress::{DONE, NOT_STARTED, UNDER_WAY};
    if CANCEL_PROGRESS.load(Acquire) == DONE {
        return;
    }
    if CANCEL_PROGRESS.compare_exchange(NOT_STARTED, UNDER_WAY, AcqRel, Acquire).is_ok() {
        cancel_idle_thread();
        actions::wrap(CANCEL_SIGNAL);
        CANCEL_PROGRESS.store(DONE, Release);
        syscall::futex_wake(&CANCEL_PROGRESS);
    }
    while CANCEL_PROGRESS.load(Acquire) != DONE {
        syscall::futex_wait(&CANCEL_PROGRESS, UNDER_WAY);
    }
}

fn cancel_idle_thread() {
    let (Some(create), Some(cancel), Some(join)) =
        (real::PTHREAD_CREATE.get(), real::PTHREAD_CANCEL.get(), real::PTHREAD_JOIN.get())
    else {
        return;
    };
    let mut thread = 0;
    // SAFETY: the C library's own functions; the thread runs `idle` and is joined.
    unsafe {
        IDLE_THREAD_MAY_END.store(0, Relaxed);
        if create(&raw mut thread, core::ptr::null(), idle as *const () as u64, 0) == 0 {
            cancel(thread);
            IDLE_THREAD_MAY_END.store(1, Release);
            syscall::futex_wake(&IDLE_THREAD_MAY_END);
            join(thread, core::ptr::null_mut());
        }
    }
}

/// Waits for its cancellation, which it does not notice: there is no cancellation point here.
extern "C" fn idle(_: u64) -> u64 {
    while IDLE_THREAD_MAY_END.load(Acquire) == 0 {
        syscall::futex_wait(&IDLE_THREAD_MAY_END, 0);
    }
    0
}
