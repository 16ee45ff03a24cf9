//! What the program does in ways of its own: system calls by way of `syscall`, and `raise`.
//!
//! A signal action set by a system call would take the runtime's place, or put a handler where no
//! runtime stands before it; code made writable is about to change; a filter of system calls may
//! forbid the runtime's. So these calls are looked at; all others go to the C library's function as
//! they are.

use wire::control::TIMER_SIGNAL;

use crate::exact::return_to_copy::returning;
use crate::process::tail_call::tail_call;
use crate::process::{filters, self_modification, session};
use crate::signals::{actions, masks, table};
use crate::sys::abi::{KernelSigAction, SigAction, SigInfo, is_signal};
use crate::sys::syscall::number::{MPROTECT, PRCTL, RT_SIGACTION, SECCOMP};
use crate::sys::{real, syscall};

tail_call! {
    /// `syscall` for the program: the number, then up to six arguments, the last one on the stack.
    ///
    /// # Safety
    /// As for `syscall`.
    #[unsafe(export_name = "syscall")]
    fn exported_syscall, first argument "rdi" in [RT_SIGACTION, MPROTECT, PRCTL, SECCOMP], real real::SYSCALL, target target
}

/// Returns where a system call with this number and these first arguments goes.
extern "C" fn target(number: u64, first: u64, second: u64, third: u64) -> u64 {
    let Some(real) = real::SYSCALL.get() else { return unavailable as *const () as u64 };
    if number == MPROTECT {
        self_modification::before_protection(first, second, third as i32);
    }
    filters::before_system_call(number, first, second, third);
    let is_ours = number == RT_SIGACTION && session::is_active() && session::is_own_process();
    if is_ours { returning_rt_sigaction as *const () as u64 } else { real as *const () as u64 }
}

extern "C" fn unavailable() -> i64 {
    -1
}

returning! {
    /// Jumped to.
    returning_rt_sigaction calls rt_sigaction
}

/// `rt_sigaction` for the program.
unsafe extern "C" fn rt_sigaction(
    number: i64,
    signal: i32,
    new: *const KernelSigAction,
    old: *mut KernelSigAction,
    set_bytes: usize,
) -> i64 {
    let Some(real) = real::SYSCALL.get() else { return -1 };
    // SAFETY: the program's pointers, for which it answers.
    unsafe {
        if !is_signal(signal) || set_bytes != 8 {
            return real(number, signal, new, old, set_bytes);
        }
        let before = table::wanted(signal);
        let result = if signal == TIMER_SIGNAL {
            let action = new.as_ref().map(from_kernel);
            let action = action.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            i64::from(actions::sigaction(signal, action, core::ptr::null_mut()))
        } else {
            let result = real(number, signal, new, old, set_bytes);
            if result == 0 && !new.is_null() {
                actions::wrap(signal);
            }
            result
        };
        if let Some(old) = old.as_mut().filter(|_| result == 0) {
            let mut shown = from_kernel(old);
            actions::show_program(&mut shown, signal, &before);
            *old = KernelSigAction {
                handler: shown.handler,
                flags: u64::from(shown.flags),
                mask: shown.mask[0],
                restorer: old.restorer,
            };
        }
        result
    }
}

fn from_kernel(action: &KernelSigAction) -> SigAction {
    let mut converted = SigAction { handler: action.handler, flags: action.flags as u32, ..SigAction::default() };
    converted.mask[0] = action.mask;
    converted.restorer = action.restorer;
    converted
}

tail_call! {
    /// `raise` for the program.
    ///
    /// # Safety
    /// As for `raise`.
    #[unsafe(no_mangle)]
    fn raise, first argument "edi" in [TIMER_SIGNAL], real real::RAISE, target raise_target
}

/// Returns where `raise` goes.
extern "C" fn raise_target(signal: i32) -> u64 {
    let is_ours = signal == TIMER_SIGNAL && session::attached().is_some() && session::is_own_process();
    match real::RAISE.get() {
        Some(real) if !is_ours => real as *const () as u64,
        Some(_) => returning_raise_own as *const () as u64,
        None => unavailable as *const () as u64,
    }
}

returning! {
    /// Jumped to.
    returning_raise_own calls raise_own
}

/// Raises the runtime's signal for the program. A tick that waits for the thread would swallow it,
/// so none may.
extern "C" fn raise_own(signal: i32) -> i32 {
    masks::discard_pending_ticks();
    masks::resend(signal, SigInfo::sent(signal, SigInfo::TKILL, session::pid(), syscall::getuid()));
    0
}
