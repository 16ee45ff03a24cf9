//! Exact mode: threads that run in copies always.
//!
//! Copies of exact mode go to the gate ([`crate::gate`]) where those of bursts would leave. There are five ways into copies: from the gate;
//! back from a function of the runtime ([`crate::come_back`]); into a handler or out of one ([`crate::resume`]); at the start of a thread; and, for
//! threads that run natively for want of a copy, a tick.
//!
//! If the agent does not answer, exact mode is given up for the whole process, for good: threads go on natively as they come by.

use core::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use wire::control::{Control, NativeReason};
use wire::sample::EndReason;

use crate::area::Area;
use crate::misses::Misses;
use crate::patience::{Patience, Signs, is_reached};
use crate::session::{self, Session};
use crate::{events, gate, gate_stack, syscall, twins, unload};

/// Whether the session is in exact mode; also of a forked child that has not joined yet.
pub static IS_ON: AtomicBool = AtomicBool::new(false);
static IS_ABANDONED: AtomicBool = AtomicBool::new(false);

/// The part of `frame` that is the path register.
pub const PATH: u64 = 0xffff_ffff;

/// Addresses that stayed without copy after the agent had looked.
pub static MISSES: Misses = Misses::new();

pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Looks at the settings of a session that has just been joined.
pub fn learn(session: Session) {
    let is_on = session.control.exact.is_on.load(Acquire) != 0
        && session::layout().area_bits == wire::exact::AREA_BITS
        && gate_stack::prepare().is_ok();
    IS_ABANDONED.store(false, Relaxed);
    IS_ON.store(is_on, Relaxed);
}

/// Whether threads may enter copies.
pub fn may_enter(control: &Control) -> bool {
    is_on() && !IS_ABANDONED.load(Relaxed) && control.stopped.load(Relaxed) == 0 && !unload::is_stopped()
}

/// The calling thread's area, if it may enter copies.
pub fn own_area() -> Option<Area> {
    if !is_on() {
        return None;
    }
    session::attached().filter(|session| may_enter(session.control)).and_then(Area::own)
}

/// Where the calling thread has to go that shall go on at `original`: to its twin, or to the gate, which knows what to do.
pub fn way_to(original: u64) -> u64 {
    let Some(area) = own_area() else { return original };
    let Some(twin) = twins::of_leader(original) else { return gate::way_to(&area, original) };
    note_entry(&area);
    twin
}

/// What to call for the function at `original`, which returns to the runtime.
pub fn callable(original: u64) -> u64 {
    let Some((area, twin)) = own_area().zip(twins::of_leader(original)) else { return original };
    note_entry(&area);
    area.private().calling_frame.store(area.header().frame.load(Relaxed), Relaxed);
    twin
}

/// The function that [`callable`] was about has returned: what it called is no part of what the runtime calls next.
pub fn note_return(area: &Area) {
    area.header().frame.store(area.private().calling_frame.load(Relaxed), Relaxed);
}

/// The twin of `target`, to which the program has come by its address, if it starts a block; waits for the agent if there may yet be one.
pub fn wait_for_twin(control: &Control, target: u64) -> Option<u64> {
    let known = twins::of_leader(target);
    // A module is translated as a whole: what has a twin in the middle of a block has been looked at.
    let is_final = known.is_some() || twins::of(target).is_some();
    if is_final || twins::cluster_of(target).is_none() || MISSES.contains(target) || !ask(control) {
        return known;
    }
    twins::of_leader(target).or_else(|| {
        MISSES.insert(target);
        None
    })
}

/// Asks the agent for copies of everything that is mapped. Whether it has answered.
pub fn ask(control: &Control) -> bool {
    let number = control.exact.requests.fetch_add(1, AcqRel).wrapping_add(1);
    wait_until(control, || is_reached(control.exact.answered.load(Acquire), number))
}

/// Code has been unmapped: waits until the agent has removed its copies.
pub fn wait_for_unload(control: &Control) {
    let number = control.unloads.fetch_add(1, AcqRel).wrapping_add(1);
    wait_until(control, || is_reached(control.unloads_cleared.load(Acquire), number));
}

/// Waits for the agent, but not for ever. Whether it has come to it.
pub fn wait_until(control: &Control, is_done: impl Fn() -> bool) -> bool {
    let exact = &control.exact;
    let signs = || Signs { heartbeat: exact.heartbeat.load(Relaxed), progress: exact.progress.load(Relaxed) };
    let mut patience = Patience::new(syscall::monotonic_ns(), signs());
    loop {
        if is_done() {
            return true;
        }
        if !may_enter(control) {
            return false;
        }
        match patience.next_sleep_ns(syscall::monotonic_ns(), signs()) {
            Some(sleep_ns) => syscall::sleep_ns(sleep_ns),
            None => abandon(control),
        }
    }
}

/// Gives exact mode up.
pub fn abandon(control: &Control) {
    if !IS_ABANDONED.swap(true, AcqRel) {
        control.exact.abandoned_tsc.store(syscall::rdtsc(), Relaxed);
    }
}

/// Counts that the calling thread goes on natively.
pub fn note_native(area: &Area, reason: NativeReason) {
    area.session.control.exact.native[reason as usize].fetch_add(1, Relaxed);
    // SAFETY: the area is the calling thread's.
    unsafe {
        if (*area.raw()).native_since == 0 {
            (*area.raw()).native_since = syscall::rdtsc();
        }
    }
}

/// The calling thread enters copies, if it was not in them all the time: counts that, and forgets the path that it was on.
pub fn note_entry(area: &Area) {
    // SAFETY: the area is the calling thread's.
    let since = unsafe { core::mem::take(&mut (*area.raw()).native_since) };
    if since != 0 {
        let exact = &area.session.control.exact;
        exact.entries.fetch_add(1, Relaxed);
        exact.native_cycles.fetch_add(syscall::rdtsc().wrapping_sub(since), Relaxed);
        area.header().frame.fetch_and(!PATH, Relaxed);
        // SAFETY: as above. Nobody's path has run meanwhile.
        unsafe { (*area.raw()).charged = metric(area) };
    }
}

/// Whether the calling thread has gone on natively in order. If not, and it is outside of copies, it is in a handler that the runtime
/// does not know, and that interrupted a copy, whose scratch must stay.
pub fn is_native(area: &Area) -> bool {
    // SAFETY: the area is the calling thread's.
    unsafe { (*area.raw()).native_since != 0 }
}

/// The counter of what is added up on paths and in contexts.
pub fn metric(area: &Area) -> u64 {
    if area.session.control.exact.counts_misses.load(Relaxed) == 0 {
        return syscall::rdtsc();
    }
    // SAFETY: the area is the calling thread's.
    unsafe { (*area.raw()).misses }
}

/// Prepares a new thread for exact mode.
pub fn initialize(area: &Area) {
    let header = area.raw();
    // SAFETY: the area is the calling thread's, and no copy runs in it yet; its signals are not the program's affair yet.
    unsafe {
        (*header).gate = gate::address();
        (*header).gate_stack = gate_stack::top(area.index);
        (*header).is_in_gate = 0;
        (*header).hook_slot = 0;
        (*header).native_since = syscall::rdtsc();
        (*header).charged = metric(area);
        *gate_stack::records(area.index) = crate::resume::Records::default();
    }
    // SAFETY: as above.
    unsafe { events::initialize(area) };
    area.header().frame.store(0, Relaxed);
    area.header().samples_wanted.store(0, Relaxed);
    area.header().end_reason.store(EndReason::None as u32, Relaxed);
}
