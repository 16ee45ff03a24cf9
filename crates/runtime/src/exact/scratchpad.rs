//! What code that a signal interrupted has in the thread's header and in registers that the program
//! does not need: set aside while the handler runs, and put back when it has returned.

use core::sync::atomic::Ordering::Relaxed;

use crate::bursts::recover::Machine;
use crate::bursts::twins;
use crate::events;
use crate::exact::resume::{Hooked, Interrupted, N_REGISTERS, Scratchpad};
use crate::exact::{self, hook, native_code};
use crate::process::session;
use crate::sys::abi::UContext;
use crate::sys::clock;
use crate::threads::area::Area;

/// Probes may leave addresses of copies in registers that the program does not need; no handler
/// shall see them.
pub fn hide_copies(context: &mut UContext) -> [u64; N_REGISTERS] {
    let mut hidden = [0; N_REGISTERS];
    for (register, hidden) in context.registers.iter_mut().zip(&mut hidden) {
        if session::is_in_copy(*register) {
            *hidden = core::mem::take(register);
        }
    }
    hidden
}

/// Puts back what [`hide_copies`] took, where the handler has changed nothing.
pub fn show_copies(context: &mut UContext, interrupted: &Interrupted) {
    for (register, &hidden) in context.registers.iter_mut().zip(&interrupted.hidden) {
        if hidden != 0 && *register == 0 {
            *register = hidden;
        }
    }
}

/// Returns where a handler returns to that was shown the state `presented`, or has changed it to
/// that; with `interrupted` if it has not.
pub fn state_to_return_to(area: &Area, presented: &Machine, interrupted: Option<&Interrupted>) -> Machine {
    if !exact::may_enter(area.session.control) {
        exact::note_native(area, wire::control::NativeReason::Abandoned);
        return *presented;
    }
    let mut state = match interrupted {
        Some(interrupted) => {
            put_back(area, &interrupted.scratchpad);
            interrupted.truth
        }
        None => {
            exact::note_native(area, native_code::reason_at(presented.rip));
            *presented
        }
    };
    if let Some(twin) = twins::of_leader(state.rip) {
        exact::note_entry(area);
        state.rip = twin;
    }
    state
}

/// Returns what probes and the gate have in the header of the calling thread.
pub fn set_aside(area: &Area) -> Scratchpad {
    let header = area.raw();
    // SAFETY: the area is the calling thread's.
    unsafe {
        Scratchpad {
            saved: [
                (*header).scratch.saved_rax,
                (*header).scratch.saved_rcx,
                (*header).scratch.saved_rdx,
                (*header).scratch.saved_flags,
            ],
            target: (*header).scratch.target,
            twin: (*header).scratch.twin,
            frame: area.header().exact.frame.load(Relaxed),
            end_reason: area.header().burst.end_reason.load(Relaxed),
            system_call_number: (*header).system_calls.number,
            system_call_start: (*header).burst.system_call_start,
            events: events::underway(area),
            uncharged: exact::metric(area).wrapping_sub((*header).exact.charged),
            ended_metric: (*header).tables.ended_metric,
            access: [(*header).cache.line, (*header).cache.last_line, (*header).cache.has_missed],
            trigger: [area.header().burst.checks.load(Relaxed), area.header().trigger.is_instrumented.load(Relaxed)],
            hooked: Hooked::default(),
            was_native: exact::is_native(area),
        }
    }
}

fn put_back(area: &Area, scratchpad: &Scratchpad) {
    let header = area.raw();
    // SAFETY: the area is the calling thread's, which goes on where the scratchpad was taken.
    unsafe {
        [
            (*header).scratch.saved_rax,
            (*header).scratch.saved_rcx,
            (*header).scratch.saved_rdx,
            (*header).scratch.saved_flags,
        ] = scratchpad.saved;
        (*header).scratch.target = scratchpad.target;
        (*header).scratch.twin = scratchpad.twin;
        (*header).system_calls.number = scratchpad.system_call_number;
        (*header).burst.system_call_start = scratchpad.system_call_start;
        area.header().exact.frame.store(scratchpad.frame, Relaxed);
        area.header().burst.end_reason.store(scratchpad.end_reason, Relaxed);
        events::go_on(area, &scratchpad.events);
        let [checks, is_instrumented] = scratchpad.trigger;
        area.header().burst.checks.store(checks, Relaxed);
        area.header().trigger.is_instrumented.store(is_instrumented, Relaxed);
        // What the handler took is not the interrupted code's.
        (*header).exact.charged = exact::metric(area).wrapping_sub(scratchpad.uncharged);
        (*header).tables.ended_metric = scratchpad.ended_metric;
        [(*header).cache.line, (*header).cache.last_line, (*header).cache.has_missed] = scratchpad.access;
        (*header).exact.native_since = if scratchpad.was_native { clock::rdtsc() } else { 0 };
        if scratchpad.hooked.slot != 0 {
            hook::set(area, scratchpad.hooked);
        }
    }
}
