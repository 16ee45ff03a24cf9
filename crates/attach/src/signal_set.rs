//! Sets of signals: masks with bit `n - 1` for signal `n`, the C library's sets, and the mask of a
//! thread.

use std::io;

/// The numbers of the signals in a mask.
pub(crate) fn each(mask: u64) -> impl Iterator<Item = i32> {
    (1..=64).filter(move |signal| mask >> (signal - 1) & 1 != 0)
}

/// Returns the set that the C library wants, of the signals in a mask.
pub(crate) fn signal_set(signals: u64) -> libc::sigset_t {
    // SAFETY: `sigemptyset` makes it a value, and both functions only write to it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in each(signals) {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Changes the mask of the calling thread. Returns what it was.
pub(crate) fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    // SAFETY: plain bits, for which zeros are fine.
    let mut before = unsafe { std::mem::zeroed() };
    // SAFETY: both places are valid.
    match unsafe { libc::pthread_sigmask(how, set, &mut before) } {
        0 => Ok(before),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
