//! Private memory of threads in exact mode: the stack that the gate runs on, and records of
//! interrupted code below it.
//!
//! It is separate from the stack for signals, because a tick may come while the gate gives signals
//! free again, and it is private memory, so that a child by `fork` finds on it what it needs to go
//! on.

use core::sync::atomic::Ordering::Relaxed;

use wire::thread::MAX_THREADS;

use crate::exact::resume::Records;
use crate::statics::GATE_STACKS;
use crate::sys::syscall::{self, Errno};

const BYTES: u64 = 64 << 10;
const ALL_BYTES: u64 = MAX_THREADS as u64 * BYTES;

/// Reserves the memory, once.
pub fn prepare() -> Result<(), Errno> {
    if GATE_STACKS.load(Relaxed) == 0 {
        GATE_STACKS.store(syscall::reserve_memory(ALL_BYTES)?, Relaxed);
    }
    Ok(())
}

/// Returns where the stack of thread `index` starts; it grows down.
pub fn top(index: usize) -> u64 {
    GATE_STACKS.load(Relaxed) + (index as u64 + 1) * BYTES
}

/// Returns the records of thread `index`.
///
/// # Safety
/// Only for the thread itself, with all signals blocked, and after [`prepare`].
pub unsafe fn records(index: usize) -> &'static mut Records {
    // SAFETY: zeroed memory is a valid value; the caller is alone.
    unsafe { &mut *((GATE_STACKS.load(Relaxed) + index as u64 * BYTES) as *mut Records) }
}

const _: () = assert!(size_of::<Records>() as u64 * 4 < BYTES);
