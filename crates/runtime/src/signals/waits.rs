//! Calls that replace the signal mask while they wait, or wait for signals.
//!
//! A temporary mask never blocks the runtime's signals; what it says about them is what the program
//! believes meanwhile. Signals that the program waits for are taken as they come, except that a
//! tick is none of them.

use core::sync::atomic::Ordering::Relaxed;

use crate::bursts::tick;
use crate::signals::masks::{self, HIDDEN};
use crate::sys::abi::{SigInfo, SignalSet, Timespec};
use crate::sys::real;

/// Calls `wait` with the program's temporary mask, less the signals of the runtime.
///
/// # Safety
/// `mask` must be null or point to a set.
unsafe fn with_mask<T>(mask: *const SignalSet, wait: impl Fn(*const SignalSet) -> T) -> T {
    // SAFETY: the program's set.
    let Some((mask, private)) = unsafe { mask.as_ref() }.zip(masks::own_private()) else { return wait(mask) };
    let hidden = if masks::is_virtual(private) { HIDDEN } else { 0 };
    let passed = masks::without(mask, hidden);
    if hidden != 0 {
        masks::settle(private);
    }
    let before = private.wait_with(passed[0]);
    let believed = private.blocked_by_program.load(Relaxed);
    private.blocked_by_program.store(believed & !hidden | mask[0] & hidden, Relaxed);
    let result = wait(&passed);
    private.blocked_by_program.store(believed, Relaxed);
    private.end_wait(&before);
    result
}

/// # Safety
/// As for `sigsuspend`.
pub unsafe extern "C" fn sigsuspend(mask: *const SignalSet) -> i32 {
    let Some(real) = real::SIGSUSPEND.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(mask)) }
}

/// # Safety
/// As for `ppoll`.
pub unsafe extern "C" fn ppoll(files: *mut u8, count: u64, timeout: *const Timespec, mask: *const SignalSet) -> i32 {
    let Some(real) = real::PPOLL.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(files, count, timeout, mask)) }
}

/// # Safety
/// As for `ppoll`, which programs compiled with checks call by this name.
pub unsafe extern "C" fn __ppoll_chk(
    files: *mut u8,
    count: u64,
    timeout: *const Timespec,
    mask: *const SignalSet,
    bytes: usize,
) -> i32 {
    let Some(real) = real::PPOLL_CHK.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(files, count, timeout, mask, bytes)) }
}

/// # Safety
/// As for `pselect`.
pub unsafe extern "C" fn pselect(
    count: i32,
    read: *mut u8,
    write: *mut u8,
    except: *mut u8,
    timeout: *const Timespec,
    mask: *const SignalSet,
) -> i32 {
    let Some(real) = real::PSELECT.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(count, read, write, except, timeout, mask)) }
}

/// # Safety
/// As for `epoll_pwait`.
pub unsafe extern "C" fn epoll_pwait(
    epoll: i32,
    events: *mut u8,
    count: i32,
    timeout_ms: i32,
    mask: *const SignalSet,
) -> i32 {
    let Some(real) = real::EPOLL_PWAIT.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(epoll, events, count, timeout_ms, mask)) }
}

/// # Safety
/// As for `epoll_pwait2`.
pub unsafe extern "C" fn epoll_pwait2(
    epoll: i32,
    events: *mut u8,
    count: i32,
    timeout: *const Timespec,
    mask: *const SignalSet,
) -> i32 {
    let Some(real) = real::EPOLL_PWAIT2.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe { with_mask(mask, |mask| real(epoll, events, count, timeout, mask)) }
}

/// # Safety
/// As for `sigtimedwait`.
pub unsafe extern "C" fn sigtimedwait(set: *const SignalSet, info: *mut SigInfo, timeout: *const Timespec) -> i32 {
    let Some(real) = real::SIGTIMEDWAIT.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe {
        if !waits_for_hidden(set) {
            return real(set, info, timeout);
        }
        let mut whole = [0u64; 16];
        let own_info = if info.is_null() { (&raw mut whole).cast() } else { info };
        loop {
            let signal = real(set, own_info, timeout);
            let is_tick = signal > 0 && tick::genuine_tick(signal, &*own_info).is_some();
            let is_for_other = signal > 0 && !is_tick && masks::forward(signal, &mut *own_info);
            if !is_tick && !is_for_other {
                if masks::with_virtual_mask().is_some() {
                    masks::unblock(HIDDEN);
                }
                return signal;
            }
        }
    }
}

/// # Safety
/// As for `sigwaitinfo`.
pub unsafe extern "C" fn sigwaitinfo(set: *const SignalSet, info: *mut SigInfo) -> i32 {
    // SAFETY: the program's call.
    unsafe { sigtimedwait(set, info, core::ptr::null()) }
}

/// # Safety
/// As for `sigwait`.
pub unsafe extern "C" fn sigwait(set: *const SignalSet, signal: *mut i32) -> i32 {
    const EINTR: i32 = 4;
    const ENOSYS: i32 = 38;
    let (Some(real), Some(errno)) = (real::SIGWAIT.get(), real::ERRNO_LOCATION.get()) else { return ENOSYS };
    // SAFETY: the program's call.
    unsafe {
        if !waits_for_hidden(set) {
            return real(set, signal);
        }
        let errno = errno();
        let before = *errno;
        loop {
            let got = sigtimedwait(set, core::ptr::null_mut(), core::ptr::null());
            let error = core::mem::replace(&mut *errno, before);
            if got > 0 {
                *signal = got;
                return 0;
            } else if error != EINTR {
                return error;
            }
        }
    }
}

/// # Safety
/// As for `sigpending`.
pub unsafe extern "C" fn sigpending(set: *mut SignalSet) -> i32 {
    let Some(real) = real::SIGPENDING.get() else { return -1 };
    // SAFETY: the program's call.
    unsafe {
        let result = real(set);
        if result == 0 && waits_for_hidden(set) {
            (*set)[0] = (*set)[0] & !HIDDEN | masks::discard_pending_ticks();
        }
        result
    }
}

/// Returns whether the program, in a profiled thread, waits for a signal that the runtime uses.
///
/// # Safety
/// `set` must point to a set.
unsafe fn waits_for_hidden(set: *const SignalSet) -> bool {
    // SAFETY: the program's set.
    unsafe { (*set)[0] & HIDDEN != 0 && masks::own_private().is_some() }
}
