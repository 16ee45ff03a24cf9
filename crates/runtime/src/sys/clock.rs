//! Time: of the kernel's clocks and of the processor.

use crate::sys::abi::Timespec;
use crate::sys::syscall::{self, Clock};

/// Returns the CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    syscall::clock_gettime(Clock::ThreadCpu).as_ns()
}

/// Returns a time that always goes on.
pub fn monotonic_ns() -> u64 {
    syscall::clock_gettime(Clock::Monotonic).as_ns()
}

/// Sleeps; a signal makes that shorter.
pub fn sleep_ns(time_ns: u64) {
    syscall::nanosleep(&Timespec::from_ns(time_ns));
}

/// Returns the processor's time stamp counter.
pub fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has it; a process that forbade it to itself (PR_SET_TSC) is
    // not profiled by time.
    unsafe { core::arch::x86_64::_rdtsc() }
}
