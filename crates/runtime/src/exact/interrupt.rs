//! Signals in exact mode: from what was interrupted to what a handler sees.
//!
//! Whatever a signal interrupts, be it a copy, the gate, code of the kernel or the runtime: what
//! probes and the gate have in the thread's header is kept with it ([`crate::exact::resume`]),
//! because the handler runs in copies and uses the same fields.

use core::sync::atomic::Ordering::Relaxed;

use crate::bursts::ending::{self, machine};
use crate::bursts::recover::Machine;
use crate::events;
use crate::exact::hook::{self, Found};
use crate::exact::resume::Interrupted;
use crate::exact::{self, gate, gate_stack, scratchpad};
use crate::process::session;
use crate::sys::abi::{SigInfo, UContext};
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
    let mut scratchpad = scratchpad::set_aside(&area);
    let mut goes_on_at = gate::leave(&area, context);
    ending::leave_copy(info, context);
    match found {
        Found::Nothing => {}
        Found::Inside(hooked) => scratchpad.hooked = hooked,
        Found::Returned => goes_on_at = Some(gate::address()),
    }
    let truth = goes_on_at.map_or(truth, |rip| Machine { rip, ..machine(context) });
    let hidden = scratchpad::hide_copies(context);
    let presented = machine(context);
    Some(Interrupted { presented, truth, scratchpad, hidden })
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

fn own_area() -> Option<Area> {
    session::attached().and_then(Area::own)
}
