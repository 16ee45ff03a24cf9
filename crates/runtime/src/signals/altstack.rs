//! Alternate signal stacks.
//!
//! Ticks must not need room on the program's stacks, which can be as small as coroutines are. Each
//! profiled thread that has no alternate stack gets one of the runtime's. The program does not see
//! it: for the program such a thread has none, and handlers that ask for one (`SA_ONSTACK`) run
//! where they would without strobe. For that, [`move_frame`] moves a signal frame off the runtime's
//! stack before the handler runs.

use core::sync::atomic::Ordering::Relaxed;

use wire::thread::MAX_THREADS;

use crate::process::{first_tick, session};
use crate::statics::SIGNAL_STACKS;
use crate::sys::abi::{SignalStack, UContext, register};
use crate::sys::real;
use crate::sys::syscall::{self, Errno};
use crate::threads::area::Area;

/// Bytes of one of the runtime's stacks.
pub const STACK_BYTES: u64 = 32 << 10;
const ALL_BYTES: u64 = MAX_THREADS as u64 * STACK_BYTES;

/// Reserves the stacks.
pub fn prepare() -> Result<(), Errno> {
    SIGNAL_STACKS.store(syscall::reserve_memory(ALL_BYTES)?, Relaxed);
    Ok(())
}

/// Returns whether `address` is in one of the runtime's stacks.
pub fn is_ours(address: u64) -> bool {
    address.wrapping_sub(SIGNAL_STACKS.load(Relaxed)) < ALL_BYTES
}

/// Returns the stack of thread `index`.
pub fn of_thread(index: usize) -> SignalStack {
    SignalStack { sp: SIGNAL_STACKS.load(Relaxed) + index as u64 * STACK_BYTES, flags: 0, size: STACK_BYTES }
}

/// Gives the calling thread its stack if it has no other.
pub fn lend(index: usize) {
    // SAFETY: the stack stays mapped, and a thread without alternate stack cannot be running on
    // one.
    unsafe {
        if syscall::sigaltstack(None).is_ok_and(|stack| stack.is_disabled()) {
            let _ = syscall::sigaltstack(Some(&of_thread(index)));
        }
    }
}

/// Takes the stack away from the calling thread if it still has it.
pub fn take_back(index: usize) {
    // SAFETY: the thread is in ordinary code, not on that stack.
    unsafe {
        if syscall::sigaltstack(None).is_ok_and(|stack| stack.sp == of_thread(index).sp) {
            let _ = syscall::sigaltstack(Some(&SignalStack::NONE));
        }
    }
}

/// Returns whether the kernel switched to an alternate stack to deliver the signal whose frame is
/// at `frame`.
pub fn was_switched(frame: u64, context: &UContext) -> bool {
    let stack = &context.stack;
    stack.size != 0 && stack.contains(frame) && !stack.contains(context.registers[register::RSP].wrapping_sub(1))
}

/// Moves the signal frame at `frame` to where it would be without alternate stack: below the stack
/// pointer and the red zone of the interrupted code. Returns how far it was moved. The distance is
/// a multiple of 64, so that the processor state in it stays aligned.
///
/// # Safety
/// `context` must be in the frame of a signal being delivered; the caller must not be running below
/// it on the same stack.
pub unsafe fn move_frame(frame: u64, context: *mut UContext) -> u64 {
    const RED_ZONE: u64 = 128;
    // SAFETY: the kernel made the frame, and the memory below the interrupted stack pointer is free
    // by the same rule that lets the kernel put it there. If there is no memory the process dies of
    // a fault, as it would without strobe.
    unsafe {
        let bytes = frame_end(context) - frame;
        let target = (*context).registers[register::RSP].wrapping_sub(RED_ZONE + bytes);
        let distance = target.wrapping_sub(frame) & !63;
        let moved = frame.wrapping_add(distance);
        core::ptr::copy(frame as *const u8, moved as *mut u8, bytes as usize);
        let context = (context as u64).wrapping_add(distance) as *mut UContext;
        if (*context).fpstate != 0 {
            (*context).fpstate = (*context).fpstate.wrapping_add(distance);
        }
        distance
    }
}

/// Returns where the frame that `context` is in ends: with the processor state, or with `siginfo_t`
/// if there is none.
///
/// # Safety
/// `context` must be in a frame made by the kernel.
unsafe fn frame_end(context: *const UContext) -> u64 {
    const SOFTWARE_BYTES: u64 = 464;
    const MAGIC: u32 = 0x4650_5853;
    const LEGACY_BYTES: u64 = 512;
    const SIGINFO_BYTES: u64 = 128;
    // SAFETY: the layout is that of the kernel's `fpx_sw_bytes`.
    unsafe {
        let state = (*context).fpstate;
        if state == 0 {
            return context.add(1) as u64 + SIGINFO_BYTES;
        }
        let software = (state + SOFTWARE_BYTES) as *const u32;
        if *software == MAGIC { state + u64::from(*software.add(1)) } else { state + LEGACY_BYTES }
    }
}

/// `sigaltstack` for the program: while the kernel has the runtime's stack, the program has none.
///
/// # Safety
/// As for `sigaltstack`.
pub unsafe extern "C" fn exported_sigaltstack(new: *const SignalStack, old: *mut SignalStack) -> i32 {
    let Some(real) = real::SIGALTSTACK.get() else { return -1 };
    // SAFETY: the program's pointers; the runtime's stacks stay mapped.
    unsafe {
        let Some(index) = own_index() else { return real(new, old) };
        let mut shown = SignalStack::default();
        let lent = of_thread(index);
        let is_disabling = !new.is_null() && (*new).is_disabled();
        let result = real(if is_disabling { &raw const lent } else { new }, &raw mut shown);
        if result == 0 && !old.is_null() {
            *old = if is_ours(shown.sp) { SignalStack::NONE } else { shown };
        }
        result
    }
}

/// Returns the index of the calling thread's stack, if it has one.
fn own_index() -> Option<usize> {
    if !session::is_active() {
        return None;
    }
    match session::attached() {
        Some(session) => Area::own(session).map(|area| area.index),
        None => first_tick::waiting_thread(),
    }
}
