//! What bursts and exact mode do differently.
//!
//! A process has one mode from when it joins. Wherever the runtime's course depends on it, it comes
//! here, and each function says what either mode does.

use core::sync::atomic::Ordering::Relaxed;

use wire::control::Control;
use wire::events::{BURST_EMPTY, EMPTY};

use crate::bursts::ending;
use crate::bursts::tick::{self, Tick};
use crate::events;
use crate::exact::resume::Interrupted;
use crate::exact::{self, interrupt};
use crate::process::session::Session;
use crate::process::{first_tick, fork, unload};
use crate::statics::{MODE, UNCOPIED};
use crate::sys::abi::{SigInfo, UContext};
use crate::threads::area::Area;

/// The mode of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Threads run natively, and in copies after ticks.
    Bursts = 0,
    /// Threads run in copies always.
    Exact = 1,
}

/// Returns the mode of this process, which a forked child has before it joins.
pub fn current() -> Mode {
    if MODE.load(Relaxed) == Mode::Bursts as u8 { Mode::Bursts } else { Mode::Exact }
}

/// Decides the mode of the process, which has just joined.
pub fn decide(session: Session) {
    let mode = if exact::is_wanted(session) { Mode::Exact } else { Mode::Bursts };
    exact::begin();
    MODE.store(mode as u8, Relaxed);
}

/// The process is ready for the program's code: exact mode wants copies of all of it.
pub fn before_program(control: &Control) {
    match current() {
        Mode::Bursts => {}
        Mode::Exact => {
            exact::ask(control);
        }
    }
}

/// Prepares what the mode has in the area of a new thread.
///
/// # Safety
/// The area must be the calling thread's, and no copy may run in it. `was_used` says whether
/// another thread has had it.
pub unsafe fn initialize_thread(area: &Area, was_used: bool) {
    match current() {
        // SAFETY: the caller's promise.
        Mode::Bursts => unsafe { events::initialize_for_bursts(area, was_used) },
        Mode::Exact => exact::initialize(area),
    }
}

/// Does what is to be done at a tick.
pub fn on_tick(session: Session, info: &mut SigInfo, context: &mut UContext, tick: &Tick) {
    match current() {
        Mode::Bursts => tick::on_tick_of_bursts(session, context, tick),
        Mode::Exact => exact::tick::on_tick(session, info, context, tick.overrun),
    }
}

/// Makes the code that the signal of `context` interrupted that of the program. In exact mode,
/// returns what it was in truth.
pub fn leave_runtime(info: &mut SigInfo, context: &mut UContext) -> Option<Interrupted> {
    match current() {
        Mode::Bursts => {
            ending::leave_copy(info, context);
            None
        }
        Mode::Exact => interrupt::leave_runtime(info, context),
    }
}

/// Returns where the calling thread has to go that is about to run a handler, whose context is at
/// `context`.
pub fn enter_handler(handler: u64, context: u64, interrupted: Option<&Interrupted>) -> u64 {
    match current() {
        Mode::Bursts => handler,
        Mode::Exact => interrupt::enter_handler(handler, context, interrupted),
    }
}

/// Returns the place of the next event in an empty buffer.
pub fn empty_buffer() -> u64 {
    match current() {
        Mode::Bursts => BURST_EMPTY,
        Mode::Exact => EMPTY,
    }
}

/// Returns whether a thread with a full ring may wait for the agent to read: not in a tick.
pub fn can_wait_for_reader() -> bool {
    match current() {
        Mode::Bursts => false,
        Mode::Exact => true,
    }
}

/// Begins the recording of a forked child, whose only thread had this area in the parent: at its
/// first tick, or at once.
pub fn begin_child(area_index: u32) {
    match current() {
        Mode::Bursts => first_tick::wait_for_tick(area_index),
        Mode::Exact => fork::join_as_child(area_index as usize),
    }
}

/// The program is about to close a library.
pub fn before_unload(control: &Control) {
    match current() {
        Mode::Bursts => unload::announce(control),
        Mode::Exact => {}
    }
}

/// The program has closed a library, and modules have gone: waits until nobody runs copies of them.
pub fn after_unload(session: Session) {
    match current() {
        Mode::Bursts => unload::wait_for_bursts_of_unloaded(session),
        Mode::Exact => {
            UNCOPIED.forget(0, u64::MAX);
            exact::wait_for_unload(session.control);
        }
    }
}

/// Lets nobody enter copies any more. Those of bursts are waited for.
pub fn stop_entering(session: Session) {
    match current() {
        Mode::Bursts => {
            unload::announce(session.control);
            unload::wait_for_bursts(session);
        }
        Mode::Exact => exact::abandon(session.control),
    }
}

/// Returns whether a thread can be in copies after [`stop_entering`].
pub fn can_be_in_copies(area: &Area) -> bool {
    match current() {
        Mode::Bursts => false,
        Mode::Exact => !exact::is_native(area),
    }
}
