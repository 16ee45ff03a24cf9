//! What the program wants to happen at each signal: the table of its actions.
//!
//! The entries of signals look it up. In which order the table and the kernel learn of a change is
//! the matter of [`crate::signals::actions`].

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::statics::ACTIONS;
use crate::sys::abi::{DEFAULT, IGNORE, N_SIGNALS, SigAction, bit, sa};

/// What the program wants to happen at a signal.
pub struct Action {
    handler: AtomicU64,
    flags: AtomicU32,
    mask: AtomicU64,
}

/// A copy of an [`Action`].
#[derive(Clone, Copy)]
pub struct Wanted {
    pub handler: u64,
    pub flags: u32,
    pub mask: u64,
}

impl Action {
    /// Returns the default action.
    pub const fn new() -> Action {
        Action { handler: AtomicU64::new(DEFAULT), flags: AtomicU32::new(0), mask: AtomicU64::new(0) }
    }

    pub fn of(signal: i32) -> &'static Action {
        &ACTIONS[(signal as usize - 1) % N_SIGNALS]
    }

    pub fn get(&self) -> Wanted {
        Wanted { handler: self.handler.load(Acquire), flags: self.flags.load(Relaxed), mask: self.mask.load(Relaxed) }
    }

    pub fn set(&self, wanted: &Wanted) {
        self.flags.store(wanted.flags, Relaxed);
        self.mask.store(wanted.mask, Relaxed);
        self.handler.store(wanted.handler, Release);
    }
}

impl Wanted {
    pub fn has_handler(&self) -> bool {
        self.handler != DEFAULT && self.handler != IGNORE
    }

    /// Signals that the program wants blocked in the handler for `signal`, besides those that
    /// already are.
    pub fn mask_for(&self, signal: i32) -> u64 {
        if self.flags & sa::NODEFER != 0 { self.mask } else { self.mask | bit(signal) }
    }

    /// Returns what the kernel keeps of an action.
    pub fn from_action(action: &SigAction) -> Wanted {
        const NEVER_BLOCKED: u64 = bit(9) | bit(19);
        Wanted { handler: action.handler, flags: action.flags & sa::KNOWN, mask: action.mask[0] & !NEVER_BLOCKED }
    }
}

/// Returns what the program wants at `signal`, for one delivery: an action for one time becomes the
/// default.
pub fn for_delivery(signal: i32) -> Wanted {
    let action = Action::of(signal);
    let wanted = action.get();
    if wanted.flags & sa::RESETHAND != 0 && wanted.has_handler() {
        action.handler.store(DEFAULT, Release);
    }
    wanted
}

/// Returns what the program wants at `signal`.
pub fn wanted(signal: i32) -> Wanted {
    Action::of(signal).get()
}
