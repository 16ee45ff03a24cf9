//! Debuggers.
//!
//! A debugger sees every signal of the process that it traces before the process does. Common ones
//! pass [`wire::control::TIMER_SIGNAL`] on without a word, but a program that traces its own
//! children need not. So a process that starts under a debugger is left alone
//! ([`crate::sys::status`]), and one that asks to be traced gets no more ticks.

use crate::process::{first_tick, session};
use crate::sys::real;
use crate::threads::area::Area;
use crate::threads::lifecycle;

/// `ptrace` for the program. The C library's takes a variable number of arguments, of which these
/// are all.
///
/// # Safety
/// As for `ptrace`.
pub unsafe extern "C" fn ptrace(request: u64, pid: u64, address: u64, data: u64) -> i64 {
    const TRACE_ME: u32 = 0;
    let Some(real) = real::PTRACE.get() else { return -1 };
    if request as u32 == TRACE_ME && session::is_active() {
        first_tick::stop_waiting();
        if let Some(area) = session::attached().and_then(Area::own) {
            lifecycle::stop_ticks(&area);
        }
    }
    // SAFETY: the program's call.
    unsafe { real(request, pid, address, data) }
}
