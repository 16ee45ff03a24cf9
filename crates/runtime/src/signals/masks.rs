//! Signal masks.
//!
//! A profiled thread does not block the runtime's signals. Where the program blocks one, the
//! runtime remembers that and says so when asked; the rest of each set reaches the kernel as it is.
//!
//! The exceptions are handlers of the program. The kernel sets their masks and takes them back, so
//! there everything is real: what the program believes to have blocked is blocked on entry
//! ([`enter_handler`]), shown in the context, and changes inside the handler pass to the kernel.
//! After the handler the kernel has restored the mask of the context, in which such signals are
//! blocked, and no tick comes until the program changes its mask the next time. Only threads that
//! block a signal of the runtime and nevertheless run handlers are affected.
//!
//! Whether a thread is in a handler is told from its stack: code of the handler runs below the
//! signal's frame, and the frame is intact. For that the runtime marks it, in words that the kernel
//! leaves unused. When the handler has been left, other code uses the place.
//!
//! A signal of the runtime's number that was sent to the program, while the program believes it
//! blocked, is [`postpone`]d.

use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use wire::control::{TICK_COOKIE, TIMER_SIGNAL};

use crate::bursts::tick;
use crate::process::session;
use crate::signals::table::Wanted;
use crate::sys::abi::{SigInfo, SignalSet, UContext, bit, register, sa};
use crate::sys::syscall::{self, MaskChange};
use crate::sys::{own_memory, real};
use crate::threads::area::{self, Area, Private};
use crate::threads::lifecycle;

const BLOCK: i32 = 0;
const UNBLOCK: i32 = 1;

type RealMask = unsafe extern "C" fn(i32, *const SignalSet, *mut SignalSet) -> i32;

/// The runtime's signal as a set.
pub const HIDDEN: u64 = bit(TIMER_SIGNAL);

/// # Safety
/// As for `pthread_sigmask`.
pub unsafe extern "C" fn pthread_sigmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    const ENOSYS: i32 = 38;
    // SAFETY: the program's call.
    real::PTHREAD_SIGMASK.get().map_or(ENOSYS, |real| unsafe { change(real, how, new, old) })
}

/// # Safety
/// As for `sigprocmask`.
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
        if result == 0
            && let Some(old) = old.as_mut()
        {
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
    let mut kernel_old = [0; 16];
    let believed = leave_handler(private);
    // SAFETY: the program's pointers, for which it answers.
    unsafe {
        let stripped = new.as_ref().map(|new| without(new, HIDDEN));
        if let Some(new) = new.as_ref() {
            let named = new[0] & HIDDEN;
            let believes = match how {
                BLOCK => believed | named,
                UNBLOCK => believed & !named,
                _ => named,
            };
            private.blocked_by_program.store(believes, Relaxed);
        }
        let result = real(how, stripped.as_ref().map_or(core::ptr::null(), core::ptr::from_ref), &raw mut kernel_old);
        if result != 0 {
            private.blocked_by_program.store(believed, Relaxed);
            return result;
        }
        // A handler that ran at once, or one before, leaves them blocked; a postponed signal must
        // come now.
        let had_handler = private.handler_frame.load(Relaxed) != 0;
        if stripped.is_some() && (had_handler || kernel_old[0] & HIDDEN != 0) {
            private.handler_frame.store(0, Relaxed);
            unblock(HIDDEN);
        }
        if let Some(old) = old.as_mut() {
            // The C library writes no more of a set than the kernel knows.
            old[0] = kernel_old[0] & !HIDDEN | believed;
        }
    }
    0
}

/// Notes that the thread is in no handler, and takes over what is blocked since the last one.
/// Returns what the program believes blocked.
fn leave_handler(private: &Private) -> u64 {
    let believed = private.blocked_by_program.load(Relaxed);
    if private.handler_frame.swap(0, Relaxed) == 0 {
        return believed;
    }
    let added = private.added_for_handler.swap(0, Relaxed);
    let blocked = syscall::rt_sigprocmask(MaskChange::Block, 0) & HIDDEN & !added;
    private.blocked_by_program.store(believed | blocked, Relaxed);
    believed | blocked
}

/// Prepares the context of a handler of the program, whose frame is at `frame`. The mask that the
/// handler runs with.
pub fn enter_handler(signal: i32, context: &mut UContext, frame: u64, wanted: &Wanted) -> u64 {
    let Some(private) = own_private() else { return context.mask | wanted.mask_for(signal) };
    let interrupted_at = context.registers[register::RSP];
    let is_nested = is_in_handler(private, interrupted_at);
    let interrupted = private.temporary_mask(context).unwrap_or(context.mask);
    let believed = if is_nested { 0 } else { private.blocked_by_program.load(Relaxed) };
    if believed != 0 {
        context.mask |= believed;
        hold_ticks();
    }
    let by_program = interrupted | believed | wanted.mask_for(signal);
    // The stack may be too small for a tick.
    let added = if wanted.flags & sa::ONSTACK != 0 { HIDDEN & !by_program } else { 0 };
    if is_nested {
        private.added_for_handler.fetch_or(added, Relaxed);
    } else {
        context.reserved = marks(frame);
        private.handler_frame.store(frame, Relaxed);
        private.added_for_handler.store(added, Relaxed);
    }
    by_program | added
}

/// Returns whether code of the thread with this stack pointer can be in the handler that was
/// entered last.
fn is_in_handler(private: &Private, stack_pointer: u64) -> bool {
    const MAX_DEPTH: u64 = 1 << 20;
    const MARKS_OFFSET: u64 = 8 + offset_of!(UContext, reserved) as u64;
    let frame = private.handler_frame.load(Relaxed);
    if frame == 0 || frame.wrapping_sub(stack_pointer) >= MAX_DEPTH {
        return false;
    }
    let mut found = [0u8; 64];
    let is_whole = own_memory::copy(frame + MARKS_OFFSET, &mut found) == found.len();
    is_whole && found.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).eq(marks(frame))
}

/// Returns what the unused words of the frame at `frame` hold while its handler runs.
fn marks(frame: u64) -> [u64; 8] {
    core::array::from_fn(|index| TICK_COOKIE.rotate_left(8 * index as u32) ^ frame)
}

/// If `signal`, which was sent to the program, is blocked as far as the program knows: makes it so,
/// and sends the signal again, so that it is pending, as `sigpending`, `sigwait` and `signalfd` can
/// see. Returns whether it did.
pub fn postpone(signal: i32, info: &SigInfo, context: &mut UContext) -> bool {
    let is_blocked = own_private().is_some_and(|private| {
        private.blocked_by_program.load(Relaxed) & bit(signal) != 0
            && !is_in_handler(private, context.registers[register::RSP])
    });
    if !is_blocked {
        return false;
    }
    hold_ticks();
    context.mask |= bit(signal);
    resend(signal, *info);
    true
}

/// Before the thread waits with a temporary mask: lets ticks that were held up come now, because in
/// the wait they would interrupt it.
pub fn settle(private: &Private) {
    if private.handler_frame.load(Relaxed) != 0 {
        leave_handler(private);
        unblock(HIDDEN);
    }
}

/// Stops ticks before a signal of the runtime stays blocked for a while: a tick must not wait,
/// where the program could find it, nor take the place of a signal of the same number.
fn hold_ticks() {
    if let Some(area) = session::attached().and_then(Area::own) {
        lifecycle::pause_ticks(&area);
        discard_pending_ticks();
    }
}

/// Takes back ticks that wait. Returns whether a signal of the program with such a number waits.
pub fn discard_pending_ticks() -> u64 {
    let mut waiting = 0;
    while let Some((signal, info)) = syscall::take_pending(HIDDEN & !waiting) {
        if tick::genuine_tick(signal, &info).is_none() {
            waiting |= bit(signal);
            resend(signal, info);
        }
    }
    waiting
}

/// Sends a signal that was meant for the program once more.
///
/// The kernel drops a signal to a thread if one of that number already waits there, as a tick may.
/// Ticks never wait for the process as a whole, so to the only thread the signal goes that way; if
/// another thread gets it in the end, it can tell from `errno` whom it is for.
pub fn resend(signal: i32, mut info: SigInfo) {
    let tid = syscall::gettid();
    if info.code == SigInfo::TKILL {
        info.errno = tid as i32;
    }
    if info.code == SigInfo::TKILL && !(tid == session::pid() && is_only_thread()) {
        syscall::queue_to_thread(session::pid(), tid, signal, &info);
    } else {
        syscall::queue_to_process(session::pid(), signal, &info);
    }
}

/// If another thread was meant by [`resend`], sends the signal there. Returns whether it did.
pub fn forward(signal: i32, info: &mut SigInfo) -> bool {
    let meant = if info.code == SigInfo::TKILL { info.errno as u32 } else { 0 };
    if meant == 0 || meant == syscall::gettid() {
        info.errno = 0;
        return false;
    }
    syscall::tgkill(session::pid(), meant, signal);
    true
}

fn is_only_thread() -> bool {
    session::attached().is_none_or(|session| {
        let control = session.control;
        let ended = control.threads.ended.load(Relaxed);
        control.threads.started.load(Relaxed).wrapping_sub(ended) == 1 && control.threads.unprofiled.load(Relaxed) == 0
    })
}

/// Unblocks signals of the runtime in the calling thread, which is profiled.
pub fn unblock(signals: u64) {
    if let Some(area) = session::attached().and_then(Area::own) {
        lifecycle::resume_ticks(&area);
    }
    syscall::rt_sigprocmask(MaskChange::Unblock, signals);
}

/// Makes the runtime's signals deliverable in the calling thread, which is new. Those that were
/// blocked.
pub fn claim() -> u64 {
    syscall::rt_sigprocmask(MaskChange::Unblock, HIDDEN) & HIDDEN
}

/// Calls `run`, which makes a process that inherits the calling thread's mask, with the mask that
/// the program believes to have.
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

/// Returns whether the calling thread, to which `private` belongs, is in no handler.
pub fn is_virtual(private: &Private) -> bool {
    !is_in_handler(private, stack_pointer())
}

/// Returns the private part of the calling thread, if what the program knows of its mask differs
/// from what the kernel knows.
pub fn with_virtual_mask() -> Option<&'static Private> {
    own_private().filter(|private| is_virtual(private))
}

pub fn own_private() -> Option<&'static Private> {
    if session::is_active() { area::own_private() } else { None }
}

fn stack_pointer() -> u64 {
    let here = 0u8;
    &raw const here as u64
}

/// A mask that the program has set for the time of one call.
pub struct Temporary {
    mask: u64,
    waiting_at: u64,
}

impl Private {
    /// Notes that the thread is about to wait with `mask`. Returns what was noted before.
    pub fn wait_with(&self, mask: u64) -> Temporary {
        let waiting_at = self.waiting_at.swap(stack_pointer(), Relaxed);
        Temporary { mask: self.waiting_mask.swap(mask, Relaxed), waiting_at }
    }

    pub fn end_wait(&self, before: &Temporary) {
        self.waiting_at.store(before.waiting_at, Relaxed);
        self.waiting_mask.store(before.mask, Relaxed);
    }

    /// Returns the temporary mask of a wait that was interrupted at `context`, which itself has the
    /// mask from before the wait.
    fn temporary_mask(&self, context: &UContext) -> Option<u64> {
        const EINTR: u64 = 4;
        const MAX_FRAMES_BYTES: u64 = 4096;
        let registers = &context.registers;
        let depth = self.waiting_at.load(Relaxed).wrapping_sub(registers[register::RSP]);
        (depth < MAX_FRAMES_BYTES && registers[register::RAX] == EINTR.wrapping_neg())
            .then(|| self.waiting_mask.load(Relaxed))
    }
}

pub fn without(set: &SignalSet, hidden: u64) -> SignalSet {
    let mut set = *set;
    set[0] &= !hidden;
    set
}
