//! Debuggers.
//!
//! A debugger sees every signal of the process that it traces before the process does. Common ones pass
//! [`wire::control::TIMER_SIGNAL`] on without a word, but a program that traces its own children need not. So a process that
//! starts under a debugger is left alone, and one that asks to be traced gets no more ticks.

use crate::area::Area;
use crate::{fork, real, session, syscall, thread};

/// Whether a debugger is attached to this process.
pub fn is_traced() -> bool {
    const NAME: &[u8] = b"TracerPid:\t";
    let mut text = [0u8; 2048];
    // SAFETY: a C string.
    let Ok(file) = (unsafe { syscall::open_for_reading(c"/proc/self/status".as_ptr().cast()) }) else { return false };
    let read = syscall::read_at(file, &mut text, 0).unwrap_or(0);
    syscall::close(file);
    let text = &text[..read.min(text.len())];
    let value = text.windows(NAME.len()).position(|window| window == NAME).and_then(|at| text.get(at + NAME.len()));
    value.is_some_and(|&digit| digit != b'0')
}

/// `ptrace` for the program. The C library's takes a variable number of arguments, of which these are all.
///
/// # Safety
/// As for `ptrace`.
pub unsafe extern "C" fn ptrace(request: u64, pid: u64, address: u64, data: u64) -> i64 {
    const TRACE_ME: u32 = 0;
    let Some(real) = real::PTRACE.get() else { return -1 };
    if request as u32 == TRACE_ME && session::is_active() {
        fork::stop_waiting();
        if let Some(area) = session::attached().and_then(Area::own) {
            thread::stop_ticks(&area);
        }
    }
    // SAFETY: the program's call.
    unsafe { real(request, pid, address, data) }
}
