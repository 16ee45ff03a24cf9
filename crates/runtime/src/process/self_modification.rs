//! Programs that change their own code.
//!
//! Copies are made from the files. A program that makes code of a file writable is about to change
//! it, and then copies of it are wrong, so that nothing of this process is recorded any more. Code
//! that never came from a file has no copies and does not matter.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::process::session::{self, Session};
use crate::process::unload;
use crate::sys::real;

/// `mprotect` for the program.
///
/// # Safety
/// As for `mprotect`.
pub unsafe extern "C" fn mprotect(address: u64, len: u64, protection: i32) -> i32 {
    let Some(real) = real::MPROTECT.get() else { return -1 };
    before_protection(address, len, protection);
    // SAFETY: the program's call.
    unsafe { real(address, len, protection) }
}

/// Looks at a change of protection that the program is about to make.
pub fn before_protection(address: u64, len: u64, protection: i32) {
    const WRITE: i32 = 2;
    if protection & WRITE != 0
        && let Some(session) = session::attached()
        && holds_copied_code(session, address, address.saturating_add(len))
    {
        unload::stop_for_good(session);
    }
}

/// Returns whether there are copies of code between two addresses.
pub fn holds_copied_code(session: Session, start: u64, end: u64) -> bool {
    session.modules().iter().any(|module| {
        module.n_runs.load(Acquire) != 0
            && module.code_start.load(Relaxed) < end
            && start < module.code_end.load(Relaxed)
    })
}
