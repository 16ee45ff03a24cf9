//! Leaving a process alone in which the runtime already works.
//!
//! Afterwards the process is as if the runtime had never joined: its timers are gone, the kernel
//! has the program's own signal actions, and every interposed function finds that nothing is active
//! and goes straight to the C library. Nothing of the runtime makes a system call any more, in no
//! thread, at no fork and at no end, because the program may be about to forbid them.
//!
//! The calling thread does it for all others, without disturbing them: a signal would interrupt
//! their system calls. The timers of a process can be deleted from any thread; a tick that is
//! already under way finds its signal ignored and is dropped by the kernel; and threads that are in
//! an entry of the runtime have all signals blocked, which the kernel tells of them, so that it can
//! be waited for.
//!
//! In exact mode other threads may be in copies, and those come by the gate sooner or later. They
//! are waited for, but not for ever: a thread that sleeps in a system call may stay there. Then the
//! runtime counts nothing any more, but stays: handlers must not see copies.
//!
//! A child of `vfork` has only actions of its own. It gives those back, and from then on no process
//! that is started from here is followed.

use core::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

use wire::control::Control;
use wire::hello::LeftAlone;

use crate::mode;
use crate::process::session::{self, Session};
use crate::process::{first_tick, unload};
use crate::signals::{actions, altstack, masks};
use crate::statics::{LEAVES_CHILDREN, WITHDRAWAL_HAS_BEGUN, WITHDRAWAL_IS_DONE};
use crate::sys::syscall::{self, MaskChange};
use crate::sys::{clock, status};
use crate::threads::area::{self, Area};
use crate::threads::{create, lifecycle};

/// Longest wait for other threads, in steps of 50 us.
const MAX_STEPS: u32 = 2000;
/// How many times as long it may be for threads in copies, which are taken out when they have used
/// a tick's worth of CPU time.
const EXACT_WAITS: u32 = 10;

/// Returns whether the runtime has withdrawn from the process, or is about to.
pub fn has_begun() -> bool {
    WITHDRAWAL_HAS_BEGUN.load(SeqCst)
}

/// Returns whether programs that are started from here must not be followed.
pub fn leaves_children_alone() -> bool {
    LEAVES_CHILDREN.load(Relaxed)
}

/// Withdraws from the calling process. When it returns, the runtime makes no system calls here.
pub fn withdraw(reason: LeftAlone) {
    if !session::is_active() {
        return;
    }
    if !session::is_own_process() {
        leave_child();
        return;
    }
    if WITHDRAWAL_HAS_BEGUN.swap(true, SeqCst) {
        // As long as it may take the other one.
        let _ = (0..=EXACT_WAITS).any(|_| wait_until(|| WITHDRAWAL_IS_DONE.load(Acquire)));
        return;
    }
    match session::attached() {
        Some(session) => leave_session(session, reason),
        None => leave_wait(),
    }
    WITHDRAWAL_IS_DONE.store(true, Release);
}

/// Leaves a child of `vfork` alone. Without an area, nothing here takes it for one of the threads
/// of its parent.
fn leave_child() {
    LEAVES_CHILDREN.store(true, Relaxed);
    if let Some(session) = session::attached() {
        session.control.process.children_left_alone.fetch_add(1, Relaxed);
    }
    actions::uninstall();
    area::set_gs_base(0);
}

/// Leaves a child alone that was forked while a thread of its parent withdrew, or afterwards if
/// that left something behind. That thread is not here, so that nobody would finish. A filter may
/// be there already if it is done.
pub fn leave_forked_child() {
    session::deactivate();
    if !WITHDRAWAL_IS_DONE.load(Acquire) {
        area::set_gs_base(0);
        actions::uninstall();
    }
}

/// Leaves a forked child alone that has not joined yet.
fn leave_wait() {
    let index = first_tick::stop_waiting();
    session::deactivate();
    actions::uninstall();
    if let Some(index) = index {
        give_back(index);
    }
}

fn leave_session(session: Session, reason: LeftAlone) {
    session.control.process.left_alone.store(reason as u32, Relaxed);
    unload::stop_for_good(session);
    let own = Area::own(session);
    let others = || others(session, own);
    wait_until(create::nobody_begins);
    // Ticks take threads out of copies.
    let all_are_out = (1..=EXACT_WAITS).any(|_| wait_until(|| others().all(|other| !mode::can_be_in_copies(&other))));
    // Those of perf events are the agent's to end.
    lifecycle::replace_perf_ticks();
    lifecycle::stop_all_ticks(session);
    if !all_are_out {
        actions::uninstall_ticks();
        return;
    }
    session::deactivate();
    actions::uninstall();
    for other in others() {
        let tid = other.header().stream.owner_tid.load(Relaxed);
        wait_until(|| !status::blocks_all_signals(tid));
    }
    // One of them may have been about to install a handler, by what held before.
    actions::uninstall();
    if let Some(own) = own {
        give_back(own.index);
    }
}

/// Returns the areas of all threads but the calling one.
fn others(session: Session, own: Option<Area>) -> impl Iterator<Item = Area> {
    let n_areas = (session.control.threads.n_areas.load(Acquire) as usize).min(session::layout().n_areas);
    let areas = (0..n_areas).map(move |index| Area::numbered(session, index));
    areas.filter(move |area| {
        own.is_none_or(|own| own.index != area.index) && area.header().stream.owner_tid.load(Relaxed) != 0
    })
}

/// Makes real what the calling thread believes of its mask and its stack for signals.
fn give_back(index: usize) {
    altstack::take_back(index);
    let believed = area::private(index).blocked_by_program.load(Relaxed);
    if believed & masks::HIDDEN != 0 {
        syscall::rt_sigprocmask(MaskChange::Block, believed);
    }
}

/// Returns whether it has come about in time.
fn wait_until(is_done: impl Fn() -> bool) -> bool {
    const STEP_NS: u64 = 50_000;
    for _ in 0..MAX_STEPS {
        if is_done() {
            return true;
        }
        clock::sleep_ns(STEP_NS);
    }
    is_done()
}

/// Withdraws if another handler than the runtime's would get the ticks of a thread that begins: the
/// program has installed that past the C library.
pub fn withdraw_if_displaced(control: &Control) {
    if control.settings.stopped.load(Relaxed) == 0 && !actions::owns_ticks() {
        withdraw(LeftAlone::TickSignal);
    }
}
