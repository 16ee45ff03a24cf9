//! Beginning and end of a profiled thread.
//!
//! A thread begins in [`crate::threads::create`] (the first one in the constructor) and ends in the
//! destructor of a thread-specific value, which the C library calls after the program's last code
//! in the thread, or nearly so. A thread that ends in any other way leaves its area taken.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicI64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use wire::control::{SYSTEM_CALLS_OFFSET, TickSource};
use wire::thread::{MAGIC, thread_state};

use crate::bursts::{stream, twins};
use crate::exact::return_to_copy::returning;
use crate::process::first_tick;
use crate::process::session::{self, Session};
use crate::signals::altstack;
use crate::statics::{LAST_INTERVAL_NS, THREAD_KEY};
use crate::sys::syscall::{self, number};
use crate::sys::{clock, real};
use crate::threads::area::{self, Area};
use crate::threads::timer;
use crate::{events, exact, mode};

/// What a thread takes over from the one that made it.
#[derive(Clone, Copy, Default)]
pub struct Inheritance {
    /// Signals of the runtime that the program believes to have blocked.
    pub blocked_by_program: u64,
    /// Area that the thread should take if it is free.
    pub preferred_area: usize,
    /// Where the return address from its start routine is; 0: not known.
    pub stack_end: u64,
}

pub fn last_interval_ns() -> u64 {
    LAST_INTERVAL_NS.load(Relaxed)
}

/// Makes the value whose destructor ends threads. Returns whether that worked.
pub fn prepare() -> bool {
    let mut key = 0;
    // SAFETY: the C library's own function; the destructor has the right type.
    let made = real::PTHREAD_KEY_CREATE.get().is_some_and(|create| unsafe { create(&raw mut key, destructor) == 0 });
    THREAD_KEY.store(key, Relaxed);
    made
}

/// Gives the calling thread an area and ticks. It runs unprofiled if that fails.
pub fn begin(session: Session, inheritance: Inheritance) {
    if try_begin(session, inheritance).is_some() {
        session.control.threads.started.fetch_add(1, Relaxed);
    } else {
        session.control.threads.unprofiled.fetch_add(1, Relaxed);
    }
}

fn try_begin(session: Session, inheritance: Inheritance) -> Option<()> {
    let inherited_gs = area::gs_base();
    if inherited_gs != 0 && Area::at(session, inherited_gs).is_none() {
        return None;
    }
    let tid = syscall::gettid();
    let area = Area::take(session, tid, inheritance.preferred_area)?;
    initialize(&area);
    area::set_gs_base(area.address());
    if !start_ticks(&area, tid) {
        area::set_gs_base(0);
        area.header().stream.owner_tid.store(0, Release);
        return None;
    }
    altstack::lend(area.index);
    area.private().blocked_by_program.store(inheritance.blocked_by_program, Relaxed);
    area.private().stack_end.store(inheritance.stack_end, Relaxed);
    // SAFETY: the key is ours.
    real::PTHREAD_SETSPECIFIC.get().map(|set| unsafe { set(THREAD_KEY.load(Relaxed), 1) });
    Some(())
}

/// Fills in the header. The stream goes on where the last owner of the area left it.
fn initialize(area: &Area) {
    let control = area.session.control;
    let file = core::ptr::from_ref(control) as u64;
    let header = area.raw();
    let nth = u64::from(control.threads.started.load(Relaxed));
    // SAFETY: the area is the calling thread's, and no copy runs in it yet.
    unsafe {
        let was_used = (*header).identity.magic == MAGIC;
        (*header).identity.self_address = area.address();
        (*header).clusters = *session::clusters();
        (*header).system_calls.leaving = file + SYSTEM_CALLS_OFFSET;
        (*header).system_calls.unloads_pending = &raw const control.modules.unloads_pending as u64;
        (*header).ticks.random =
            control.settings.seed.load(Relaxed).wrapping_add(nth << 32).wrapping_add(area.index as u64);
        (*header).ticks.timer_id = -1;
        (*header).identity.magic = MAGIC;
        mode::initialize_thread(area, was_used);
    }
    area.header().burst.state.store(thread_state::NATIVE, Relaxed);
    area.header().ticks.last_cpu_ns.store(0, Relaxed);
    let private = area.private();
    private.handler_frame.store(0, Relaxed);
    private.added_for_handler.store(0, Relaxed);
    private.lost_in_a_row.store(0, Relaxed);
    private.backoff.store(0, Relaxed);
    private.paused_ns.store(0, Relaxed);
}

/// Starts the thread's timer if it needs one. Returns whether ticks will come.
fn start_ticks(area: &Area, tid: u32) -> bool {
    let control = area.session.control;
    if control.settings.tick_source.load(Relaxed) != TickSource::PosixTimer as u32
        || control.settings.stopped.load(Relaxed) != 0
    {
        return true;
    }
    let Ok(id) = timer::create(tid) else { return false };
    let interval_ns = control.settings.tick_interval_ns.load(Relaxed);
    LAST_INTERVAL_NS.store(interval_ns, Relaxed);
    let header = area.raw();
    // SAFETY: the area is the calling thread's.
    let first_ns = unsafe {
        (*header).ticks.timer_id = i64::from(id);
        (*header).ticks.armed_interval_ns = interval_ns;
        timer::random_phase(&mut (*header).ticks.random, interval_ns)
    };
    timer::arm(id, first_ns, interval_ns);
    true
}

/// Before the program can send itself the signal of ticks: those of perf events stay pending while
/// the signal is blocked, and a pending one swallows another, but timers can be held back. Only the
/// agent can end perf events; this waits for it, but not for long. The calling thread gets a timer;
/// other threads that exist already run unprofiled from now on.
pub fn replace_perf_ticks() {
    let Some(session) = session::attached() else { return };
    let control = session.control;
    if control.settings.tick_source.load(Relaxed) != TickSource::Perf as u32 {
        return;
    }
    for _ in 0..MAX_WAIT_MS {
        if control.settings.tick_source.load(Acquire) != TickSource::Perf as u32 {
            break;
        }
        clock::sleep_ns(1_000_000);
    }
    // If nobody answered, nobody will the next time, either; an agent that is merely slow goes by
    // the signal, not by this.
    control.settings.tick_source.store(TickSource::PosixTimer as u32, Relaxed);
    if let Some(area) = Area::own(session).filter(|area| timer_of(area).is_none()) {
        start_ticks(&area, syscall::gettid());
    }
}

/// Longest wait for the agent.
const MAX_WAIT_MS: u32 = 200;

const NO_TIMER: i64 = -1;

/// Ends the ticks of the area's thread.
pub fn stop_ticks(area: &Area) {
    if let Some(id) = known_timer(timer_id(area).swap(NO_TIMER, Relaxed)) {
        syscall::timer_delete(id);
    }
}

/// Ends the ticks of all threads.
pub fn stop_all_ticks(session: Session) {
    let n_areas = (session.control.threads.n_areas.load(Acquire) as usize).min(session::layout().n_areas);
    (0..n_areas).for_each(|index| stop_ticks(&Area::numbered(session, index)));
}

/// Holds the thread's ticks back.
pub fn pause_ticks(area: &Area) {
    if let Some(id) = timer_of(area) {
        let left_ns = timer::disarm(id);
        if left_ns != 0 {
            area.private().paused_ns.store(left_ns, Relaxed);
        }
    }
}

/// Lets them come again if they were held back.
pub fn resume_ticks(area: &Area) {
    let left_ns = area.private().paused_ns.swap(0, Relaxed);
    if left_ns != 0
        && let Some(id) = timer_of(area)
    {
        // SAFETY: the area is the calling thread's.
        timer::arm(id, left_ns, unsafe { (*area.raw()).ticks.armed_interval_ns });
    }
}

/// Returns the calling thread's timer.
pub fn timer_of(area: &Area) -> Option<i32> {
    known_timer(timer_id(area).load(Relaxed))
}

/// Returns the number of the area's timer. Whoever takes it away deletes the timer.
fn timer_id(area: &Area) -> &AtomicI64 {
    // SAFETY: lies in the arena, and is aligned; when threads can meet, it is used only in this
    // way.
    unsafe { AtomicI64::from_ptr(&raw mut (*area.raw()).ticks.timer_id) }
}

fn known_timer(id: i64) -> Option<i32> {
    i32::try_from(id).ok().filter(|&id| id >= 0)
}

/// The destructor for the C library.
#[unsafe(naked)]
unsafe extern "C" fn destructor() {
    naked_asm!("mov rsi, [rsp]", "jmp {destroy}", destroy = sym returning_destroy)
}

returning! {
    /// Jumped to.
    returning_destroy calls destroy
}

/// In exact mode the thread goes on in the copy of its caller until it ends in the gate, by
/// [`exit`].
unsafe extern "C" fn destroy(_: u64, return_address: u64) {
    first_tick::stop_waiting();
    if exact::own_area().is_some() && twins::of_return(return_address).is_some() {
        return;
    }
    if let Some(area) = session::attached().and_then(Area::own) {
        end(&area);
        area.header().stream.owner_tid.store(0, Release);
    }
}

/// Ends the calling thread, which is in the gate. Once the area is free, another thread may use it,
/// and the stack that belongs to it.
///
/// # Safety
/// As for the system call `exit`; the area must be the thread's.
pub unsafe fn exit(area: &Area, status: u64) -> ! {
    // SAFETY: the caller's promise.
    unsafe { events::finish(area) };
    end(area);
    // SAFETY: the program's call. The thread uses no memory after the store.
    unsafe {
        asm!("mov dword ptr [{owner}], 0", "syscall", "ud2", owner = in(reg) area.header().stream.owner_tid.as_ptr(),
             in("rax") number::EXIT, in("rdi") status, options(noreturn, nostack));
    }
}

/// Gives back everything that the thread has, except its area.
fn end(area: &Area) {
    let control = area.session.control;
    let header = area.header();
    stop_ticks(area);
    if header.burst.state.load(Relaxed) == thread_state::ENDED {
        stream::commit_ended_burst(area);
    }
    control.threads.cpu_ns_of_ended.fetch_add(clock::thread_cpu_ns(), Relaxed);
    control.threads.ended.fetch_add(1, Relaxed);
    altstack::take_back(area.index);
    area::set_gs_base(0);
}
