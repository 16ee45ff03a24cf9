//! Exact mode: threads that run in copies always.
//!
//! Copies of exact mode go to the gate ([`crate::exact::gate`]) where those of bursts would leave.
//! There are five ways into copies: from the gate; back from a function of the runtime
//! ([`crate::exact::return_to_copy`]); into a handler or out of one ([`crate::exact::resume`]); at
//! the start of a thread; and, for threads that run natively for want of a copy, a tick. A thread
//! that comes from elsewhere than a copy has no path register, so where copies keep one it enters
//! at the start of a block only ([`twin_to_enter`]).
//!
//! If the agent does not answer, exact mode is given up for the whole process, for good: threads go
//! on natively as they come by.

mod contexts;
pub mod gate;
mod gate_calls;
mod gate_registers;
mod gate_stack;
mod hook;
pub mod interrupt;
pub mod native_code;
pub mod resume;
pub mod return_to_copy;
mod scratchpad;
mod thread_exit;
pub mod tick;
mod timeout;
pub mod uncopied;

use core::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use wire::control::{Control, ENTERS_ANYWHERE, NativeReason};
use wire::sample::EndReason;

use crate::bursts::twins;
use crate::events;
use crate::exact::resume::Records;
use crate::exact::timeout::{Signs, Timeout, is_reached};
use crate::mode::{self, Mode};
use crate::process::session::{self, Session};
use crate::process::unload;
use crate::statics::{EXACT_IS_ABANDONED, UNCOPIED};
use crate::sys::clock;
use crate::threads::area::Area;

/// The part of `frame` that is the path register.
pub const PATH: u64 = 0xffff_ffff;

/// Returns whether the agent wants exact mode, for which there must be memory.
pub fn is_wanted(session: Session) -> bool {
    session.control.exact.is_on.load(Acquire) != 0
        && session::layout().area_bits == wire::exact::AREA_BITS
        && gate_stack::prepare().is_ok()
}

/// Nothing has been given up in a session that has just been joined.
pub fn begin() {
    EXACT_IS_ABANDONED.store(false, Relaxed);
}

/// Returns whether threads may enter copies.
pub fn may_enter(control: &Control) -> bool {
    mode::current() == Mode::Exact
        && !EXACT_IS_ABANDONED.load(Relaxed)
        && control.settings.stopped.load(Relaxed) == 0
        && !unload::is_stopped()
}

/// Returns the calling thread's area, if it may enter copies.
pub fn own_area() -> Option<Area> {
    session::attached().filter(|session| may_enter(session.control)).and_then(Area::own)
}

/// Returns where the calling thread has to go that shall go on at `original`: to its twin, or to
/// the gate, which knows what to do.
pub fn destination(original: u64) -> u64 {
    let Some(area) = own_area() else { return original };
    let Some(twin) = twins::of_leader(original) else { return gate::prepare_for(&area, original) };
    note_entry(&area);
    twin
}

/// Returns what to call for the function at `original`, which returns to the runtime.
pub fn callable(original: u64) -> u64 {
    let Some((area, twin)) = own_area().zip(twins::of_leader(original)) else { return original };
    note_entry(&area);
    area.private().calling_frame.store(area.header().exact.frame.load(Relaxed), Relaxed);
    twin
}

/// Notes that the function has returned that [`callable`] was about: what it called is no part of
/// what the runtime calls next.
pub fn note_return(area: &Area) {
    area.header().exact.frame.store(area.private().calling_frame.load(Relaxed), Relaxed);
}

/// Returns the twin of `target`, to which the program has come by its address, if a thread may
/// enter there; waits for the agent if there may yet be one.
pub fn wait_for_twin(control: &Control, target: u64) -> Option<u64> {
    let known = twin_to_enter(control, target);
    // A module is translated as a whole: what has a twin in the middle of a block has been looked
    // at.
    let is_final = known.is_some() || twins::of(target).is_some();
    if is_final || twins::cluster_of(target).is_none() || UNCOPIED.contains(target) || !ask(control) {
        return known;
    }
    twin_to_enter(control, target).or_else(|| {
        UNCOPIED.insert(target);
        None
    })
}

/// Returns the twin at which a thread may enter that has run natively and is at `pc`.
pub fn twin_to_enter(control: &Control, pc: u64) -> Option<u64> {
    match control.exact.is_on.load(Relaxed) {
        ENTERS_ANYWHERE => twins::of(pc),
        _ => twins::of_leader(pc),
    }
}

/// Asks the agent for copies of everything that is mapped. Returns whether it has answered.
pub fn ask(control: &Control) -> bool {
    let number = control.exact.requests.fetch_add(1, AcqRel).wrapping_add(1);
    wait_until(control, || is_reached(control.exact.answered.load(Acquire), number))
}

/// Waits until the agent has removed the copies of code that has been unmapped.
pub fn wait_for_unload(control: &Control) {
    let number = control.modules.unloads.fetch_add(1, AcqRel).wrapping_add(1);
    wait_until(control, || is_reached(control.modules.unloads_cleared.load(Acquire), number));
}

/// Waits for the agent, but not for ever. Returns whether it has come to it.
pub fn wait_until(control: &Control, is_done: impl Fn() -> bool) -> bool {
    let exact = &control.exact;
    let signs = || Signs { heartbeat: exact.heartbeat.load(Relaxed), progress: exact.progress.load(Relaxed) };
    let mut timeout = Timeout::new(clock::monotonic_ns(), signs());
    loop {
        if is_done() {
            return true;
        }
        if !may_enter(control) {
            return false;
        }
        match timeout.next_sleep_ns(clock::monotonic_ns(), signs()) {
            Some(sleep_ns) => clock::sleep_ns(sleep_ns),
            None => abandon(control),
        }
    }
}

/// Gives exact mode up.
pub fn abandon(control: &Control) {
    if !EXACT_IS_ABANDONED.swap(true, AcqRel) {
        control.exact.abandoned_tsc.store(clock::rdtsc(), Relaxed);
    }
}

/// Counts that the calling thread goes on natively.
pub fn note_native(area: &Area, reason: NativeReason) {
    area.session.control.exact.native[reason as usize].fetch_add(1, Relaxed);
    // SAFETY: the area is the calling thread's.
    unsafe {
        if (*area.raw()).exact.native_since == 0 {
            (*area.raw()).exact.native_since = clock::rdtsc();
        }
    }
}

/// Notes that the calling thread enters copies. If it was not in them all the time, counts that and
/// forgets the path that it was on.
pub fn note_entry(area: &Area) {
    // SAFETY: the area is the calling thread's.
    let since = unsafe { core::mem::take(&mut (*area.raw()).exact.native_since) };
    if since != 0 {
        let exact = &area.session.control.exact;
        exact.entries.fetch_add(1, Relaxed);
        exact.native_cycles.fetch_add(clock::rdtsc().wrapping_sub(since), Relaxed);
        area.header().exact.frame.fetch_and(!PATH, Relaxed);
        // SAFETY: as above. Nobody's path has run meanwhile.
        unsafe { (*area.raw()).exact.charged = metric(area) };
    }
}

/// Returns whether the calling thread has gone on natively in order. If not, and it is outside of
/// copies, it is in a handler that the runtime does not know, and that interrupted a copy, whose
/// scratch must stay.
pub fn is_native(area: &Area) -> bool {
    // SAFETY: the area is the calling thread's.
    unsafe { (*area.raw()).exact.native_since != 0 }
}

/// Returns the counter of what is added up on paths and in contexts.
pub fn metric(area: &Area) -> u64 {
    if area.session.control.exact.counts_misses.load(Relaxed) == 0 {
        return clock::rdtsc();
    }
    // SAFETY: the area is the calling thread's.
    unsafe { (*area.raw()).cache.misses }
}

/// With the counted trigger: the calling thread, whose area it is, begins with the checks before a
/// burst.
fn begin_checking(area: &Area) {
    let (control, header) = (area.session.control, area.header());
    let n_check = control.trigger.n_check.load(Relaxed);
    // SAFETY: the area is the calling thread's, and no copy runs in it yet.
    unsafe {
        (*area.raw()).trigger.n_check = n_check;
        (*area.raw()).trigger.n_instr = control.trigger.n_instr.load(Relaxed);
    }
    header.burst.checks.store(n_check, Relaxed);
    header.trigger.is_instrumented.store(0, Relaxed);
}

/// With the counted trigger: the calling thread, whose area it is, goes on in a handler. A check
/// that was interrupted when it had counted down to 0 switches versions when the handler has
/// returned; the handler begins with a check that does.
pub fn begin_handler_checks(area: &Area) {
    if area.session.has_counted_trigger() {
        let _ = area.header().burst.checks.compare_exchange(0, 1, Relaxed, Relaxed);
    }
}

/// Prepares a new thread for exact mode.
pub fn initialize(area: &Area) {
    let header = area.raw();
    // SAFETY: the area is the calling thread's, and no copy runs in it yet; its signals are not the
    // program's affair yet.
    unsafe {
        (*header).exact.gate = gate::address();
        (*header).gate.stack = gate_stack::top(area.index);
        (*header).gate.is_inside = 0;
        (*header).gate.hook_slot = 0;
        (*header).exact.native_since = clock::rdtsc();
        (*header).exact.charged = metric(area);
        *gate_stack::records(area.index) = Records::default();
    }
    // SAFETY: as above.
    unsafe { events::initialize(area) };
    begin_checking(area);
    area.header().exact.frame.store(0, Relaxed);
    area.header().path_sampling.samples_wanted.store(0, Relaxed);
    area.header().burst.end_reason.store(EndReason::None as u32, Relaxed);
}
