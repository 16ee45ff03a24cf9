//! Signal masks.
//!
//! A profiled thread does not block the runtime's signals. Where the program blocks one, the runtime remembers that and says so when asked; the
//! rest of each set reaches the kernel as it is.
//!
//! The exceptions are handlers of the program. The kernel sets their masks and takes them back, so there everything is real: what the program
//! believes to have blocked is blocked on entry ([`enter_handler`]), shown in the context, and changes inside the handler pass to the kernel. After the
//! handler the kernel has restored the mask of the context, in which such signals are blocked, and no tick comes until the program changes its mask
//! the next time. Only threads that block a signal of the runtime and nevertheless run handlers are affected.
//!
//! Whether a thread is in a handler is told from its stack pointer: code of the handler runs below the signal's frame. The answer "yes" may be
//! wrong for code that is merely deep; it then has its signals blocked for real.
//!
//! A signal of the runtime's number that was sent to the program, while the program believes it blocked, is [`postpone`]d.

use core::sync::atomic::Ordering::Relaxed;

use wire::control::{PERF_SIGNAL, TIMER_SIGNAL};

use crate::abi::{SigInfo, SignalSet, UContext, bit, register};
use crate::area::{self, Area, Private};
use crate::session;
use crate::signals::{self, RUNTIME_SIGNALS};
use crate::syscall::{self, MaskChange};
use crate::{real, thread};

const BLOCK: i32 = 0;
const UNBLOCK: i32 = 1;

type RealMask = unsafe extern "C" fn(i32, *const SignalSet, *mut SignalSet) -> i32;

/// The runtime's signals as a set.
pub fn hidden() -> u64 {
    if signals::is_of_runtime(PERF_SIGNAL) { RUNTIME_SIGNALS } else { bit(TIMER_SIGNAL) }
}

/// # Safety
/// As for `pthread_sigmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    const ENOSYS: i32 = 38;
    // SAFETY: the program's call.
    real::PTHREAD_SIGMASK.get().map_or(ENOSYS, |real| unsafe { change(real, how, new, old) })
}

/// # Safety
/// As for `sigprocmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    // SAFETY: the program's call.
    real::SIGPROCMASK.get().map_or(-1, |real| unsafe { change(real, how, new, old) })
}

/// # Safety
/// As for `sigprocmask`.
unsafe fn change(real: RealMask, how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    // SAFETY: the program's call.
    unsafe {
        match own_private() {
            None => real(how, new, old),
            Some(private) if is_in_handler(private, stack_pointer()) => change_in_handler(real, private, how, new, old),
            Some(private) => change_outside(real, private, how, new, old),
        }
    }
}

/// In a handler: only what the runtime itself added to the mask is hidden.
///
/// # Safety
/// As for `sigprocmask`.
unsafe fn change_in_handler(
    real: RealMask,
    private: &Private,
    how: i32,
    new: *const SignalSet,
    old: *mut SignalSet,
) -> i32 {
    let added = private.added_for_handler.load(Relaxed);
    // SAFETY: the program's pointers, for which it answers.
    unsafe {
        let kept = new.as_ref().map(|&new| {
            let mut kept = new;
            kept[0] = if how == UNBLOCK { new[0] & !added } else { new[0] | added };
            kept
        });
        let result = real(how, kept.as_ref().map_or(core::ptr::null(), core::ptr::from_ref), old);
        if result == 0 && let Some(old) = old.as_mut() {
            old[0] &= !added;
        }
        result
    }
}

/// # Safety
/// As for `sigprocmask`.
unsafe fn change_outside(
    real: RealMask,
    private: &Private,
    how: i32,
    new: *const SignalSet,
    old: *mut SignalSet,
) -> i32 {
    let hidden = hidden();
    let mut kernel_old = [0; 16];
    // SAFETY: the program's pointers, for which it answers.
    unsafe {
        let stripped = new.as_ref().map(|new| without(new, hidden));
        let result = real(how, stripped.as_ref().map_or(core::ptr::null(), core::ptr::from_ref), &raw mut kernel_old);
        if result != 0 {
            return result;
        }
        let believed = leave_handler(private, kernel_old[0] & hidden);
        if let Some(new) = new.as_ref() {
            let named = new[0] & hidden;
            let believes = match how {
                BLOCK => believed | named,
                UNBLOCK => believed & !named,
                _ => named,
            };
            private.blocked_by_program.store(believes, Relaxed);
            // A signal that waits must come now, to be handled or postponed again.
            if kernel_old[0] & hidden != 0 {
                unblock(hidden);
            }
        }
        if let Some(old) = old.as_mut() {
            // The C library writes no more of a set than the kernel knows.
            old[0] = kernel_old[0] & !hidden | believed;
        }
    }
    0
}

/// Notes that the thread is in no handler, and takes over what the kernel has blocked since the last one. What the program believes blocked.
fn leave_handler(private: &Private, blocked_by_kernel: u64) -> u64 {
    private.handler_frame.store(0, Relaxed);
    let added = private.added_for_handler.swap(0, Relaxed);
    let believed = private.blocked_by_program.load(Relaxed) | blocked_by_kernel & !added;
    private.blocked_by_program.store(believed, Relaxed);
    believed
}

/// Prepares the mask for a handler of the program whose frame is at `frame`; `added` is what the runtime added to its mask.
pub fn enter_handler(context: &mut UContext, frame: u64, added: u64) {
    let Some(private) = own_private() else { return };
    if is_in_handler(private, context.registers[register::RSP]) {
        private.added_for_handler.fetch_or(added, Relaxed);
        return;
    }
    private.handler_frame.store(frame, Relaxed);
    private.added_for_handler.store(added, Relaxed);
    let believed = private.blocked_by_program.load(Relaxed);
    if believed != 0 {
        context.mask |= believed;
        syscall::rt_sigprocmask(MaskChange::Block, believed);
    }
}

/// Whether code of the thread with this stack pointer can be in the handler that was entered last.
fn is_in_handler(private: &Private, stack_pointer: u64) -> bool {
    const MAX_DEPTH: u64 = 1 << 20;
    let frame = private.handler_frame.load(Relaxed);
    frame != 0 && frame.wrapping_sub(stack_pointer) < MAX_DEPTH
}

/// If `signal`, which was sent to the program, is blocked as far as the program knows: makes it so, and sends the signal again, so that it is pending, as
/// `sigpending`, `sigwait` and `signalfd` can see. Whether it did.
pub fn postpone(signal: i32, info: &SigInfo, context: &mut UContext) -> bool {
    const SI_TKILL: i32 = -6;
    let is_fault = info.code > 0;
    let is_blocked = own_private().is_some_and(|private| {
        private.blocked_by_program.load(Relaxed) & bit(signal) != 0
            && !is_in_handler(private, context.registers[register::RSP])
    });
    if !is_blocked || is_fault {
        return false;
    }
    if let Some(area) = session::attached().and_then(Area::own) {
        thread::pause_ticks(&area);
    }
    context.mask |= bit(signal);
    if info.code == SI_TKILL {
        syscall::queue_to_thread(session::pid(), syscall::gettid(), signal, info);
    } else {
        syscall::queue_to_process(session::pid(), signal, info);
    }
    true
}

/// Unblocks signals of the runtime in the calling thread, which is profiled.
pub fn unblock(signals: u64) {
    if let Some(area) = session::attached().and_then(Area::own) {
        thread::resume_ticks(&area);
    }
    syscall::rt_sigprocmask(MaskChange::Unblock, signals);
}

/// Makes the runtime's signals deliverable in the calling thread, which is new. Those that were blocked.
pub fn claim() -> u64 {
    let hidden = hidden();
    syscall::rt_sigprocmask(MaskChange::Unblock, hidden) & hidden
}

/// Calls `run`, which makes a process that inherits the calling thread's mask, with the mask that the program believes to have.
pub fn with_true_mask<T>(run: impl FnOnce() -> T) -> T {
    let blocked = with_virtual_mask().map_or(0, |private| private.blocked_by_program.load(Relaxed));
    if blocked == 0 {
        return run();
    }
    syscall::rt_sigprocmask(MaskChange::Block, blocked);
    let result = run();
    syscall::rt_sigprocmask(MaskChange::Unblock, blocked);
    result
}

/// The private part of the calling thread, if what the program knows of its mask differs from what the kernel knows.
pub fn with_virtual_mask() -> Option<&'static Private> {
    own_private().filter(|private| !is_in_handler(private, stack_pointer()))
}

fn own_private() -> Option<&'static Private> {
    if session::is_active() { area::own_private() } else { None }
}

fn stack_pointer() -> u64 {
    let here = 0u8;
    &raw const here as u64
}

pub fn without(set: &SignalSet, hidden: u64) -> SignalSet {
    let mut set = *set;
    set[0] &= !hidden;
    set
}
