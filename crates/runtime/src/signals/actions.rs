//! The program's signal actions.
//!
//! The program's handlers are not known to the kernel. It knows [`crate::signals::entry`], which
//! looks up in a table ([`crate::signals::table`]) what the program asked for. What the program is
//! told about its actions is what it would be told without strobe.
//!
//! * Actions are changed through the C library's `sigaction`. The table is written before the
//!   kernel learns of a handler and after it has forgotten one, so the entry always finds a
//!   handler.
//! * The kernel always delivers `siginfo_t`, so that a signal between those two steps finds what
//!   its handler expects, and blocks all signals until the entry has made up the handler's mask.
//! * The action for the runtime's own signal exists only in the table.
//!
//! A child of `vfork` shares the table with its parent, but not the actions: it talks to the kernel
//! directly.

use core::sync::atomic::Ordering::Relaxed;

use wire::control::TIMER_SIGNAL;
use wire::hello::LeftAlone;

use crate::process::{language_runtimes, session, withdrawal};
use crate::signals::entry;
use crate::signals::table::{Action, Wanted};
use crate::sys::abi::{IGNORE, KernelSigAction, N_SIGNALS, SigAction, bit, is_signal, sa};
use crate::sys::{real, syscall};
use crate::threads::lifecycle;

/// Takes over the runtime's signal and wraps all handlers that exist.
pub fn install() {
    take_over();
    for signal in (1..=N_SIGNALS as i32).filter(|&signal| signal != TIMER_SIGNAL) {
        wrap(signal);
    }
}

fn take_over() {
    // SAFETY: the entry for ticks runs any thread's signal as the program wants it.
    unsafe {
        if let Ok(old) = syscall::rt_sigaction(TIMER_SIGNAL, Some(&tick_action(sa::RESTART))) {
            let wanted = Wanted { handler: old.handler, flags: old.flags as u32, mask: old.mask };
            Action::of(TIMER_SIGNAL).set(&wanted);
        }
    }
}

/// Returns the kernel's action for ticks.
fn tick_action(restart: u32) -> KernelSigAction {
    KernelSigAction {
        handler: entry::tick_entry as *const () as u64,
        flags: u64::from(sa::SIGINFO | sa::ONSTACK | sa::RESTORER | restart),
        restorer: entry::restorer(),
        mask: u64::MAX,
    }
}

/// Returns whether the kernel delivers ticks to the runtime, or to nobody: while another thread
/// starts a program that is to ignore the signal, it is ignored.
pub fn owns_ticks() -> bool {
    // SAFETY: changes nothing.
    unsafe { syscall::rt_sigaction(TIMER_SIGNAL, None) }
        .is_ok_and(|action| is_ours(TIMER_SIGNAL, &action) || action.handler == IGNORE)
}

fn is_ours(signal: i32, action: &KernelSigAction) -> bool {
    let entry = if signal == TIMER_SIGNAL { entry::tick_entry as *const () as u64 } else { entry::address() };
    action.handler == entry
}

/// Gives the kernel the program's own actions, in the calling process.
pub fn uninstall() {
    (1..=N_SIGNALS as i32).for_each(uninstall_one);
}

/// Gives the kernel the program's own action for the signal of ticks.
pub fn uninstall_ticks() {
    uninstall_one(TIMER_SIGNAL);
}

fn uninstall_one(signal: i32) {
    // SAFETY: what is installed is what the program asked for, with the way back that it had.
    unsafe {
        let Some(old) = syscall::rt_sigaction(signal, None).ok().filter(|old| is_ours(signal, old)) else { return };
        if signal == TIMER_SIGNAL {
            // Has the kernel forget ticks that wait.
            let ignore = KernelSigAction { handler: IGNORE, ..KernelSigAction::default() };
            let _ = syscall::rt_sigaction(signal, Some(&ignore));
        }
        let wanted = Action::of(signal).get();
        let flags = u64::from(wanted.flags | sa::RESTORER);
        let own = KernelSigAction { handler: wanted.handler, flags, restorer: old.restorer, mask: wanted.mask };
        let _ = syscall::rt_sigaction(signal, Some(&own));
    }
}

/// Wraps the handler that `signal` has, if it has one.
pub fn wrap(signal: i32) {
    // SAFETY: the entry does what the handler's installer wanted.
    unsafe {
        let Ok(old) = syscall::rt_sigaction(signal, None) else { return };
        let wanted = Wanted { handler: old.handler, flags: old.flags as u32, mask: old.mask };
        if !wanted.has_handler() || old.handler == entry::address() {
            return;
        }
        Action::of(signal).set(&wanted);
        let wrapped = KernelSigAction {
            handler: entry::address(),
            flags: old.flags | u64::from(sa::SIGINFO),
            restorer: old.restorer,
            mask: u64::MAX,
        };
        count_wrapped(signal);
        let _ = syscall::rt_sigaction(signal, Some(&wrapped));
    }
}

/// Follows the system call `rt_sigaction`, made in exact mode by the program or by the C library: a
/// handler that the kernel called directly would see copies, so it is wrapped, and what the kernel
/// said of the old action is corrected. A call that installs the entry is the runtime's own.
///
/// # Safety
/// `new` and `old` must be what was passed to the call, which must have succeeded.
pub unsafe fn after_system_call(signal: i32, new: *const KernelSigAction, old: *mut KernelSigAction) {
    if !is_signal(signal) {
        return;
    }
    // SAFETY: the kernel has just read and written there.
    let (new, old) = unsafe { (new.as_ref(), old.as_mut()) };
    if new.is_some_and(|new| new.handler == entry::address()) {
        return;
    }
    let before = Action::of(signal).get();
    if let Some(old) = old.filter(|old| old.handler == entry::address()) {
        old.handler = before.handler;
        old.flags = old.flags & !u64::from(sa::SIGINFO) | u64::from(before.flags & sa::SIGINFO);
        old.mask = before.mask;
    }
    match new {
        Some(new) if signal == TIMER_SIGNAL && new.handler != entry::tick_entry as *const () as u64 => take_over(),
        Some(_) if signal != TIMER_SIGNAL => wrap(signal),
        _ => {}
    }
}

/// Tells the agent that the signal's handler goes through the runtime. The agent distrusts handlers
/// of which it does not know that.
fn count_wrapped(signal: i32) {
    if let Some(session) = session::attached() {
        session.control.process.wrapped_signals.fetch_or(bit(signal), Relaxed);
    }
}

/// Tells the agent which signals go through the runtime in a child that has joined: those of its
/// parent.
pub fn count_inherited() {
    (1..=N_SIGNALS as i32).filter(|&signal| Action::of(signal).get().has_handler()).for_each(count_wrapped);
    if Action::of(TIMER_SIGNAL).get().has_handler() {
        lifecycle::replace_perf_ticks();
    }
}

/// `sigaction` for the program.
///
/// # Safety
/// As for `sigaction`.
pub unsafe fn sigaction(signal: i32, new: *const SigAction, old: *mut SigAction) -> i32 {
    let Some(real) = real::SIGACTION.get() else { return -1 };
    // SAFETY: the program's pointers, for which it answers.
    unsafe {
        if !session::is_active() || !is_signal(signal) {
            return real(signal, new, old);
        }
        if !session::is_own_process() {
            let result = real(signal, new, old);
            if result == 0 && !old.is_null() {
                show_program(&mut *old, signal, &Action::of(signal).get());
            }
            return result;
        }
        if signal == TIMER_SIGNAL {
            // Go's runtime, in a library that has just been opened.
            if new
                .as_ref()
                .is_some_and(|new| Wanted::from_action(new).has_handler() && language_runtimes::is_go(new.handler))
            {
                withdrawal::withdraw(LeftAlone::Go);
            }
            return if withdrawal::has_begun() { real(signal, new, old) } else { virtual_action(new, old) };
        }
        change(real, signal, new, old)
    }
}

type RealSigaction = unsafe extern "C" fn(i32, *const SigAction, *mut SigAction) -> i32;

/// # Safety
/// As for `sigaction`.
unsafe fn change(real: RealSigaction, signal: i32, new: *const SigAction, old: *mut SigAction) -> i32 {
    let action = Action::of(signal);
    let before = action.get();
    let mut shown = SigAction::default();
    // SAFETY: the program's pointers, for which it answers.
    let result = unsafe {
        if new.is_null() {
            real(signal, new, &raw mut shown)
        } else {
            let wanted = Wanted::from_action(&*new);
            let mut adjusted = *new;
            if wanted.has_handler() {
                adjusted.mask[0] = u64::MAX;
                adjusted.handler = entry::address();
                adjusted.flags |= sa::SIGINFO;
                action.set(&wanted);
                count_wrapped(signal);
            }
            let result = real(signal, &raw const adjusted, &raw mut shown);
            // Again, because a handler may have changed the same action meanwhile, and this change
            // came last.
            action.set(if result == 0 { &wanted } else { &before });
            result
        }
    };
    if result == 0 && !old.is_null() {
        show_program(&mut shown, signal, &before);
        // SAFETY: as above.
        unsafe { *old = shown };
    }
    result
}

/// Makes `shown`, which is what the kernel says, what the program would see without strobe.
pub fn show_program(shown: &mut SigAction, signal: i32, before: &Wanted) {
    if signal == TIMER_SIGNAL {
        shown.handler = before.handler;
        shown.flags = before.flags;
        shown.mask[0] = before.mask;
    } else if shown.handler == entry::address() || shown.handler == before.handler {
        shown.handler = before.handler;
        shown.flags = shown.flags & !sa::SIGINFO | before.flags & sa::SIGINFO;
        shown.mask[0] = before.mask;
    }
}

/// Changes the program's action for the runtime's signal, which is kept here and hidden from the
/// kernel.
///
/// # Safety
/// As for `sigaction`.
unsafe fn virtual_action(new: *const SigAction, old: *mut SigAction) -> i32 {
    let action = Action::of(TIMER_SIGNAL);
    let before = action.get();
    // SAFETY: the program's pointers, for which it answers; the kernel's handler stays the same.
    unsafe {
        if !new.is_null() {
            let mut wanted = Wanted::from_action(&*new);
            wanted.flags |= sa::RESTORER;
            action.set(&wanted);
            let restart = if wanted.has_handler() { wanted.flags & sa::RESTART } else { sa::RESTART };
            let _ = syscall::rt_sigaction(TIMER_SIGNAL, Some(&tick_action(restart)));
            if wanted.has_handler() {
                count_wrapped(TIMER_SIGNAL);
                lifecycle::replace_perf_ticks();
            }
        }
        if !old.is_null() {
            let mut shown = SigAction { handler: before.handler, flags: before.flags, ..SigAction::default() };
            shown.mask[0] = before.mask;
            *old = shown;
        }
    }
    0
}

/// Calls `run`, which makes a process that inherits which signals are ignored, while the kernel
/// ignores the runtime's signal if the program wants it ignored.
pub fn with_true_action<T>(run: impl FnOnce() -> T) -> T {
    if Action::of(TIMER_SIGNAL).get().handler != IGNORE {
        return run();
    }
    let ignore = KernelSigAction { handler: IGNORE, ..KernelSigAction::default() };
    // SAFETY: installs no handler.
    let _ = unsafe { syscall::rt_sigaction(TIMER_SIGNAL, Some(&ignore)) };
    let result = run();
    // SAFETY: as in `take_over`.
    let _ = unsafe { syscall::rt_sigaction(TIMER_SIGNAL, Some(&tick_action(sa::RESTART))) };
    result
}

/// # Safety
/// As for `sigaction`.
pub unsafe extern "C" fn exported_sigaction(signal: i32, new: *const SigAction, old: *mut SigAction) -> i32 {
    // SAFETY: the program's call.
    unsafe { sigaction(signal, new, old) }
}
