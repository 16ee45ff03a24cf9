//! The older ways to set a signal action, all by way of [`actions::sigaction`].

use core::sync::atomic::Ordering::Relaxed;

use crate::process::session;
use crate::signals::{actions, masks};
use crate::statics::INTERRUPTING;
use crate::sys::abi::{ERROR, HOLD, IGNORE, SigAction, SignalSet, bit, is_signal, sa};
use crate::sys::real;

const BLOCK: i32 = 0;
const UNBLOCK: i32 = 1;

/// Sets the action. The handler that it replaces, or [`ERROR`].
///
/// # Safety
/// The handler must be one that the program wants called.
unsafe fn set(signal: i32, handler: u64, flags: u32, mask: u64) -> u64 {
    let mut new = SigAction { handler, flags, ..SigAction::default() };
    new.mask[0] = mask;
    let mut old = SigAction::default();
    // SAFETY: both are complete.
    if unsafe { actions::sigaction(signal, &raw const new, &raw mut old) } == 0 { old.handler } else { ERROR }
}

/// `signal` with BSD semantics, which is what the C library's has.
///
/// # Safety
/// As for `signal`.
pub unsafe extern "C" fn signal(signal: i32, handler: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe {
        if !session::is_active() || !is_signal(signal) || handler == ERROR {
            return real::SIGNAL.get().map_or(ERROR, |real| real(signal, handler));
        }
        let is_interrupting = INTERRUPTING.load(Relaxed) & bit(signal) != 0;
        set(signal, handler, if is_interrupting { 0 } else { sa::RESTART }, bit(signal))
    }
}

/// # Safety
/// As for `signal`.
pub unsafe extern "C" fn bsd_signal(number: i32, handler: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe { signal(number, handler) }
}

/// # Safety
/// As for `signal`.
pub unsafe extern "C" fn ssignal(number: i32, handler: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe { signal(number, handler) }
}

/// # Safety
/// As for `sysv_signal`.
pub unsafe extern "C" fn sysv_signal(number: i32, handler: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe {
        if !is_signal(number) || handler == ERROR {
            return real::SIGNAL.get().map_or(ERROR, |real| real(number, handler));
        }
        set(number, handler, sa::RESETHAND | sa::NODEFER | sa::INTERRUPT, 0)
    }
}

/// # Safety
/// As for `sysv_signal`.
pub unsafe extern "C" fn __sysv_signal(number: i32, handler: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe { sysv_signal(number, handler) }
}

/// # Safety
/// As for `siginterrupt`.
pub unsafe extern "C" fn siginterrupt(signal: i32, interrupts: i32) -> i32 {
    let mut action = SigAction::default();
    // SAFETY: the program's call.
    unsafe {
        let result = actions::sigaction(signal, core::ptr::null(), &raw mut action);
        if result != 0 {
            return result;
        }
        if interrupts != 0 {
            INTERRUPTING.fetch_or(bit(signal), Relaxed);
            action.flags &= !sa::RESTART;
        } else {
            INTERRUPTING.fetch_and(!bit(signal), Relaxed);
            action.flags |= sa::RESTART;
        }
        actions::sigaction(signal, &raw const action, core::ptr::null_mut())
    }
}

/// # Safety
/// As for `sigset`.
pub unsafe extern "C" fn sigset(signal: i32, disposition: u64) -> u64 {
    // SAFETY: the program's call.
    unsafe {
        if !session::is_active() || !is_signal(signal) || disposition == ERROR {
            return real::SIGSET.get().map_or(ERROR, |real| real(signal, disposition));
        }
        let how = if disposition == HOLD { BLOCK } else { UNBLOCK };
        let mut before = SigAction::default();
        if actions::sigaction(signal, core::ptr::null(), &raw mut before) != 0
            || disposition != HOLD && set(signal, disposition, 0, 0) == ERROR
        {
            return ERROR;
        }
        let was_blocked = change_one(how, signal);
        if was_blocked { HOLD } else { before.handler }
    }
}

/// # Safety
/// As for `sighold`.
pub unsafe extern "C" fn sighold(signal: i32) -> i32 {
    // SAFETY: the program's call.
    unsafe { hold(BLOCK, signal) }
}

/// # Safety
/// As for `sigrelse`.
pub unsafe extern "C" fn sigrelse(signal: i32) -> i32 {
    // SAFETY: the program's call.
    unsafe { hold(UNBLOCK, signal) }
}

/// # Safety
/// As for `sigignore`.
pub unsafe extern "C" fn sigignore(signal: i32) -> i32 {
    // SAFETY: the program's call.
    if unsafe { set(signal, IGNORE, 0, 0) } == ERROR { -1 } else { 0 }
}

/// # Safety
/// As for `sighold` and `sigrelse`.
unsafe fn hold(how: i32, signal: i32) -> i32 {
    let mut unused = SigAction::default();
    // SAFETY: the program's call. Asking for the action of what is no signal fails and sets
    // `errno`.
    unsafe {
        if !is_signal(signal) {
            return actions::sigaction(signal, core::ptr::null(), &raw mut unused);
        }
        change_one(how, signal);
    }
    0
}

/// Blocks or unblocks one signal. Returns whether it was blocked.
///
/// # Safety
/// As for `sigprocmask`.
unsafe fn change_one(how: i32, signal: i32) -> bool {
    let mut set: SignalSet = [0; 16];
    set[0] = bit(signal);
    let mut old: SignalSet = [0; 16];
    // SAFETY: both sets are complete.
    unsafe { masks::sigprocmask(how, &raw const set, &raw mut old) };
    old[0] & bit(signal) != 0
}
