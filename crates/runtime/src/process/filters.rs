//! Filters of system calls (seccomp) that the program installs.
//!
//! A filter may end the process at a call that it does not expect, and the runtime makes some: in
//! ticks, in the entries of handlers, when threads and processes begin and end. So the runtime
//! withdraws from the process before the filter is there. Filters are installed by `prctl` and by
//! the system call `seccomp`, for which the C library has no function of its own, so that everybody
//! uses `syscall`. A program that makes the call by an instruction of its own is not noticed,
//! except in exact mode.

use wire::hello::LeftAlone;

use crate::process::tail_call::tail_call;
use crate::process::withdrawal;
use crate::sys::real;
use crate::sys::syscall::number::{PRCTL, SECCOMP};

const SET_SECCOMP: u32 = 22;
const STRICT: u32 = 0;
const FILTER: u32 = 1;

/// Looks at a system call that the program is about to make. Returns whether it installs a filter.
pub fn before_system_call(number: u64, first: u64, second: u64, third: u64) -> bool {
    let installs = match number {
        PRCTL => first as u32 == SET_SECCOMP && installs_by_prctl(second, third),
        // With flags, strict mode is refused: a question whether there is such a call.
        SECCOMP => (first as u32 == FILTER || second == 0) && installs(first as u32, third),
        _ => false,
    };
    if installs {
        withdrawal::withdraw(LeftAlone::Filter);
    }
    installs
}

/// `prctl` counts modes from 1.
fn installs_by_prctl(mode: u64, filter: u64) -> bool {
    mode != 0 && installs(mode as u32 - 1, filter)
}

/// A filter that is no address is a question whether there are filters at all.
fn installs(operation: u32, filter: u64) -> bool {
    operation == STRICT || operation == FILTER && filter != 0
}

tail_call! {
    /// `prctl` for the program: up to five arguments.
    ///
    /// # Safety
    /// As for `prctl`.
    #[unsafe(no_mangle)]
    fn prctl, first argument "edi" in [SET_SECCOMP], real real::PRCTL, target target
}

/// Returns where `prctl` goes.
extern "C" fn target(option: u64, second: u64, third: u64) -> u64 {
    before_system_call(PRCTL, option, second, third);
    real::PRCTL.get().map_or(unavailable as *const () as u64, |real| real as *const () as u64)
}

extern "C" fn unavailable() -> i32 {
    -1
}
