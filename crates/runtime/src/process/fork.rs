//! Children by `fork`.
//!
//! The child has its parent's signal actions, stacks and copies, but neither its shared memory nor
//! its timers. If children are followed, its only thread gets a timer of its own, and the first
//! tick, or the first new thread, joins the session; a child that only calls `exec` never gets that
//! far and pays for nothing. In exact mode the child joins at once.

use core::sync::atomic::Ordering::Relaxed;

use crate::exact::return_to_copy::returning;
use crate::mode;
use crate::process::join::{self, Origin};
use crate::process::{environment, first_tick, session, withdrawal};
use crate::signals::{actions, altstack};
use crate::statics::FORKING_INDEX;
use crate::sys::syscall::{self, MaskChange};
use crate::sys::{clock, real};
use crate::threads::area::{self, Area};
use crate::threads::lifecycle::{self, Inheritance};

/// Asks the C library to call back around `fork`. Returns whether it will.
pub fn prepare() -> bool {
    // SAFETY: the C library's own function; the callbacks live as long as the process.
    real::REGISTER_ATFORK.get().is_some_and(|register| unsafe {
        register(returning_before as *const () as u64, 0, returning_in_child, 0) == 0
    })
}

returning! {
    /// For the C library.
    returning_before calls before
}

returning! {
    /// For the C library.
    returning_in_child calls in_child
}

/// The C library holds a lock around all of `fork`, so that there is one thread here at a time.
unsafe extern "C" fn before() {
    let own = match session::attached() {
        Some(session) => Area::own(session).map(|area| area.index),
        None => first_tick::waiting_thread(),
    };
    FORKING_INDEX.store(own.map_or(0, |index| index as u32 + 1), Relaxed);
}

unsafe extern "C" fn in_child() {
    if !session::is_active() {
        return;
    }
    if withdrawal::has_begun() {
        withdrawal::leave_forked_child();
        return;
    }
    session::set_pid(syscall::getpid());
    first_tick::forget();
    let Some(index) = FORKING_INDEX.load(Relaxed).checked_sub(1) else { return };
    area::set_gs_base(0);
    if environment::follows_children() {
        mode::begin_child(index);
    } else {
        altstack::take_back(index as usize);
        let blocked = area::private(index as usize).blocked_by_program.load(Relaxed);
        syscall::rt_sigprocmask(MaskChange::Block, blocked);
    }
}

/// Called at a tick of a process that is not attached, and before it makes a thread.
pub fn join_at_tick() {
    if let Some(index) = first_tick::stop_waiting() {
        join_as_child(index);
    }
}

/// Joins the session. `index` is that of the area that the thread had in the parent.
pub fn join_as_child(index: usize) {
    let began_ns = clock::thread_cpu_ns();
    if join::join(Origin::Fork)
        && let Some(session) = session::attached()
    {
        mode::decide(session);
        actions::count_inherited();
        let private = area::private(index);
        let [blocked_by_program, stack_end] =
            [&private.blocked_by_program, &private.stack_end].map(|value| value.load(Relaxed));
        lifecycle::begin(session, Inheritance { blocked_by_program, preferred_area: index, stack_end });
        session.control.process.join_cpu_ns.store(clock::thread_cpu_ns() - began_ns, Relaxed);
    }
}
