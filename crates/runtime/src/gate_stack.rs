//! Private memory of threads in exact mode: the stack that the gate runs on, and records of interrupted code below it.
//!
//! It is separate from the stack for signals, because a tick may come while the gate gives signals free again, and it is private memory, so
//! that a child by `fork` finds on it what it needs to go on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::thread::MAX_THREADS;

use crate::resume::Records;
use crate::session::{ANONYMOUS, NO_RESERVE, PRIVATE, READ, WRITE};
use crate::syscall::{self, Errno};

const BYTES: u64 = 64 << 10;
const ALL_BYTES: u64 = MAX_THREADS as u64 * BYTES;

static START: AtomicU64 = AtomicU64::new(0);

/// Reserves the memory, once.
pub fn prepare() -> Result<(), Errno> {
    if START.load(Relaxed) == 0 {
        // SAFETY: new private memory.
        let at = unsafe { syscall::mmap(0, ALL_BYTES, READ | WRITE, PRIVATE | ANONYMOUS | NO_RESERVE, -1) }?;
        START.store(at, Relaxed);
    }
    Ok(())
}

/// Where the stack of thread `index` starts; it grows down.
pub fn top(index: usize) -> u64 {
    START.load(Relaxed) + (index as u64 + 1) * BYTES
}

/// The records of thread `index`.
///
/// # Safety
/// Only for the thread itself, with all signals blocked, and after [`prepare`].
pub unsafe fn records(index: usize) -> &'static mut Records {
    // SAFETY: zeroed memory is a valid value; the caller is alone.
    unsafe { &mut *((START.load(Relaxed) + index as u64 * BYTES) as *mut Records) }
}

const _: () = assert!(size_of::<Records>() as u64 * 4 < BYTES);
