//! The environment of the program, as if strobe were not there.
//!
//! The constructor takes strobe's variable out of the environment and its library out of
//! `LD_PRELOAD`, in the array that the program is about to get, and remembers both for
//! [`crate::process::exec`]. The strings lie in the area above the initial stack, which stays as it
//! is for good.

use crate::statics::{FOLLOWS_CHILDREN, IS_NO_OP, LIBRARY_PATH, N_AGENT_FILTERS, SESSION_VARIABLE, SOCKET_NAME};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use wire::hello::{ENVIRONMENT, flag};

pub const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// A string that is found once.
pub struct Text {
    start: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Text {
    /// No string yet.
    pub const fn new() -> Text {
        Text { start: AtomicPtr::new(core::ptr::null_mut()), len: AtomicUsize::new(0) }
    }

    fn set(&self, text: &'static [u8]) {
        self.len.store(text.len(), Relaxed);
        self.start.store(text.as_ptr().cast_mut(), Relaxed);
    }

    fn get(&self) -> &'static [u8] {
        let start = self.start.load(Relaxed);
        if start.is_null() {
            return &[];
        }
        // SAFETY: `set` stored the parts of a slice that lives as long as the process.
        unsafe { core::slice::from_raw_parts(start, self.len.load(Relaxed)) }
    }
}

/// Returns the whole variable, `STROBE_SESSION=...`.
pub fn variable() -> &'static [u8] {
    SESSION_VARIABLE.get()
}

/// Name of the agent's socket.
pub fn socket_name() -> &'static [u8] {
    SOCKET_NAME.get()
}

/// Path of this library, as it stood in `LD_PRELOAD`.
pub fn library_path() -> &'static [u8] {
    LIBRARY_PATH.get()
}

/// Returns whether children are to be profiled too.
pub fn follows_children() -> bool {
    FOLLOWS_CHILDREN.load(Relaxed)
}

/// Returns whether ticks are only counted.
pub fn is_no_op() -> bool {
    IS_NO_OP.load(Relaxed)
}

/// Seccomp filters that the agent runs under.
pub fn n_filters_of_agent() -> u64 {
    N_AGENT_FILTERS.load(Relaxed)
}

/// Removes strobe from the environment. Returns whether it was there.
///
/// # Safety
/// `environment` must be the array and strings that the kernel made, before the program has seen
/// them.
pub unsafe fn take(environment: *mut *mut u8) -> bool {
    // SAFETY: the array is terminated, and nobody else uses it yet.
    unsafe {
        let Some(variable) = remove(environment, ENVIRONMENT.as_bytes()) else { return false };
        SESSION_VARIABLE.set(variable);
        let mut parts = variable[ENVIRONMENT.len() + 1..].split(|&byte| byte == b';');
        SOCKET_NAME.set(parts.next().unwrap_or_default());
        LIBRARY_PATH.set(parts.next().unwrap_or_default());
        let flags = parts.next().unwrap_or_default();
        FOLLOWS_CHILDREN.store(flags.contains(&flag::FOLLOW), Relaxed);
        IS_NO_OP.store(flags.contains(&flag::NO_OP), Relaxed);
        let filters = parts.next().and_then(|text| core::str::from_utf8(text).ok()?.parse().ok());
        N_AGENT_FILTERS.store(filters.unwrap_or(0), Relaxed);
        leave_preload(environment);
    }
    true
}

/// Takes this library out of `LD_PRELOAD`, and the variable away if there was none before strobe
/// put the library there. If there was one, even an empty one, it stands behind the library and a
/// colon.
///
/// # Safety
/// As for [`take`].
unsafe fn leave_preload(environment: *mut *mut u8) {
    // SAFETY: the strings are writable and not yet in use.
    unsafe {
        let Some(entry) = find(environment, &PRELOAD[..PRELOAD.len() - 1]) else { return };
        let list = (*entry).add(PRELOAD.len());
        let len = c_len(list);
        let own = library_path().len();
        if !core::slice::from_raw_parts(list, len).starts_with(library_path()) {
            return;
        }
        if len == own {
            remove(environment, &PRELOAD[..PRELOAD.len() - 1]);
        } else if *list.add(own) == b':' {
            core::ptr::copy(list.add(own + 1), list, len - own);
        }
    }
}

/// Takes the variable called `name` out of the array.
///
/// # Safety
/// `environment` must be a terminated array of C strings that live for ever.
unsafe fn remove(environment: *mut *mut u8, name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: moves entries of a terminated array down, the terminator included.
    unsafe {
        let mut entry = find(environment, name)?;
        let text = core::slice::from_raw_parts(*entry, c_len(*entry));
        while !(*entry).is_null() {
            *entry = *entry.add(1);
            entry = entry.add(1);
        }
        Some(text)
    }
}

/// # Safety
/// `environment` must be a terminated array of C strings.
unsafe fn find(mut environment: *mut *mut u8, name: &[u8]) -> Option<*mut *mut u8> {
    // SAFETY: stops at the terminator.
    unsafe {
        while !(*environment).is_null() {
            if names(*environment, name) {
                return Some(environment);
            }
            environment = environment.add(1);
        }
    }
    None
}

/// Returns whether `entry` is a setting of the variable `name`.
///
/// # Safety
/// `entry` must be a C string.
pub unsafe fn names(entry: *const u8, name: &[u8]) -> bool {
    // SAFETY: the comparison ends at the first difference, at the latest at the terminator.
    unsafe { name.iter().enumerate().all(|(at, &byte)| *entry.add(at) == byte) && *entry.add(name.len()) == b'=' }
}

/// Length of a C string.
///
/// # Safety
/// `text` must be a C string.
pub unsafe fn c_len(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: ends at the terminator.
    while unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}
