//! Unloading of libraries.
//!
//! Once a library is gone, another can come to lie at its addresses, and the map would still lead to copies of the old one. So
//! no burst may start from the moment that an unload begins until the agent has cleared the map, and when `dlclose` returns no
//! thread may be in a burst from before, except in a system call, after which it leaves. Bursts are short; waiting for them
//! takes microseconds, and there is a bound.
//!
//! `unloads_pending` holds a different number each time that it is set. Whoever clears it has to name the number, so that
//! nobody clears an announcement that came after it looked.

use core::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst,
};

use wire::control::Control;
use wire::thread::{MAX_THREADS, thread_state};

use crate::area::Area;
use crate::come_back::returning;
use crate::session::{self, Session};
use crate::{exact, real, syscall};

/// Calls of `dlclose` under way.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The last number announced.
static ANNOUNCED: AtomicU32 = AtomicU32::new(0);

/// The program changes its own code; children that it forks have the changes, too.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether bursts must not start. Clears the announcement when the agent has done its part.
pub fn is_pending(control: &Control) -> bool {
    if IS_STOPPED.load(Relaxed) {
        return true;
    }
    let announced = control.unloads_pending.load(Acquire);
    if announced == 0 {
        return false;
    }
    let is_over = RUNNING.load(SeqCst) == 0 && control.unloads_cleared.load(Acquire) == control.unloads.load(Acquire);
    !(is_over && control.unloads_pending.compare_exchange(announced, 0, AcqRel, Relaxed).is_ok())
}

/// Whether the program changes its own code.
pub fn is_stopped() -> bool {
    IS_STOPPED.load(Relaxed)
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
    let is_exact = exact::is_on();
    RUNNING.fetch_add(1, SeqCst);
    if !is_exact {
        announce(session.control);
    }
    let before = unloads_so_far();
    // SAFETY: the program's call.
    let result = unsafe { real(handle) };
    if is_exact && unloads_so_far() != before {
        exact::MISSES.forget(0, u64::MAX);
        exact::wait_for_unload(session.control);
    } else if unloads_so_far() != before {
        session.control.unloads.fetch_add(1, AcqRel);
        wait_for_bursts(session);
    }
    RUNNING.fetch_sub(1, SeqCst);
    is_pending(session.control);
    result
}

/// Lets no burst start any more, and waits for those that run.
pub fn stop_for_good(session: Session) {
    if !IS_STOPPED.swap(true, SeqCst) {
        if exact::is_on() {
            exact::abandon(session.control);
            return;
        }
        announce(session.control);
        wait_for_bursts(session);
    }
}

fn announce(control: &Control) {
    let number = ANNOUNCED.fetch_add(1, Relaxed).wrapping_add(1);
    control.unloads_pending.store(if number == 0 { 1 } else { number }, SeqCst);
}

/// How many modules the dynamic linker has unloaded.
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

/// Waits until no thread runs a burst that started before the announcement.
fn wait_for_bursts(session: Session) {
    const MAX_YIELDS: u32 = 100_000;
    let used = (session.control.n_areas.load(Acquire) as usize).min(MAX_THREADS);
    let mut yields = 0;
    for area in (0..used).map(|index| Area::numbered(session, index)) {
        while is_running_burst(&area) && yields < MAX_YIELDS {
            syscall::sched_yield();
            yields += 1;
        }
    }
}

/// Whether the area's owner is in a burst and not in one of its system calls.
fn is_running_burst(area: &Area) -> bool {
    let header = area.raw();
    // SAFETY: in the arena; the owner may write at the same time, and any value will do.
    let (start, end) = unsafe {
        (
            (&raw const (*header).system_call_start).read_volatile(),
            (&raw const (*header).system_call_end).read_volatile(),
        )
    };
    area.header().state.load(Acquire) == thread_state::BURST
        && start <= end
        && area.header().owner_tid.load(Relaxed) != 0
}
