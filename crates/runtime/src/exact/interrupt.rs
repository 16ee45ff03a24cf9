//! Signals in exact mode: from what was interrupted to what a handler sees, and back.
//!
//! Whatever a signal interrupts, be it a copy, the gate, code of the kernel or the runtime: what
//! probes and the gate have in the thread's header is kept with it ([`crate::exact::resume`]),
//! because the handler runs in copies and uses the same fields.

use core::sync::atomic::Ordering::Relaxed;

use crate::bursts::recover::Machine;
use crate::bursts::{ending, twins};
use crate::events;
use crate::exact::hook::{self, Found};
use crate::exact::resume::{Hooked, Interrupted, N_REGISTERS, Scratchpad};
use crate::exact::{self, gate, gate_stack, native_code};
use crate::process::session;
use crate::sys::abi::{SigInfo, UContext, register};
use crate::sys::clock;
use crate::threads::area::Area;

/// Makes the code that the signal of `context` interrupted that of the program. Returns what it was
/// in truth, in exact mode.
pub fn leave_runtime(info: &mut SigInfo, context: &mut UContext) -> Option<Interrupted> {
    let Some(area) = own_area() else {
        ending::leave_copy(info, context);
        return None;
    };
    ending::settle(context);
    let truth = machine(context);
    let found = hook::unset(&area, context);
    let mut scratchpad = scratchpad(&area);
    let mut goes_on_at = gate::leave(&area, context);
    ending::leave_copy(info, context);
    match found {
        Found::Nothing => {}
        Found::Inside(hooked) => scratchpad.hooked = hooked,
        Found::Returned => goes_on_at = Some(gate::address()),
    }
    let truth = goes_on_at.map_or(truth, |rip| Machine { rip, ..machine(context) });
    let hidden = hide_copies(context);
    let presented = machine(context);
    Some(Interrupted { presented, truth, scratchpad, hidden })
}

/// Probes may leave addresses of copies in registers that the program does not need; no handler
/// shall see them.
fn hide_copies(context: &mut UContext) -> [u64; N_REGISTERS] {
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

/// Prepares the calling thread to run `handler` with its context at `context`. Returns where it has
/// to go for that.
pub fn enter_handler(handler: u64, context: u64, interrupted: Option<&Interrupted>) -> u64 {
    let Some(area) = own_area() else { return handler };
    // SAFETY: all signals are blocked.
    let records = unsafe { gate_stack::records(area.index) };
    match interrupted {
        Some(interrupted) => records.note(context, interrupted),
        None => records.forget(context),
    }
    area.header().exact.frame.store(0, Relaxed);
    exact::begin_handler_checks(&area);
    // SAFETY: the area is the calling thread's. All signals are blocked; what is under way has been
    // noted.
    unsafe {
        (*area.raw()).exact.charged = exact::metric(&area);
        events::begin_handler(&area);
    }
    exact::destination(handler)
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

fn own_area() -> Option<Area> {
    session::attached().and_then(Area::own)
}

fn scratchpad(area: &Area) -> Scratchpad {
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

/// Returns the registers that copies use for themselves.
pub fn machine(context: &UContext) -> Machine {
    let registers = &context.registers;
    Machine {
        rip: registers[register::RIP],
        rax: registers[register::RAX],
        rcx: registers[register::RCX],
        rdx: registers[register::RDX],
        flags: registers[register::FLAGS],
    }
}

/// Sets the registers that copies use for themselves.
pub fn restore(context: &mut UContext, state: &Machine) {
    let registers = &mut context.registers;
    registers[register::RIP] = state.rip;
    registers[register::RAX] = state.rax;
    registers[register::RCX] = state.rcx;
    registers[register::RDX] = state.rdx;
    registers[register::FLAGS] = state.flags;
}
