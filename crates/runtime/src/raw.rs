//! What the program does in ways of its own: system calls by way of `syscall`, and `raise`.
//!
//! A signal action set by a system call would take the runtime's place, or put a handler where no runtime stands before it; code made
//! writable is about to change; a filter of system calls may forbid the runtime's. So these calls are looked at; all others go to the C library's
//! function as they are.

use core::arch::naked_asm;

use wire::control::TIMER_SIGNAL;

use crate::abi::{KernelSigAction, SigAction, SigInfo, is_signal};
use crate::come_back::returning;
use crate::{code, exact, filters, masks, real, session, signals, syscall};

const MPROTECT: i64 = 10;
const RT_SIGACTION: i64 = 13;

/// `syscall` for the program: the number, then up to six arguments, the last one on the stack.
///
/// # Safety
/// As for `syscall`.
#[unsafe(export_name = "syscall")]
#[unsafe(naked)]
pub unsafe extern "C" fn exported_syscall() -> i64 {
    naked_asm!(
        "cmp byte ptr [rip + {is_exact}], 0",
        "jne 2f",
        "cmp rdi, 13",
        "je 2f",
        "cmp rdi, 10",
        "je 2f",
        "cmp rdi, 157",
        "je 2f",
        "cmp rdi, 317",
        "je 2f",
        "mov r11, [rip + {real}]",
        "cmp r11, 1",
        "jbe 2f",
        "jmp r11",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {target}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        is_exact = sym exact::IS_ON,
        real = sym real::SYSCALL,
        target = sym target,
    )
}

/// Where a system call with this number and these first arguments goes.
extern "C" fn target(number: i64, first: u64, second: u64, third: u64) -> u64 {
    let Some(real) = real::SYSCALL.get() else { return unavailable as *const () as u64 };
    if number == MPROTECT {
        code::before_protection(first, second, third as i32);
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
        let before = signals::wanted(signal);
        let result = if signal == TIMER_SIGNAL {
            let action = new.as_ref().map(from_kernel);
            let action = action.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            i64::from(signals::sigaction(signal, action, core::ptr::null_mut()))
        } else {
            let result = real(number, signal, new, old, set_bytes);
            if result == 0 && !new.is_null() {
                signals::wrap(signal);
            }
            result
        };
        if let Some(old) = old.as_mut().filter(|_| result == 0) {
            let mut told = from_kernel(old);
            signals::tell(&mut told, signal, &before);
            *old = KernelSigAction {
                handler: told.handler,
                flags: u64::from(told.flags),
                mask: told.mask[0],
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

/// `raise` for the program. It leaves no frame of the runtime on the stack.
///
/// # Safety
/// As for `raise`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn raise(signal: i32) -> i32 {
    naked_asm!(
        "cmp byte ptr [rip + {is_exact}], 0",
        "jne 2f",
        "cmp edi, 23",
        "je 2f",
        "mov r11, [rip + {real}]",
        "cmp r11, 1",
        "jbe 2f",
        "jmp r11",
        "2:",
        "push rdi",
        "call {target}",
        "pop rdi",
        "jmp rax",
        is_exact = sym exact::IS_ON,
        real = sym real::RAISE,
        target = sym raise_target,
    )
}

/// Where `raise` goes.
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

/// Raises the runtime's signal for the program. A tick that waits for the thread would swallow it, so none may.
extern "C" fn raise_own(signal: i32) -> i32 {
    masks::discard_pending_ticks();
    masks::resend(signal, SigInfo::sent(signal, SigInfo::TKILL, session::pid(), syscall::getuid()));
    0
}

// The numbers that stand in the assembly.
const _: () = assert!(RT_SIGACTION == 13 && TIMER_SIGNAL == 23);
