//! Where the kernel enters when it delivers a signal.
//!
//! There are two entries: one for the signals of the program, one for ticks. Both call Rust and then either jump to a handler of the program
//! or return from the signal. The handler gets the registers and the stack as the kernel made them, so it cannot tell that something ran before it,
//! and a backtrace from it leads straight to the frame of the signal.

use core::arch::naked_asm;

use crate::abi::{SigInfo, UContext, sa};
use crate::area::Area;
use crate::signals::Wanted;
use crate::{altstack, burst, masks, session, signals, tick};

/// What an entry does next.
#[repr(C)]
pub struct Next {
    /// Address to jump to.
    pub target: u64,
    /// How far the signal frame was moved.
    pub frame_distance: u64,
}

impl Next {
    /// Returns from the signal.
    pub fn return_from_signal() -> Next {
        Next { target: only_return as *const () as u64, frame_distance: 0 }
    }
}

/// Address of the entry for the program's signals.
pub fn address() -> u64 {
    signal_entry as *const () as u64
}

/// Entry for signals of the program.
#[unsafe(naked)]
pub unsafe extern "C" fn signal_entry() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "lea rcx, [rsp + 24]",
        "call {on_signal}",
        "mov r11, rax",
        "mov rcx, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "add rsi, rcx",
        "add rdx, rcx",
        "add rsp, rcx",
        "xor eax, eax",
        "jmp r11",
        on_signal = sym on_signal,
    )
}

/// Entry for ticks. It calls Rust on the thread's own stack for signals, because the program's may be small.
#[unsafe(naked)]
pub unsafe extern "C" fn tick_entry() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "mov rdi, rsp",
        "call {choose_stack}",
        "mov rcx, rsp",
        "mov rsp, rax",
        "push rcx",
        "push rcx",
        "mov rdi, [rcx + 16]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx]",
        "add rcx, 24",
        "call {on_tick}",
        "pop rsp",
        "mov r11, rax",
        "mov rcx, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "add rsi, rcx",
        "add rdx, rcx",
        "add rsp, rcx",
        "xor eax, eax",
        "jmp r11",
        choose_stack = sym choose_stack,
        on_tick = sym tick::on_tick,
    )
}

/// Returns to what the kernel put on the stack: the restorer.
#[unsafe(naked)]
unsafe extern "C" fn only_return() {
    naked_asm!("ret")
}

/// Return from a signal handler, in exactly the bytes by which unwinders and debuggers know it.
#[unsafe(naked)]
pub unsafe extern "C" fn restore() {
    naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", "syscall")
}

/// The stack pointer with which to handle a tick that was delivered at `delivered`, 16-byte aligned.
extern "C" fn choose_stack(delivered: u64) -> u64 {
    if altstack::is_ours(delivered) {
        return delivered;
    }
    match session::attached().and_then(Area::own) {
        Some(area) => {
            let stack = altstack::of_thread(area.index);
            stack.sp + stack.size
        }
        None => delivered,
    }
}

/// Before a handler of the program: no handler sees a copy, or a stack of the runtime.
unsafe extern "C" fn on_signal(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64) -> Next {
    // SAFETY: the kernel made the frame; it belongs to this delivery alone.
    burst::leave_copy(info, unsafe { &mut *context });
    let wanted = signals::for_delivery(signal);
    if !wanted.has_handler() {
        return Next::return_from_signal();
    }
    // SAFETY: this function runs below the frame, on the stack that the frame may leave.
    unsafe { enter_handler(signal, context, frame, &wanted) }
}

/// Runs the program's own action for a signal that is also the runtime's.
///
/// # Safety
/// The arguments must be those of a delivery that [`tick_entry`] received.
pub unsafe fn deliver_to_program(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64) -> Next {
    // SAFETY: the kernel made the frame; it belongs to this delivery alone.
    if masks::postpone(signal, info, unsafe { &mut *context }) {
        return Next::return_from_signal();
    }
    // SAFETY: as above.
    burst::leave_copy(info, unsafe { &mut *context });
    let wanted = signals::for_delivery(signal);
    if !wanted.has_handler() {
        signals::default_action(signal, info.code, &wanted);
        return Next::return_from_signal();
    }
    // SAFETY: this function runs on a stack of the runtime, or below the frame. The mask in the context is complete afterwards.
    unsafe {
        let next = enter_handler(signal, context, frame, &wanted);
        let context = (context as u64).wrapping_add(next.frame_distance) as *const UContext;
        signals::enter_mask(signal, (*context).mask, &wanted);
        next
    }
}

/// Puts the frame and the mask where the handler expects them.
///
/// # Safety
/// As for [`altstack::move_frame`].
unsafe fn enter_handler(signal: i32, context: *mut UContext, frame: u64, wanted: &Wanted) -> Next {
    // SAFETY: the caller's promise.
    unsafe {
        let may_stay = wanted.flags & sa::ONSTACK != 0 && !altstack::is_ours((*context).stack.sp);
        let must_move = altstack::was_switched(frame, &*context) && !may_stay;
        let frame_distance = if must_move { altstack::move_frame(frame, context) } else { 0 };
        let context = (context as u64).wrapping_add(frame_distance) as *mut UContext;
        masks::enter_handler(&mut *context, frame.wrapping_add(frame_distance), wanted.added_to_mask(signal));
        Next { target: wanted.handler, frame_distance }
    }
}
