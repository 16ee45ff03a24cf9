//! Unloading of libraries.
//!
//! Once a library is gone, another can come to lie at its addresses, and the map would still lead
//! to copies of the old one. So no burst may start from the moment that an unload begins until the
//! agent has cleared the map, and when `dlclose` returns no thread may be in a burst from before,
//! except in a system call, after which it leaves. Bursts are short; waiting for them takes
//! microseconds, and there is a bound.
//!
//! `unloads_pending` holds a different number each time that it is set. Whoever clears it has to
//! name the number, so that nobody clears an announcement that came after it looked.

use core::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use wire::control::Control;
use wire::thread::{MAX_THREADS, thread_state};

use crate::exact::return_to_copy::returning;
use crate::mode;
use crate::process::session::{self, Session};
use crate::statics::{CODE_CHANGES, LAST_ANNOUNCEMENT, UNLOADS_RUNNING};
use crate::sys::{real, syscall};
use crate::threads::area::Area;

/// Returns whether bursts must not start. Clears the announcement when the agent has done its part.
pub fn is_pending(control: &Control) -> bool {
    if CODE_CHANGES.load(Relaxed) {
        return true;
    }
    let announced = control.modules.unloads_pending.load(Acquire);
    if announced == 0 {
        return false;
    }
    let is_over = UNLOADS_RUNNING.load(SeqCst) == 0
        && control.modules.unloads_cleared.load(Acquire) == control.modules.unloads.load(Acquire);
    !(is_over && control.modules.unloads_pending.compare_exchange(announced, 0, AcqRel, Relaxed).is_ok())
}

/// Returns whether the program changes its own code.
pub fn is_stopped() -> bool {
    CODE_CHANGES.load(Relaxed)
}

/// `dlclose` for the program.
///
/// # Safety
/// As for `dlclose`.
pub unsafe extern "C" fn dlclose(handle: u64) -> i32 {
    let Some(real) = real::DLCLOSE.get() else { return -1 };
    let Some(session) = session::attached() else {
        // SAFETY: the program's call.
        return unsafe { real(handle) };
    };
    UNLOADS_RUNNING.fetch_add(1, SeqCst);
    mode::before_unload(session.control);
    let before = unloads_so_far();
    // SAFETY: the program's call.
    let result = unsafe { real(handle) };
    if unloads_so_far() != before {
        mode::after_unload(session);
    }
    UNLOADS_RUNNING.fetch_sub(1, SeqCst);
    is_pending(session.control);
    result
}

/// Lets no burst start any more, and waits for those that run.
pub fn stop_for_good(session: Session) {
    if !CODE_CHANGES.swap(true, SeqCst) {
        mode::stop_entering(session);
    }
}

/// Announces an unload: no burst may start from here on.
pub fn announce(control: &Control) {
    let number = LAST_ANNOUNCEMENT.fetch_add(1, Relaxed).wrapping_add(1);
    control.modules.unloads_pending.store(if number == 0 { 1 } else { number }, SeqCst);
}

/// Returns how many modules the dynamic linker has unloaded.
fn unloads_so_far() -> u64 {
    let mut count = 0;
    // SAFETY: the C library's own function; the callback writes to `count` only during the call.
    real::DL_ITERATE_PHDR.get().map(|iterate| unsafe { iterate(returning_take_unloads, &raw mut count) });
    count
}

returning! {
    /// For the C library.
    returning_take_unloads calls take_unloads
}

unsafe extern "C" fn take_unloads(info: *const u8, size: usize, count: *mut u64) -> i32 {
    const SUBTRACTIONS: usize = 40;
    if size >= SUBTRACTIONS + 8 {
        // SAFETY: the structure has `size` bytes, and `count` is the caller's variable.
        unsafe { *count = info.add(SUBTRACTIONS).cast::<u64>().read() };
    }
    1
}

/// Counts an unload, and waits until no thread runs a burst that started before it was announced.
pub fn wait_for_bursts_of_unloaded(session: Session) {
    session.control.modules.unloads.fetch_add(1, AcqRel);
    wait_for_bursts(session);
}

/// Waits until no thread runs a burst that started before the announcement.
pub fn wait_for_bursts(session: Session) {
    const MAX_YIELDS: u32 = 100_000;
    let used = (session.control.threads.n_areas.load(Acquire) as usize).min(MAX_THREADS);
    let mut yields = 0;
    for area in (0..used).map(|index| Area::numbered(session, index)) {
        while is_running_burst(&area) && yields < MAX_YIELDS {
            syscall::sched_yield();
            yields += 1;
        }
    }
}

/// Returns whether the area's owner is in a burst and not in one of its system calls.
fn is_running_burst(area: &Area) -> bool {
    let header = area.raw();
    // SAFETY: in the arena; the owner may write at the same time, and any value will do.
    let (start, end) = unsafe {
        (
            (&raw const (*header).burst.system_call_start).read_volatile(),
            (&raw const (*header).burst.system_call_end).read_volatile(),
        )
    };
    area.header().burst.state.load(Acquire) == thread_state::BURST
        && start <= end
        && area.header().stream.owner_tid.load(Relaxed) != 0
}
